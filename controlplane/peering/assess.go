// Package peering turns a ForeignCluster and what the peer says over the
// channel into the Neighbor that the agents follow, and tells in conditions how
// far the peering has come.
package peering

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Verdict is what the ForeignCluster objects alone say of one of them.
type Verdict struct {
	// Record is the newest valid one, nil if there is none; Token its text.
	Record *identity.Record
	Token  string
	// Reason and Message of condition RecordValid; Valid is its status.
	Valid   bool
	Reason  string
	Message string
	// Duplicate names the older ForeignCluster with the same identity.
	Duplicate string
}

// Usable reports whether a peering can follow from it.
func (v Verdict) Usable() bool {
	return v.Record != nil && v.Duplicate == "" && v.Reason != ReasonOwnIdentity
}

// Assess checks a ForeignCluster against its identity, our own and all others.
// said are records that came over channels; empty ones count as none. A bad record
// in the spec does not take back a good one that is known already.
func Assess(fc *v1alpha1.ForeignCluster, all []v1alpha1.ForeignCluster, self v1alpha1.Identity, said ...string) Verdict {
	if fc.Spec.Identity == self {
		return Verdict{Reason: ReasonOwnIdentity, Message: "this is the identity of this cluster itself: use the record of the other cluster (weftctl record, run there)"}
	}
	v := Verdict{Valid: true, Reason: ReasonValid}
	record, err := verify(fc.Spec.Record, fc.Spec.Identity)
	if err != nil {
		v.Valid, v.Reason, v.Message = false, ReasonInvalidRecord, "spec.record is refused: "+err.Error()
	} else {
		v.Record, v.Token = record, fc.Spec.Record
	}
	for _, token := range append([]string{fc.Status.Record}, said...) {
		if token == "" || token == v.Token {
			continue
		}
		if other, err := verify(token, fc.Spec.Identity); err == nil && other.NewerThan(v.Record) {
			v.Record, v.Token = other, token
		}
	}
	if v.Valid {
		v.Message = fmt.Sprintf("signed by the identity; cluster %s, %s%s", v.Record.ClusterID, plural(len(v.Record.Gateways), "gateway"), maker(fc))
	}
	relate(&v, fc, all)
	return v
}

// maker says why the controller made a ForeignCluster, and what ends it.
func maker(fc *v1alpha1.ForeignCluster) string {
	if fc.Spec.MadeByAdmin() {
		return ""
	}
	var why []string
	if hubs := fc.Spec.ReachedThrough; len(hubs) > 0 {
		why = append(why, "hub "+strings.Join(hubs, ", ")+" leads to it (spec.access.transit.useAsHub there)")
	}
	if by := fc.Spec.IntroducedBy; len(by) > 0 {
		why = append(why, strings.Join(by, ", ")+" introduces it (spec.access.introductions there)")
	}
	return "; weft-controller made this object, and makes it again if it is deleted, because " + strings.Join(why, ", and ")
}

func verify(token string, id v1alpha1.Identity) (*identity.Record, error) {
	record, err := identity.ParseRecord(token)
	if err != nil {
		return nil, err
	}
	if record.Identity() != id {
		return nil, fmt.Errorf("it belongs to identity %s, not to the one in spec.identity", record.Identity())
	}
	return record, nil
}

// relate compares with the other ForeignClusters.
func relate(v *Verdict, fc *v1alpha1.ForeignCluster, all []v1alpha1.ForeignCluster) {
	for i := range all {
		other := &all[i]
		if other.UID == fc.UID {
			continue
		}
		if other.Spec.Identity == fc.Spec.Identity && older(other, fc) && counts(other) {
			v.Duplicate = other.Name
			return
		}
		if v.Valid && v.Record != nil && other.Spec.Identity != fc.Spec.Identity && other.Status.ClusterID == v.Record.ClusterID {
			v.Message += fmt.Sprintf("; ForeignCluster %s is another cluster with the same ID %s: if their names would collide, choose another local name (metadata.name)",
				other.Name, v.Record.ClusterID)
			return
		}
	}
}

// counts reports whether a ForeignCluster holds its identity: a forged record
// must not keep the true one out.
func counts(fc *v1alpha1.ForeignCluster) bool {
	if slices.Contains(fc.Finalizers, v1alpha1.Finalizer) {
		return true // it was good once, and its peering stands
	}
	_, err := verify(fc.Spec.Record, fc.Spec.Identity)
	return err == nil
}

// older orders ForeignClusters by creation, then by name.
func older(a, b *v1alpha1.ForeignCluster) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
