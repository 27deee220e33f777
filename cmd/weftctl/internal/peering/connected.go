package peering

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

// Connected reports whether probes over the data path are answered, and if not
// the first condition that is missing, in the order in which they come true.
func Connected(fcl *v1alpha1.ForeignCluster) (bool, string) {
	kind, condition := missing(fcl)
	switch {
	case kind == "":
		return true, ""
	case condition == nil:
		return false, "waiting for weft-controller to report " + kind + " of " + fcl.Name
	}
	return false, fmt.Sprintf("%s is not %s yet: %s", fcl.Name, kind, condition.Message)
}

// missing is the first condition that is not true, nil if it is not reported;
// the kind is empty if the cluster is connected.
func missing(fcl *v1alpha1.ForeignCluster) (kind string, condition *metav1.Condition) {
	if meta.IsStatusConditionTrue(fcl.Status.Conditions, v1alpha1.ConditionConnected) {
		return "", nil
	}
	for _, kind := range []string{
		v1alpha1.ConditionRecordValid, v1alpha1.ConditionChannelReady, v1alpha1.ConditionNetworksReady, v1alpha1.ConditionConnected,
	} {
		if c := meta.FindStatusCondition(fcl.Status.Conditions, kind); c == nil || c.Status != metav1.ConditionTrue {
			return kind, c
		}
	}
	return v1alpha1.ConditionConnected, nil
}

// awaited says what a side waits for that has just been peered. What time alone
// does not mend is said in the words of weft-controller.
func awaited(fcl *v1alpha1.ForeignCluster) string {
	_, condition := missing(fcl)
	if condition == nil {
		return "waiting for weft-controller to look at " + fcl.Name
	}
	switch condition.Reason {
	case v1alpha1.ReasonDialing, v1alpha1.ReasonPeerLeft: // left before, and peered again now
		return fmt.Sprintf("waiting for weft-controller of %s to be reached", fcl.Name)
	case v1alpha1.ReasonWaitingForPeer:
		return fmt.Sprintf("waiting for %s to say which networks and addresses it has", fcl.Name)
	case v1alpha1.ReasonWaitingForAgents:
		return fmt.Sprintf("waiting for the gateways here to take up the networks of %s", fcl.Name)
	case v1alpha1.ReasonProbing:
		return fmt.Sprintf("waiting for the first answer to a probe through the tunnel to %s", fcl.Name)
	}
	_, message := Connected(fcl)
	return message
}

// unconnected says what the sides that do not see the other yet wait for; the
// error is why, as weft-controller says it.
func unconnected(ctx context.Context, sides []Side, outcomes []Outcome) (string, error) {
	var lines, causes []string
	for i, side := range sides {
		id, fcl := outcomes[i].ClusterID, &v1alpha1.ForeignCluster{}
		if err := side.Get(ctx, client.ObjectKey{Name: outcomes[i].Peer}, fcl); err != nil {
			return fmt.Sprintf("%s: waiting for its API server to show ForeignCluster %s", id, outcomes[i].Peer),
				fmt.Errorf("cluster %s: %w", id, kube.Explain(err, "read", "ForeignCluster "+outcomes[i].Peer))
		}
		outcomes[i].Networks = fcl.Status.Networks
		outcomes[i].Connected, outcomes[i].Message = Connected(fcl)
		if !outcomes[i].Connected {
			lines = append(lines, fmt.Sprintf("%s: %s", id, awaited(fcl)))
			causes = append(causes, fmt.Sprintf("%s: %s", id, outcomes[i].Message))
		}
	}
	if len(lines) == 0 {
		return "", nil
	}
	return strings.Join(lines, "; "), errors.New(strings.Join(causes, "; "))
}
