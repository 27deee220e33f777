package condition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSet(t *testing.T) {
	before := metav1.NewTime(time.Unix(1_800_000_000, 0))
	conditions := []metav1.Condition{{Type: "Other", Status: metav1.ConditionTrue}, {Type: "Up", Status: metav1.ConditionFalse, LastTransitionTime: before}}
	for _, c := range []struct {
		finding Finding
		want    metav1.Condition
	}{
		{No("Down", "%d%% lost", 100), metav1.Condition{Status: metav1.ConditionFalse, Reason: "Down", Message: "100% lost"}},
		{Yes("Fine", "all is well"), metav1.Condition{Status: metav1.ConditionTrue, Reason: "Fine", Message: "all is well"}},
		{Unknown("Away", "%s", "nobody % answers"), metav1.Condition{Status: metav1.ConditionUnknown, Reason: "Away", Message: "nobody % answers"}},
	} {
		c.finding.Set(&conditions, "Up", 7)
		got := conditions[1]
		if got.Status == metav1.ConditionFalse {
			require.Equal(t, before, got.LastTransitionTime, "the status is what it was")
		} else {
			require.NotEqual(t, before, got.LastTransitionTime)
		}
		c.want.Type, c.want.ObservedGeneration, c.want.LastTransitionTime = "Up", 7, got.LastTransitionTime
		require.Equal(t, c.want, got)
	}
	require.Equal(t, metav1.Condition{Type: "Other", Status: metav1.ConditionTrue}, conditions[0], "stays as it is")
	conditions = nil
	Yes("Fine", "").Set(&conditions, "New", 1)
	require.Len(t, conditions, 1)
}
