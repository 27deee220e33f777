package introduction

import (
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apiidentity "github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// member is a cluster with a key of its own.
type member struct {
	name   string
	key    ed25519.PrivateKey
	id     v1alpha1.Identity
	record string
}

func newMember(t *testing.T, name string) member {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, name)
	m := member{name: name, key: ed25519.NewKeyFromSeed(seed)}
	m.id = apiidentity.Fingerprint(m.key.Public().(ed25519.PublicKey))
	m.record = m.sign(t, 1)
	return m
}

func (m *member) sign(t *testing.T, serial uint64) string {
	t.Helper()
	record := apiidentity.Record{ClusterID: v1alpha1.ClusterID(m.name), Epoch: 1, Serial: serial}
	token, err := record.Sign(m.key)
	require.NoError(t, err)
	return token
}

// world is cluster a, to which others are introduced, as its provider's half
// sees it.
type world struct {
	t           *testing.T
	now         time.Time
	clusters    map[string]*v1alpha1.ForeignCluster
	introducers map[string]*introducer
	left        bool
	records     parsed
	a, b, c, d  member
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, now: time.Unix(1e9, 0), clusters: map[string]*v1alpha1.ForeignCluster{}, introducers: map[string]*introducer{},
		a: newMember(t, "a"), b: newMember(t, "b"), c: newMember(t, "c"), d: newMember(t, "d"),
	}
	w.neighbor(w.c, v1alpha1.IntroductionAllow)
	return w
}

// neighbor is peered by an admin; it has said that it introduces nobody.
func (w *world) neighbor(m member, policy v1alpha1.IntroductionPolicy) {
	fc := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: m.name, UID: types.UID(m.name)}}
	fc.Spec = v1alpha1.ForeignClusterSpec{Identity: m.id, Record: m.record, Access: v1alpha1.AccessSpec{Introductions: policy}}
	w.clusters[m.name] = fc
	w.introducers[m.name] = &introducer{name: m.name, identity: m.id, policy: policy, connected: true, list: []channel.Introduction{}}
}

func introduce(m member, connection string) channel.Introduction {
	return channel.Introduction{Connection: connection, UID: "uid-" + connection, Record: m.record, Mode: v1alpha1.ModePrefer}
}

func (w *world) says(by string, list ...channel.Introduction) {
	w.introducers[by].list = append([]channel.Introduction{}, list...)
}

// turn plans and carries out; it returns the decisions and the changes.
func (w *world) turn() ([]decision, []change) {
	w.t.Helper()
	w.records.turn()
	in := planInput{now: w.now, parse: w.records.parse, left: func(*v1alpha1.ForeignCluster) bool { return w.left }}
	for _, fc := range w.clusters {
		in.clusters = append(in.clusters, *fc.DeepCopy())
		if from := w.introducers[fc.Name]; from != nil {
			from.policy = fc.Spec.Access.Introductions
			in.introducers = append(in.introducers, *from)
		}
	}
	for i := range in.introducers {
		for _, item := range in.introducers[i].list {
			in.decisions = append(in.decisions, admit(&in.introducers[i], item, w.a.id, w.records.parse))
		}
	}
	var real []change
	for _, c := range plan(in) {
		switch {
		case c.want == nil:
			require.False(w.t, c.have.Spec.MadeByAdmin(), "an admin's object is never deleted")
			delete(w.clusters, c.have.Name)
		case c.have == nil:
			require.False(w.t, c.want.Spec.MadeByAdmin())
			c.want.UID = types.UID(c.want.Name)
			w.clusters[c.want.Name] = c.want
		default:
			if c.have.Spec.MadeByAdmin() {
				require.Equal(w.t, c.have.Spec, c.want.Spec, "an admin's object is altered in its status only")
			} else {
				require.False(w.t, c.want.Spec.MadeByAdmin(), "it must never look like an admin's")
			}
			if !c.specDiffers() && !c.statusDiffers() {
				continue
			}
			w.clusters[c.want.Name] = c.want
		}
		real = append(real, c)
	}
	return in.decisions, real
}

