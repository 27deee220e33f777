// Package condition makes the conditions of statuses.
package condition

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finding is the status of one condition, of which it does not know the type.
type Finding struct {
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

// Yes finds that a condition is true.
func Yes(reason, format string, args ...any) Finding {
	return Finding{metav1.ConditionTrue, reason, fmt.Sprintf(format, args...)}
}

// No finds that a condition is false.
func No(reason, format string, args ...any) Finding {
	return Finding{metav1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
}

// Unknown finds that nobody can tell whether a condition is true.
func Unknown(reason, format string, args ...any) Finding {
	return Finding{metav1.ConditionUnknown, reason, fmt.Sprintf(format, args...)}
}

// Set writes the finding into the condition of that type.
func (f Finding) Set(conditions *[]metav1.Condition, kind string, generation int64) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: f.Status, Reason: f.Reason, Message: f.Message, ObservedGeneration: generation,
	})
}
