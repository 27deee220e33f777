package introduction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/condition"
)

const (
	// Reasons of condition Introductions.
	reasonAllTaken    = "AllTaken"
	reasonNotAllTaken = "NotAllTaken"
	// maxNamed is how many introductions that condition names.
	maxNamed = 8
	// figuresEvery is how often figures alone change a report.
	figuresEvery = 5 * time.Second
)

// held reports whether an acceptance is not told yet: Require fails closed from
// the moment of acceptance, so its path policy has to be in place first.
// closed reports whether it is.
func held(e *v1alpha1.IntroductionStatus, last told, closed bool) bool {
	return e.State == v1alpha1.IntroductionAccepted && e.Mode == v1alpha1.ModeRequire &&
		last.report.State != string(v1alpha1.IntroductionAccepted) && !closed
}

// figures is what this cluster measures of its way to another one.
type figures struct {
	podCIDR, remapped v1alpha1.CIDR
	active            string
	directUp          bool
	directRTT, hubRTT int64 // microseconds
	loss              int32
	mtu               int32
	// closed: no gateway sends payload over a hub or takes it from one.
	closed bool
}

// figuresOf reads them from the Neighbor and from what the gateways' probes saw.
// With several gateways the traffic is direct when all of it is.
func figuresOf(neighbor *v1alpha1.Neighbor, config *v1alpha1.FabricConfig, paths []agent.Path, ownMTU int32) figures {
	f := figures{active: channel.PathNone}
	if config != nil {
		for _, n := range config.Status.Networks {
			if n.Kind == v1alpha1.NetworkPod && f.podCIDR == "" {
				f.podCIDR = n.CIDR
			}
		}
	}
	if neighbor == nil {
		return f
	}
	f.mtu = least(neighbor.Spec.MTU, ownMTU)
	for _, n := range neighbor.Spec.Networks {
		if n.Kind == v1alpha1.NetworkPod && f.remapped == "" {
			f.remapped = n.Local
		}
	}
	for i := range paths {
		if p := &paths[i]; p.Cluster == neighbor.Name && p.ClusterIndex == neighbor.Spec.ClusterIndex && p.State == v1alpha1.PathUp {
			f.add(p)
		}
	}
	return f
}

// add takes a path that is up.
func (f *figures) add(p *agent.Path) {
	best := &f.hubRTT
	if p.Direct() {
		best, f.directUp = &f.directRTT, true
		if f.directRTT == 0 || p.RTTMicroseconds < f.directRTT {
			f.loss = p.LossPermille
		}
	}
	if *best == 0 || p.RTTMicroseconds < *best {
		*best = p.RTTMicroseconds
	}
	switch {
	case p.Active && !p.Direct():
		f.active = channel.PathHub
	case p.Active && f.active == channel.PathNone:
		f.active = channel.PathDirect
	}
}