// settled requires that another turn changes nothing.
func (w *world) settled() {
	w.t.Helper()
	_, changes := w.turn()
	require.Empty(w.t, changes)
}

func (w *world) states(name string) []v1alpha1.IntroductionState {
	var out []v1alpha1.IntroductionState
	for _, e := range w.clusters[name].Status.Introductions {
		out = append(out, e.State)
	}
	return out
}

const (
	accepted = v1alpha1.IntroductionAccepted
	awaiting = v1alpha1.IntroductionAwaitingApproval
	ending   = v1alpha1.IntroductionEnding
)

// C introduces B, later does so no more: a ForeignCluster is made, its link ends
// in order, and it goes.
func TestIntroducedAndWithdrawn(t *testing.T) {
	w := newWorld(t)
	w.says("c", introduce(w.b, "ab"))
	w.turn()
	fc := w.clusters["b"]
	require.Equal(t, w.b.id, fc.Spec.Identity)
	require.Equal(t, []string{"c/ab"}, fc.Spec.IntroducedBy)
	require.True(t, fc.Spec.Direct())
	require.Equal(t, []v1alpha1.IntroductionState{accepted}, w.states("b"))
	require.True(t, meta.IsStatusConditionTrue(fc.Status.Conditions, v1alpha1.ConditionAccepted))
	w.settled()

	w.says("c")
	w.turn()
	require.Equal(t, []v1alpha1.IntroductionState{ending}, w.states("b"))
	require.Equal(t, []string{"c/ab"}, w.clusters["b"].Spec.IntroducedBy, "the link stands until both have left it")
	w.settled()
	w.left = true
	w.turn()
	require.NotContains(t, w.clusters, "b")
	w.settled()
}

// The other end is never heard of: the end is bounded.
func TestEndIsBounded(t *testing.T) {
	w := newWorld(t)
	w.says("c", introduce(w.b, "ab"))
	w.turn()
	w.says("c")
	w.turn()
	w.now = w.now.Add(endsWithin - time.Second)
	w.settled()
	w.now = w.now.Add(time.Second)
	w.turn()
	require.NotContains(t, w.clusters, "b")
}

// Whatever is only away ends nothing; a list without it, an unpeered introducer
// and the local admin's No do.
func TestWhatEndsALink(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		ends   bool
	}{
		"the channel is down":                 {func(w *world) { w.introducers["c"].connected = false }, false},
		"this controller restarted":           {func(w *world) { w.introducers["c"].list = nil }, false},
		"restarted, and C is off":             {func(w *world) { w.introducers["c"].list, w.introducers["c"].connected = nil, false }, false},
		"an altered record":                   {func(w *world) { w.introducers["c"].list[0].Record += "x" }, false},
		"the policy asks from now on":         {func(w *world) { w.clusters["c"].Spec.Access.Introductions = v1alpha1.IntroductionAsk }, false},
		"the list is empty":                   {func(w *world) { w.says("c") }, true},
		"the list is empty, the channel down": {func(w *world) { w.says("c"); w.introducers["c"].connected = false }, true},
		"C is unpeered":                       {func(w *world) { delete(w.clusters, "c"); delete(w.introducers, "c") }, true},
		"the admin denies":                    {func(w *world) { w.clusters["c"].Spec.Access.Introductions = v1alpha1.IntroductionDeny }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.says("c", introduce(w.b, "ab"))
			w.turn()
			c.change(w)
			w.turn()
			want := accepted
			if c.ends {
				want = ending
			}
			require.Equal(t, []v1alpha1.IntroductionState{want}, w.states("b"))
		})
	}
}

