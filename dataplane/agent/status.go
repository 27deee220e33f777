package agent

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/node"
	"github.com/weft-fabric/weft/dataplane/plan"
	"github.com/weft-fabric/weft/dataplane/source"
)

// Reasons of a FabricNode's condition Ready.
const (
	reasonApplied        = "Applied"
	reasonRefused        = "PartlyRefused" // True: the rest works
	reasonWaiting        = "Waiting"
	reasonApplyFailed    = "ApplyFailed"
	reasonTearDownFailed = "TearDownFailed"
	reasonNoFabricConfig = "NoFabricConfig"
)

// maxMessage bounds a condition's message, in bytes.
const maxMessage = 2048

// maxPodPrefixes is what FabricNode.status.podPrefixes holds.
const maxPodPrefixes = 4096

// statusInput is what a FabricNode's status depends on.
type statusInput struct {
	// previous is the status as last published.
	previous    v1alpha1.FabricNodeStatus
	facts       node.Facts
	pods        []v1alpha1.CIDR
	certificate string
	plan        *plan.Plan
	report      apply.Report
	problems    []plan.Problem
	err         error // of the last apply
	generation  int64
	now         metav1.Time
}

// composeStatus says what this node tells the cluster. What an apply that
// failed leaves open stays as last published.
func composeStatus(in statusInput) v1alpha1.FabricNodeStatus {
	status := v1alpha1.FabricNodeStatus{
		UnderlayAddress: in.facts.Underlay.String(), UnderlayMTU: int32(in.facts.UnderlayMTU),
		PodPrefixes: in.pods, Occupied: cidrs(in.facts.Occupied), AgentCertificate: in.certificate,
		Applied: in.previous.Applied, Lanes: in.previous.Lanes,
		Conditions: append([]metav1.Condition(nil), in.previous.Conditions...),
	}
	if in.err == nil {
		status.Applied = in.plan.Names.Neighbors
	}
	if in.err == nil || len(in.report.Lanes) > 0 {
		status.Lanes = lanes(in.report.Lanes)
	}
	condition := readyCondition(&in)
	condition.ObservedGeneration, condition.LastTransitionTime = in.generation, in.now
	meta.SetStatusCondition(&status.Conditions, condition)
	return status
}

func readyCondition(in *statusInput) metav1.Condition {
	said := strings.Join(sentences(in.problems, in.report.Warnings), "; ")
	switch {
	case in.err != nil:
		return ready(metav1.ConditionFalse, reasonApplyFailed, in.err.Error())
	case in.plan.Overlay == nil:
		return ready(metav1.ConditionFalse, reasonWaiting, said)
	case said != "":
		return ready(metav1.ConditionTrue, reasonRefused, said)
	}
	return ready(metav1.ConditionTrue, reasonApplied, "the node is as planned")
}

func sentences(problems []plan.Problem, warnings []apply.Warning) []string {
	var out []string
	for _, p := range problems {
		out = append(out, p.String())
	}
	for _, w := range warnings {
		out = append(out, w.Message)
	}
	return out
}

func ready(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	message = strings.ReplaceAll(message, "\n", "; ")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-4], "") + " ..."
	}
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message}
}

// tornDownStatus is the status of a node without Weft.
func tornDownStatus(reason string, err error, now metav1.Time) v1alpha1.FabricNodeStatus {
	condition := ready(metav1.ConditionFalse, reason, "everything that Weft made on this node is removed")
	if err != nil {
		condition = ready(metav1.ConditionFalse, reasonTearDownFailed, fmt.Sprintf("removing Weft from this node failed, trying again: %v", err))
	}
	condition.LastTransitionTime = now
	return v1alpha1.FabricNodeStatus{Conditions: []metav1.Condition{condition}}
}

// podPrefixes are the pods of this node, one prefix each; as last published
// while the pods are not known.
func podPrefixes(snapshot *source.Snapshot, published []v1alpha1.CIDR) []v1alpha1.CIDR {
	if !snapshot.PodsSynced {
		return published
	}
	var out []v1alpha1.CIDR
	for _, a := range snapshot.Pods[:min(len(snapshot.Pods), maxPodPrefixes)] {
		out = append(out, v1alpha1.CIDR(netip.PrefixFrom(a, a.BitLen()).String()))
	}
	return out
}

func cidrs(list []netip.Prefix) []v1alpha1.CIDR {
	var out []v1alpha1.CIDR
	for _, p := range list {
		out = append(out, v1alpha1.CIDR(p.String()))
	}
	return out
}

func lanes(facts []apply.LaneFact) []v1alpha1.LaneStatus {
	var out []v1alpha1.LaneStatus
	for _, f := range facts {
		out = append(out, v1alpha1.LaneStatus{
			Name: f.Device, Port: int32(f.Port), PublicKey: base64.StdEncoding.EncodeToString(f.PublicKey[:]), Kernel: !f.Userspace,
		})
	}
	return out
}
