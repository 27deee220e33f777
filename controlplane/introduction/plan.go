package introduction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiidentity "github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/condition"
	"github.com/weft-fabric/weft/controlplane/peering"
)

// planInput is all that the provider's half goes by.
type planInput struct {
	now         time.Time
	clusters    []v1alpha1.ForeignCluster
	introducers []introducer
	decisions   []decision
	parse       parser
	// left reports whether both ends have left the direct link to a cluster.
	left func(*v1alpha1.ForeignCluster) bool
}

// change is what becomes of one ForeignCluster.
type change struct {
	// have is nil if it is to be created.
	have *v1alpha1.ForeignCluster
	// want is nil if it is to be deleted.
	want *v1alpha1.ForeignCluster
	// grows: an introduction is added, so that the status is written first:
	// what its mode forbids never happens. Else it is written last, so that
	// traffic stays off a link that ends.
	grows bool
}

// specDiffers and statusDiffers report what there is to write.
func (c *change) specDiffers() bool {
	return !equality.Semantic.DeepEqual(c.have.Spec, c.want.Spec)
}

func (c *change) statusDiffers() bool {
	return !equality.Semantic.DeepEqual(c.have.Status, c.want.Status)
}

// plan returns every ForeignCluster that introductions concern, as it should
// be. What an admin made is changed in its status only.
func plan(in planInput) []change {
	wanted := map[v1alpha1.Identity][]decision{}
	for _, d := range in.decisions {
		if d.refusal == "" && d.from.connected {
			wanted[d.record.Identity()] = append(wanted[d.record.Identity()], d)
		}
	}
	known := byIdentity(in.clusters)
	var changes []change
	for _, fc := range known {
		if !fc.DeletionTimestamp.IsZero() {
			continue // it goes first, and is made anew if it is still introduced
		}
		if list := wanted[fc.Spec.Identity]; len(list)+len(fc.Status.Introductions)+len(fc.Spec.IntroducedBy) > 0 {
			changes = append(changes, in.update(fc, list))
		}
	}
	for id, list := range wanted {
		if known[id] == nil {
			changes = append(changes, in.create(id, list))
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(nameOf(&a), nameOf(&b)) })
	return changes
}

func nameOf(c *change) string {
	if c.have != nil {
		return c.have.Name
	}
	return c.want.Name
}

// create makes the ForeignCluster of an introduced cluster.
func (in planInput) create(id v1alpha1.Identity, wanted []decision) change {
	record, token := newest(wanted)
	fc := &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: peering.LocalName(record.ClusterID, id, in.clusters)},
		Spec: v1alpha1.ForeignClusterSpec{
			Identity: id, Record: token,
			Access: v1alpha1.AccessSpec{Pods: v1alpha1.PodAccessNone, Introductions: v1alpha1.IntroductionDeny, Introduced: v1alpha1.PodAccessNone},
		},
	}
	accepted := allowed(wanted)
	if !accepted {
		fc.Spec.Accepted = new(false)
	}
	fc.Status.Introductions = nextIntroductions(in.entries(fc, wanted, accepted))
	fc.Spec.IntroducedBy = in.introducedBy(fc, nil)
	stateAccepted(fc, accepted)
	return change{want: fc, grows: true}
}

// update brings a ForeignCluster up to the introductions that stand.
func (in planInput) update(have *v1alpha1.ForeignCluster, wanted []decision) change {
	want := have.DeepCopy()
	accepted := acceptance(want, wanted)
	want.Status.Introductions = nextIntroductions(in.entries(have, wanted, accepted))
	if record, token := newest(wanted); record != nil {
		in.renewRecord(want, record, token)
	}
	made := !have.Spec.MadeByAdmin()
	if made {
		want.Spec.IntroducedBy = in.introducedBy(want, have)
		if len(want.Spec.IntroducedBy) == 0 && len(want.Spec.ReachedThrough) == 0 {
			return change{have: have}
		}
		if len(want.Spec.IntroducedBy) == 0 {
			want.Spec.Accepted = nil // the next introduction is asked for anew
		}
	}
	if len(want.Status.Introductions) == 0 {
		want.Status.Introductions = nil
		meta.RemoveStatusCondition(&want.Status.Conditions, v1alpha1.ConditionAccepted)
	} else {
		stateAccepted(want, accepted)
	}
	return change{have: have, want: want, grows: grows(have.Status.Introductions, want.Status.Introductions)}
}