// Two introducers, and two connections of one: the link goes with the last, and
// each can end without a move.
func TestSeveralIntroducersShareTheLink(t *testing.T) {
	w := newWorld(t)
	w.neighbor(w.d, v1alpha1.IntroductionAllow)
	w.says("c", introduce(w.b, "one"), introduce(w.b, "two"))
	w.says("d", introduce(w.b, "one"))
	w.turn()
	require.Equal(t, []string{"c/one", "c/two", "d/one"}, w.clusters["b"].Spec.IntroducedBy)
	w.says("c", introduce(w.b, "two"))
	w.turn()
	require.Equal(t, []string{"c/two", "d/one"}, w.clusters["b"].Spec.IntroducedBy)
	w.says("c")
	w.turn()
	require.Equal(t, []string{"d/one"}, w.clusters["b"].Spec.IntroducedBy)
	require.Equal(t, []v1alpha1.IntroductionState{accepted}, w.states("b"))
	w.says("d")
	w.turn()
	require.Equal(t, []v1alpha1.IntroductionState{ending}, w.states("b"))
	w.says("c", introduce(w.b, "three"))
	w.turn()
	require.Equal(t, []v1alpha1.IntroductionState{accepted}, w.states("b"), "introduced anew while it ends")
	require.Equal(t, []string{"c/three"}, w.clusters["b"].Spec.IntroducedBy)
	w.settled()
}

// What an admin made is peered anyway: it gets the entry, and keeps its link.
func TestAdminsObject(t *testing.T) {
	w := newWorld(t)
	w.neighbor(w.b, v1alpha1.IntroductionDeny)
	w.clusters["c"].Spec.Access.Introductions = v1alpha1.IntroductionAsk
	in := introduce(w.b, "ab")
	in.Mode = v1alpha1.ModeRequire
	w.says("c", in)
	w.turn()
	require.Equal(t, []v1alpha1.IntroductionState{accepted}, w.states("b"), "its admin has agreed to peer with it")
	require.Equal(t, v1alpha1.ModeRequire, w.clusters["b"].Status.Introductions[0].Mode)
	w.settled()
	w.says("c")
	w.turn()
	require.Empty(t, w.states("b"))
	require.Nil(t, meta.FindStatusCondition(w.clusters["b"].Status.Conditions, v1alpha1.ConditionAccepted))
	w.settled()
}

// A cluster that is known through a hub becomes a direct one, and what it was
// again.
func TestHubMadeObject(t *testing.T) {
	for _, policy := range []v1alpha1.IntroductionPolicy{v1alpha1.IntroductionAllow, v1alpha1.IntroductionAsk} {
		w := newWorld(t)
		w.clusters["c"].Spec.Access.Introductions = policy
		w.clusters["b"] = &v1alpha1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "b"},
			Spec:       v1alpha1.ForeignClusterSpec{Identity: w.b.id, Record: w.b.record, ReachedThrough: []string{"c"}},
		}
		w.settled()
		w.says("c", introduce(w.b, "ab"))
		_, changes := w.turn()
		require.Len(t, changes, 1)
		require.True(t, changes[0].grows, "its mode holds before its tunnel")
		require.Equal(t, policy == v1alpha1.IntroductionAllow, w.clusters["b"].Spec.Direct())
		w.settled()
		if policy == v1alpha1.IntroductionAsk {
			require.Equal(t, []v1alpha1.IntroductionState{awaiting}, w.states("b"))
			w.clusters["b"].Spec.Accepted = new(true)
			w.turn()
		}
		require.Equal(t, []v1alpha1.IntroductionState{accepted}, w.states("b"))
		require.True(t, w.clusters["b"].Spec.Direct())
		w.says("c")
		w.turn()
		w.left = true
		_, changes = w.turn()
		require.Len(t, changes, 1)
		require.False(t, changes[0].grows)
		require.Equal(t, v1alpha1.ForeignClusterSpec{Identity: w.b.id, Record: w.b.record, ReachedThrough: []string{"c"}}, w.clusters["b"].Spec)
		require.Empty(t, w.states("b"))
		w.settled()
	}
}

