package controlplane

import (
	"encoding/base64"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiidentity "github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// trio is a hub c between a and b, which know nothing of each other.
type trio struct {
	a, b, c *side
	// d, if not nil, is another neighbor of a and b.
	d *side
	// cut: the tunnel between a and b carries nothing.
	cut bool
}

// newTrio peers c with both. What a grants c is policy; b allows introductions.
func newTrio(t *testing.T, policy v1alpha1.IntroductionPolicy) *trio {
	t.Helper()
	w := &trio{a: newSide(t, "a"), b: newSide(t, "b"), c: newSide(t, "c")}
	for _, s := range w.all() {
		s.trio = w
	}
	w.tunnels()
	until(t, "all are ready", func() bool { return w.a.isReady() && w.b.isReady() && w.c.isReady() }, w.all()...)
	for _, s := range []*side{w.a, w.b} {
		up, down := s.foreign(w.c), w.c.foreign(s)
		up.Spec.Access.Transit.UseAsHub = true
		up.Spec.Access.Introductions, up.Spec.Access.Introduced = v1alpha1.IntroductionAllow, v1alpha1.PodAccessAll
		if s == w.a {
			up.Spec.Access.Introductions = policy
		}
		down.Spec.Access.Transit.Neighbors = []string{"*"}
		s.create(up)
		w.c.create(down)
	}
	return w
}

// throughHub is a trio whose a and b reach each other through c.
func throughHub(t *testing.T, policy v1alpha1.IntroductionPolicy) *trio {
	t.Helper()
	w := newTrio(t, policy)
	until(t, "a and b reach each other through c", func() bool { return w.active("Hub") }, w.all()...)
	return w
}

func (w *trio) all() []*side { return []*side{w.a, w.b, w.c} }

func (w *trio) side(id v1alpha1.Identity) *side {
	for _, s := range append(w.all(), w.d) {
		if s != nil && s.self.ID == id {
			return s
		}
	}
	return nil
}

// tunnels says where each one's tunnels lead, also those through c.
func (w *trio) tunnels() {
	address := func(s *side) netip.Addr { return apiidentity.ChannelAddress(s.self.ID, 1) }
	for _, s := range w.all() {
		for _, other := range w.all() {
			if s != other {
				s.connect(other)
			}
			if s != other && s != w.c && other != w.c {
				authority := netip.AddrPortFrom(address(other), v1alpha1.ChannelPort).String()
				s.agent.SetRoute(authority+" "+address(w.c).String(), other.listener.Addr().String())
			}
		}
	}
}

// linked reports whether the tunnel between two clusters works: both know each
// other's keys. Without a trio it does.
func (w *trio) linked(s *side, other v1alpha1.Identity) bool {
	if w == nil {
		return true
	}
	far := w.side(other)
	if far == nil {
		return false // not one of them yet
	}
	back := far.neighborOf(s.self.ID)
	return back != nil && len(back.Spec.Peers) > 0 && (s == w.c || far == w.c || !w.cut)
}

// forwards reports whether probes of a cluster through a hub come back: the hub
// lets the pair through, and every link on the way has rows of its ends.
func (w *trio) forwards(s *side, hub, other v1alpha1.Identity) bool {
	if w == nil {
		return false
	}
	h, far := w.side(hub), w.side(other)
	in, out, back := h.neighborOf(s.self.ID), h.neighborOf(other), far.neighborOf(hub)
	self := far.neighborOf(s.self.ID)
	if in == nil || out == nil || back == nil || self == nil {
		return false
	}
	granted := slices.Contains(in.Spec.Transit, out.Spec.ClusterIndex) || slices.Contains(out.Spec.Transit, in.Spec.ClusterIndex)
	return granted && w.linked(s, hub) && w.linked(h, other) &&
		ownRows(in, v1alpha1.RowTheirs, out.Spec.ClusterIndex) && ownRows(out, v1alpha1.RowTheirs, in.Spec.ClusterIndex) &&
		ownRows(back, v1alpha1.RowOurs, self.Spec.ClusterIndex)
}

// neighborOf returns the Neighbor of an identity, nil if there is none.
func (s *side) neighborOf(id v1alpha1.Identity) *v1alpha1.Neighbor {
	s.t.Helper()
	var list v1alpha1.NeighborList
	require.NoError(s.t, s.client.List(s.t.Context(), &list))
	for i := range list.Items {
		if list.Items[i].Spec.Identity == id {
			return &list.Items[i]
		}
	}
	return nil
}

// active reports whether a and b both send to the other over this kind of path,
// as their status says.
func (w *trio) active(kind string) bool {
	return w.a.active("b") == kind && w.b.active("a") == kind
}

func (s *side) active(name string) string {
	s.t.Helper()
	fc := s.cluster(name)
	if fc == nil {
		return ""
	}
	for _, p := range fc.Status.Paths {
		switch {
		case p.Active && p.Via == name:
			return "Direct"
		case p.Active:
			return "Hub"
		}
	}
	return "None"
}

// cluster returns a ForeignCluster, nil if there is none.
func (s *side) cluster(name string) *v1alpha1.ForeignCluster {
	s.t.Helper()
	var fc v1alpha1.ForeignCluster
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Name: name}, &fc); err != nil {
		require.NoError(s.t, client.IgnoreNotFound(err))
		return nil
	}
	return &fc
}