// least of two MTUs or waits, of which 0 is none.
func least[T int32 | time.Duration](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// reportsTo returns what an introducer is told: of each introduction that it
// makes, and of each of its that stands or ends still; last is what it was told
// before.
func reportsTo(from *introducer, decisions []decision, clusters []v1alpha1.ForeignCluster, measured func(name string) figures, last map[string]told) []channel.Report {
	out := []channel.Report{}
	known := map[string]bool{}
	for i := range clusters {
		fc := &clusters[i]
		for _, e := range fc.Status.Introductions {
			if e.Identity != from.identity || known[e.UID] || !fc.DeletionTimestamp.IsZero() {
				continue
			}
			if f := measured(fc.Name); !held(&e, last[e.UID], f.closed) {
				known[e.UID] = true
				out = append(out, reportOf(fc, &e, f))
			}
		}
	}
	for i := range decisions {
		d := &decisions[i]
		if d.from != from || d.refusal == "" {
			continue
		}
		refused := channel.Report{UID: d.in.UID, State: d.refusal, Message: d.message, ActivePath: channel.PathNone}
		at := slices.IndexFunc(out, func(r channel.Report) bool { return r.UID == d.in.UID })
		switch {
		case at < 0:
			out = append(out, refused)
		case out[at].State != string(v1alpha1.IntroductionEnding): // which its introducer waits for
			out[at].State, out[at].Message = refused.State, refused.Message
		}
	}
	slices.SortFunc(out, func(a, b channel.Report) int { return cmp.Compare(a.UID, b.UID) })
	return out[:min(len(out), channel.MaxReports)]
}

// reportOf tells of one that stands.
func reportOf(fc *v1alpha1.ForeignCluster, e *v1alpha1.IntroductionStatus, f figures) channel.Report {
	r := channel.Report{
		UID: e.UID, State: string(e.State), PodCIDR: f.podCIDR, RemappedPodCIDR: f.remapped,
		ActivePath: f.active, DirectUp: f.directUp, DirectRTT: f.directRTT, HubRTT: f.hubRTT,
		DirectLossPermille: f.loss, MTU: f.mtu,
	}
	switch {
	case e.State == v1alpha1.IntroductionAwaitingApproval:
		r.Message = approval(fc.Name)
	case e.State == v1alpha1.IntroductionAccepted && !f.directUp:
		r.Message = trouble(fc)
	}
	return r
}

// trouble is the first condition that keeps a link from coming up, empty if it
// is only the probes.
func trouble(fc *v1alpha1.ForeignCluster) string {
	for _, kind := range []string{v1alpha1.ConditionRecordValid, v1alpha1.ConditionChannelReady, v1alpha1.ConditionNetworksReady} {
		if c := meta.FindStatusCondition(fc.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// stateIntroductions fills in an introducer's condition.
func stateIntroductions(fc *v1alpha1.ForeignCluster, decisions []decision, reports []channel.Report) {
	connections := map[string]string{}
	for i := range decisions {
		if d := &decisions[i]; d.from.name == fc.Name {
			connections[d.in.UID] = d.title()
		}
	}
	if len(connections) == 0 {
		meta.RemoveStatusCondition(&fc.Status.Conditions, v1alpha1.ConditionIntroductions)
		return
	}
	var lines []string
	taken := true
	for _, r := range reports {
		title, told := connections[r.UID]
		if !told {
			continue
		}
		line := title + ": " + r.State
		if r.State != string(v1alpha1.IntroductionAccepted) {
			taken = false
			if r.Message != "" {
				line += ", " + r.Message
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	more := ""
	if len(lines) > maxNamed {
		more = fmt.Sprintf("; and %d more", len(lines)-maxNamed)
		lines = lines[:maxNamed]
	}
	f := condition.Yes(reasonAllTaken, "%s%s", strings.Join(lines, "; "), more)
	if !taken {
		f = condition.No(reasonNotAllTaken, "%s%s", strings.Join(lines, "; "), more)
	}
	f.Set(&fc.Status.Conditions, v1alpha1.ConditionIntroductions, fc.Generation)
}

// title names an introduction for people here.
func (d *decision) title() string {
	if d.record == nil {
		return d.in.Connection
	}
	return fmt.Sprintf("%s (cluster %s)", d.in.Connection, d.record.ClusterID)
}

// told is what an introducer was told of one introduction, and when.
type told struct {
	report channel.Report
	at     time.Time
}

// pacedReports keeps what was told where only figures differ and it was told a
// short while ago. It fills in since when the path is what it is. memory is of
// the introducer, by UID.
func pacedReports(reports []channel.Report, memory map[string]told, now time.Time) ([]channel.Report, map[string]told) {
	out := make([]channel.Report, 0, len(reports))
	next := map[string]told{}
	for _, r := range reports {
		last, known := memory[r.UID]
		if known && last.report.ActivePath == r.ActivePath {
			r.Since = last.report.Since
		} else {
			r.Since = now.UTC().Truncate(time.Second)
		}
		if known && withoutFigures(last.report) == withoutFigures(r) && now.Sub(last.at) < figuresEvery {
			r = last.report
		}
		if known && last.report == r {
			next[r.UID] = last
		} else {
			next[r.UID] = told{r, now}
		}
		out = append(out, r)
	}
	return out, next
}

func withoutFigures(r channel.Report) channel.Report {
	r.DirectRTT, r.HubRTT, r.DirectLossPermille = 0, 0, 0
	return r
}