// Asked, and withdrawn before anybody answered: there is no link to leave.
func TestAskedAndWithdrawn(t *testing.T) {
	w := newWorld(t)
	w.clusters["c"].Spec.Access.Introductions = v1alpha1.IntroductionAsk
	w.says("c", introduce(w.b, "ab"))
	w.turn()
	fc := w.clusters["b"]
	require.False(t, fc.Spec.Direct())
	c := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionAccepted)
	require.Equal(t, v1alpha1.ReasonAwaitingApproval, c.Reason)
	require.Contains(t, c.Message, "weftctl access b --accept")
	w.says("c")
	w.turn()
	require.NotContains(t, w.clusters, "b")
}

// An admin's No on an object that waits stands, whoever else introduces it.
func TestNoStands(t *testing.T) {
	w := newWorld(t)
	w.neighbor(w.d, v1alpha1.IntroductionAsk)
	w.says("d", introduce(w.b, "ab"))
	w.turn()
	w.says("c", introduce(w.b, "ab"))
	w.turn()
	require.Equal(t, []v1alpha1.IntroductionState{awaiting, awaiting}, w.states("b"))
	require.False(t, w.clusters["b"].Spec.Direct())
}

func TestLease(t *testing.T) {
	w := newWorld(t)
	in := introduce(w.b, "ab")
	in.Lease = time.Hour
	w.says("c", in)
	w.turn()
	expires := func() time.Time { return w.clusters["b"].Status.Introductions[0].Expires.Time }
	require.True(t, expires().Equal(w.now.Add(time.Hour)))
	w.now = w.now.Add(14 * time.Minute)
	w.settled()
	w.now = w.now.Add(time.Minute)
	w.turn()
	require.True(t, expires().Equal(w.now.Add(time.Hour)), "a quarter has passed")

	w.introducers["c"].connected = false
	w.now = w.now.Add(time.Hour - time.Second)
	w.settled()
	w.now = w.now.Add(time.Second)
	w.turn()
	require.Equal(t, []v1alpha1.IntroductionState{ending}, w.states("b"), "what it said last does not renew it")
	w.introducers["c"].connected = true
	w.turn()
	require.Equal(t, []v1alpha1.IntroductionState{accepted}, w.states("b"))
	require.True(t, expires().Equal(w.now.Add(time.Hour)))

	w.introducers["c"].list = nil
	w.introducers["c"].connected = false
	w.now = w.now.Add(time.Hour)
	w.turn()
	w.now = w.now.Add(endsWithin)
	w.turn()
	require.NotContains(t, w.clusters, "b", "also over a restart")
}

// The controller dies between its two writes: what is missing is made good, or
// dropped once its introducer is heard without it.
func TestBetweenTwoWrites(t *testing.T) {
	w := newWorld(t)
	w.says("c", introduce(w.b, "ab"))
	w.turn()
	w.clusters["b"].Status = v1alpha1.ForeignClusterStatus{} // created, no status
	w.introducers["c"].list = nil
	w.settled()
	w.says("c")
	w.turn()
	require.NotContains(t, w.clusters, "b")

	w.says("c", introduce(w.b, "ab"))
	w.turn()
	w.clusters["b"].Spec.ReachedThrough = []string{"c"}
	w.says("c")
	w.turn()
	w.clusters["b"].Spec.IntroducedBy = nil // its end begun, the status not written
	w.turn()
	require.Empty(t, w.states("b"))
	require.Empty(t, w.clusters["b"].Spec.IntroducedBy)
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	altered := introduce(w.b, "altered")
	altered.Record = altered.Record[:len(altered.Record)-2] + "AA"
	w.says("c", altered, introduce(w.a, "own"), introduce(w.c, "self"))
	decisions, changes := w.turn()
	require.Empty(t, changes)
	for _, d := range decisions {
		require.Equal(t, channel.ReportInvalidRecord, d.refusal, d.in.Connection)
	}
	for _, policy := range []v1alpha1.IntroductionPolicy{"", v1alpha1.IntroductionDeny} {
		w.clusters["c"].Spec.Access.Introductions = policy
		w.says("c", introduce(w.b, "ab"))
		decisions, changes = w.turn()
		require.Empty(t, changes)
		require.Equal(t, channel.ReportDenied, decisions[0].refusal)
		require.Contains(t, decisions[0].message, "weftctl access c --introductions Allow")
	}
}