// change makes a change of a ForeignCluster as an admin would.
func (s *side) change(name string, do func(*v1alpha1.ForeignCluster)) {
	s.t.Helper()
	fc := s.cluster(name)
	require.NotNil(s.t, fc)
	do(fc)
	require.NoError(s.t, s.client.Update(s.t.Context(), fc))
}

// join creates a connection in c.
func (w *trio) join(name, a, b string, mode v1alpha1.ConnectionMode) {
	c := &v1alpha1.ForeignClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec = v1alpha1.ForeignClusterConnectionSpec{ForeignClusterA: a, ForeignClusterB: b, Mode: mode}
	w.c.create(c)
}

func (w *trio) connection(name string) *v1alpha1.ForeignClusterConnection {
	w.c.t.Helper()
	var c v1alpha1.ForeignClusterConnection
	if err := w.c.client.Get(w.c.t.Context(), client.ObjectKey{Name: name}, &c); err != nil {
		require.NoError(w.c.t, client.IgnoreNotFound(err))
		return nil
	}
	return &c
}

// phase of a connection, as "Phase/Reason: message".
func (w *trio) phase(name string) string {
	w.c.t.Helper()
	connection := w.connection(name)
	if connection == nil {
		return "gone"
	}
	if c := meta.FindStatusCondition(connection.Status.Conditions, v1alpha1.ConditionConnected); c != nil {
		return string(connection.Status.Phase) + "/" + c.Reason + ": " + c.Message
	}
	return string(connection.Status.Phase)
}

// untilPhase takes turns until the phase begins so.
func (w *trio) untilPhase(name, prefix string, sides ...*side) {
	t := w.c.t
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%s is %s", name, w.phase(name))
		}
	}()
	if len(sides) == 0 {
		sides = w.all()
	}
	until(t, name+" is "+prefix, func() bool { return strings.HasPrefix(w.phase(name), prefix) }, sides...)
}

// untilActive waits until both providers take a path: a phase may follow from
// the report of one of them.
func (w *trio) untilActive(path string) {
	w.c.t.Helper()
	until(w.c.t, "both take "+path, func() bool { return w.active(path) }, w.all()...)
}

func (w *trio) withdraw(name string) {
	w.c.t.Helper()
	require.NoError(w.c.t, w.c.client.Delete(w.c.t.Context(), w.connection(name)))
}

// mode changes the mode of a connection.
func (w *trio) mode(name string, mode v1alpha1.ConnectionMode) {
	w.c.t.Helper()
	connection := w.connection(name)
	connection.Spec.Mode = mode
	require.NoError(w.c.t, w.c.client.Update(w.c.t.Context(), connection))
}

// altered returns a record whose first endpoint or key somebody has changed.
func altered(record string) string {
	parts := strings.Split(record, ".")
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(payload), `"port":51847`, `"port":51848`, 1)))
	return strings.Join(parts, ".")
}
