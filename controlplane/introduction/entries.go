package introduction

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const (
	// endsWithin bounds how long a link that ends waits for both ends to leave it.
	endsWithin = 10 * time.Second
	// maxEntries is what status.introductions and spec.introducedBy hold.
	maxEntries = 64
	// A lease is written anew when this part of it has passed: 1/4.
	leasePart = 4
)

// entriesInput is what nextIntroductions looks at, all of one cluster.
type entriesInput struct {
	now     time.Time
	entries []v1alpha1.IntroductionStatus
	// wanted are the admitted introductions of this cluster by those whose channel
	// is up. One that is not heard changes nothing.
	wanted []decision
	// from returns who made an entry, nil if it is no neighbor any more.
	from func(v1alpha1.Identity) *introducer
	// accepted: nobody has to agree any more.
	accepted bool
	// keepsLink: the cluster is peered anyway, so that no link ends.
	keepsLink bool
	// left: both ends have left the direct link, and know it of each other.
	left bool
	// moved reports whether its introducer names another cluster by it now.
	moved func(v1alpha1.IntroductionStatus) bool
	// removing reports whether the end of an entry has begun to be written.
	removing func(v1alpha1.IntroductionStatus) bool
}

// nextIntroductions returns status.introductions as it should be. Of several
// introductions only the last one's end is the link's; that takes as long as
// both ends need to leave it, within a bound.
func nextIntroductions(in entriesInput) []v1alpha1.IntroductionStatus {
	out, ending := []v1alpha1.IntroductionStatus{}, []v1alpha1.IntroductionStatus{}
	linked := false
	used := make([]bool, len(in.wanted))
	for _, e := range in.entries {
		at := slices.IndexFunc(in.wanted, func(d decision) bool {
			return d.from.identity == e.Identity && d.in.Connection == e.Connection
		})
		switch {
		case at >= 0 && !used[at]:
			used[at] = true
			e = entryOf(&in.wanted[at], e, in)
		case e.State == v1alpha1.IntroductionEnding || withdrawn(&e, in.from(e.Identity), in.now) || in.moved(e):
			ending = append(ending, e)
			continue
		default:
			e.State = stateOf(in.accepted)
		}
		linked = linked || e.State == v1alpha1.IntroductionAccepted
		out = append(out, e)
	}
	for i := range in.wanted {
		if !used[i] && len(out) < maxEntries {
			out = append(out, entryOf(&in.wanted[i], v1alpha1.IntroductionStatus{}, in))
			linked = linked || in.accepted
		}
	}
	if !linked && !in.keepsLink {
		for _, e := range ending {
			if e, stays := end(e, in); stays && len(out) < maxEntries {
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.IntroductionStatus) int {
		return cmp.Or(cmp.Compare(a.Introducer, b.Introducer), cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.UID, b.UID))
	})
	return out
}

// entryOf brings an entry up to what its introducer says.
func entryOf(d *decision, had v1alpha1.IntroductionStatus, in entriesInput) v1alpha1.IntroductionStatus {
	e := v1alpha1.IntroductionStatus{
		Introducer: d.from.name, Identity: d.from.identity, Connection: d.in.Connection, UID: d.in.UID,
		Mode: d.in.Mode, MTU: d.in.MTU, State: stateOf(in.accepted),
	}
	if had.State != v1alpha1.IntroductionEnding {
		e.Expires = had.Expires // that of an ending one is another
	}
	e.Expires = renew(e.Expires, d.in.Lease, in.now)
	return e
}

// renew returns when a lease runs out. It is written seldom: the deadline moves
// only when a good part of the lease has passed.
func renew(expires *metav1.Time, lease time.Duration, now time.Time) *metav1.Time {
	if lease <= 0 {
		return nil
	}
	full := metav1.NewTime(now.Add(lease).Truncate(time.Second))
	if expires != nil {
		if behind := full.Sub(expires.Time); behind >= 0 && behind < lease/leasePart {
			return expires
		}
	}
	return &full
}

func stateOf(accepted bool) v1alpha1.IntroductionState {
	if accepted {
		return v1alpha1.IntroductionAccepted
	}
	return v1alpha1.IntroductionAwaitingApproval
}

// end takes the last introduction of a link a step towards its end.
func end(e v1alpha1.IntroductionStatus, in entriesInput) (v1alpha1.IntroductionStatus, bool) {
	if e.State == v1alpha1.IntroductionEnding {
		return e, stillEnding(e, in)
	}
	if e.State != v1alpha1.IntroductionAccepted || !in.accepted || in.removing(e) {
		return e, false // there is no link
	}
	deadline := metav1.NewTime(in.now.Add(endsWithin).Truncate(time.Second))
	e.State, e.Expires = v1alpha1.IntroductionEnding, &deadline
	return e, true
}

func stillEnding(e v1alpha1.IntroductionStatus, in entriesInput) bool {
	return !in.left && !in.removing(e) && e.Expires != nil && in.now.Before(e.Expires.Time)
}