// Records are carried by whoever has them; the newest signed one wins.
func TestNewerRecord(t *testing.T) {
	w := newWorld(t)
	w.says("c", introduce(w.b, "ab"))
	w.turn()
	in := introduce(w.b, "ab")
	in.Record = w.b.sign(t, 2)
	w.says("c", in)
	w.turn()
	require.Equal(t, in.Record, w.clusters["b"].Status.Record)
	w.says("c", introduce(w.b, "ab"))
	w.settled()
}

// A changed mode or a connection that was made anew changes its entry in place.
func TestChangedInPlace(t *testing.T) {
	w := newWorld(t)
	w.says("c", introduce(w.b, "ab"))
	w.turn()
	in := introduce(w.b, "ab")
	in.UID, in.Mode, in.MTU = "another", v1alpha1.ModeRequire, 1300
	w.says("c", in)
	w.turn()
	require.Equal(t, []v1alpha1.IntroductionStatus{{
		Introducer: "c", Identity: w.c.id, Connection: "ab", UID: "another", Mode: v1alpha1.ModeRequire, MTU: 1300, State: accepted,
	}}, w.clusters["b"].Status.Introductions)
}

func TestLocalName(t *testing.T) {
	w := newWorld(t)
	w.clusters["b"] = &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "x"}, Spec: v1alpha1.ForeignClusterSpec{Identity: w.d.id, Record: w.d.record}}
	w.says("c", introduce(w.b, "ab"))
	w.turn()
	require.Contains(t, w.clusters, "b-"+string(w.b.id[:8]))
}

// The name that an honest cluster would get when its ID is taken can be taken
// too, and a name that a grant mentions is for whom the admin meant.
func TestNamesAreNotCaptured(t *testing.T) {
	w := newWorld(t)
	for name, identity := range map[string]v1alpha1.Identity{"b": w.d.id, "b-" + string(w.b.id[:8]): w.d.id} {
		w.clusters[name] = &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1alpha1.ForeignClusterSpec{Identity: identity, Record: w.d.record}}
	}
	w.says("c", introduce(w.b, "ab"))
	w.turn()
	require.Contains(t, w.clusters, "b-"+string(w.b.id[:16]))

	w = newWorld(t)
	w.clusters["c"].Spec.Access.Transit.Neighbors = []string{"b"}
	w.says("c", introduce(w.b, "ab"))
	w.turn()
	require.NotContains(t, w.clusters, "b")
	require.Contains(t, w.clusters, "b-"+string(w.b.id[:8]))
}

// One connection joins two clusters: an introducer that names another cluster by
// it has withdrawn the one before.
func TestOneConnectionIntroducesOneCluster(t *testing.T) {
	w := newWorld(t)
	w.says("c", introduce(w.b, "ab"))
	w.turn()
	w.says("c", introduce(w.d, "ab"))
	w.turn()
	require.Equal(t, []v1alpha1.IntroductionState{accepted}, w.states("d"))
	require.Equal(t, []v1alpha1.IntroductionState{ending}, w.states("b"))
	w.left = true
	w.turn()
	require.NotContains(t, w.clusters, "b")
	require.Contains(t, w.clusters, "d")
}

// A controller that was away for longer than a lease gives its introducer time to
// be heard again.
func TestLeaseWaitsForARestart(t *testing.T) {
	w := newWorld(t)
	in := introduce(w.b, "ab")
	in.Lease = time.Minute
	w.says("c", in)
	w.turn()
	w.introducers["c"].list, w.introducers["c"].connected, w.introducers["c"].early = nil, false, true
	w.now = w.now.Add(2 * time.Minute)
	w.settled()
	w.introducers["c"].early = false
	w.turn()
	require.Equal(t, []v1alpha1.IntroductionState{ending}, w.states("b"))
}