func (in planInput) entries(fc *v1alpha1.ForeignCluster, wanted []decision, accepted bool) entriesInput {
	made := !fc.Spec.MadeByAdmin() || fc.UID == ""
	return entriesInput{
		now: in.now, entries: fc.Status.Introductions, wanted: wanted, from: in.from,
		accepted: accepted, keepsLink: !made, left: made && fc.UID != "" && in.left(fc),
		moved: func(e v1alpha1.IntroductionStatus) bool {
			return slices.ContainsFunc(in.decisions, func(d decision) bool {
				return d.from.identity == e.Identity && d.in.UID == e.UID && d.record != nil && d.record.Identity() != fc.Spec.Identity
			})
		},
		removing: func(e v1alpha1.IntroductionStatus) bool {
			return made && !slices.Contains(fc.Spec.IntroducedBy, reference(e.Introducer, e.Connection))
		},
	}
}

func (in planInput) from(id v1alpha1.Identity) *introducer {
	for i := range in.introducers {
		if in.introducers[i].identity == id {
			return &in.introducers[i]
		}
	}
	return nil
}

// acceptance reports whether nobody has to agree any more, and asks in the spec
// if somebody has to: an object that says neither was made for a hub alone.
func acceptance(fc *v1alpha1.ForeignCluster, wanted []decision) bool {
	switch {
	case fc.Spec.MadeByAdmin() || fc.Spec.Accepted != nil || len(fc.Spec.IntroducedBy) > 0:
		return fc.Spec.IsAccepted()
	case len(wanted) == 0 || allowed(wanted):
		return true
	}
	fc.Spec.Accepted = new(false)
	return false
}

// allowed reports whether one of the introducers needs not ask.
func allowed(wanted []decision) bool {
	return slices.ContainsFunc(wanted, func(d decision) bool { return !d.ask })
}

// introducedBy names the introductions that stand. One without an entry is from
// before a crash: it stays until its introducer is heard.
func (in planInput) introducedBy(want, have *v1alpha1.ForeignCluster) []string {
	var out []string
	for _, e := range want.Status.Introductions {
		out = append(out, reference(e.Introducer, e.Connection))
	}
	if have != nil {
		had := map[string]bool{}
		for _, e := range have.Status.Introductions {
			had[reference(e.Introducer, e.Connection)] = true
		}
		for _, r := range have.Spec.IntroducedBy {
			if !had[r] && in.unheard(r) {
				out = append(out, r)
			}
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxEntries)]
}

// unheard reports whether the introducer of a reference is there, but has not
// said anything yet.
func (in planInput) unheard(reference string) bool {
	name, _, _ := strings.Cut(reference, "/")
	return slices.ContainsFunc(in.introducers, func(i introducer) bool { return i.name == name && i.list == nil })
}

// renewRecord notes a newer record than those that are known; it is signed, so
// whoever carries it does not matter.
func (in planInput) renewRecord(fc *v1alpha1.ForeignCluster, record *apiidentity.Record, token string) {
	for _, known := range []string{fc.Spec.Record, fc.Status.Record} {
		if r, err := in.parse(known); err == nil && !record.NewerThan(r) {
			return
		}
	}
	fc.Status.Record = token
}

func newest(wanted []decision) (*apiidentity.Record, string) {
	var record *apiidentity.Record
	token := ""
	for i := range wanted {
		if wanted[i].record.NewerThan(record) {
			record, token = wanted[i].record, wanted[i].in.Record
		}
	}
	return record, token
}

func grows(have, want []v1alpha1.IntroductionStatus) bool {
	return slices.ContainsFunc(want, func(e v1alpha1.IntroductionStatus) bool {
		return e.State != v1alpha1.IntroductionEnding && !slices.ContainsFunc(have, func(h v1alpha1.IntroductionStatus) bool {
			return h.Identity == e.Identity && h.Connection == e.Connection
		})
	})
}

// stateAccepted fills in condition Accepted.
func stateAccepted(fc *v1alpha1.ForeignCluster, accepted bool) {
	by := map[string]bool{}
	var names []string
	for _, e := range fc.Status.Introductions {
		if !by[e.Introducer] {
			by[e.Introducer] = true
			names = append(names, e.Introducer)
		}
	}
	f := condition.Yes(string(v1alpha1.IntroductionAccepted), "introduced by %s", strings.Join(names, ", "))
	if !accepted {
		f = condition.No(v1alpha1.ReasonAwaitingApproval, "%s; it was introduced by %s", approval(fc.Name), strings.Join(names, ", "))
	}
	f.Set(&fc.Status.Conditions, v1alpha1.ConditionAccepted, fc.Generation)
}

// approval says what an admin has to do.
func approval(name string) string {
	return fmt.Sprintf("an admin has to accept ForeignCluster %s there (weftctl access %s --accept, or set spec.accepted to true)", name, name)
}
