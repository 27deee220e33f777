package path

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
	"github.com/weft-fabric/weft/dataplane/plan"
)

const (
	up      = v1alpha1.PathUp
	down    = v1alpha1.PathDown
	unknown = v1alpha1.PathUnknown
	cluster = 70 // in the second word of a reachability set
)

func reach(clusters ...uint8) bpfgen.BorderWeftReach {
	var r bpfgen.BorderWeftReach
	for _, c := range clusters {
		r.Bits[c/64] |= 1 << (c % 64)
	}
	return r
}

func previous(choice ...uint8) Choice {
	return words(0, choice...)
}

// words in force: a link and gateways.
func words(link uint32, gateways ...uint8) Choice {
	var c Choice
	if link != 0 {
		c.Paths = map[uint32]uint32{cluster: link}
	}
	if len(gateways) > 0 {
		c.Choices = map[uint32]uint64{cluster: Pack(gateways)}
	}
	return c
}

// direct path over a link, long settled.
func direct(link uint16, state v1alpha1.PathState) Path {
	return Path{Cluster: cluster, Link: link, Direct: true, Permitted: true, Probed: true, State: state}
}

// hub path over a link, long settled.
func hub(link uint16, state v1alpha1.PathState) Path {
	p := direct(link, state)
	p.Direct = false
	return p
}

func (p Path) rtt(milliseconds float64) Path {
	p.RTT = time.Duration(milliseconds * float64(time.Millisecond))
	return p
}

func (p Path) excluded() Path {
	p.Permitted = false
	return p
}

func (p Path) upFor(d time.Duration) Path {
	p.Since = now.Add(-d)
	return p
}

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func reaching(c Choice) Choice {
	c.Reach = reach(cluster)
	return c
}

// A plain node has gateways 1 and 2 and wants to reach one cluster.
func TestGatewaysOfPlainNode(t *testing.T) {
	for name, c := range map[string]struct {
		one, two Gateway
		previous Choice
		want     []uint8
	}{
		"new node: all":                     {one: Gateway{State: unknown}, two: Gateway{State: unknown}, want: []uint8{1, 2}},
		"both answer and reach":             {one: Gateway{State: up, Reach: reach(cluster)}, two: Gateway{State: up, Reach: reach(cluster)}, want: []uint8{1, 2}},
		"one does not reach":                {one: Gateway{State: up, Reach: reach(6)}, two: Gateway{State: up, Reach: reach(cluster)}, want: []uint8{2}},
		"one is dead":                       {one: Gateway{State: down}, two: Gateway{State: up, Reach: reach(cluster)}, previous: previous(1, 2), want: []uint8{2}},
		"a dead one's old reach is nothing": {one: Gateway{State: down, Reach: reach(cluster)}, two: Gateway{State: up, Reach: reach(cluster)}, previous: previous(1, 2), want: []uint8{2}},
		"all dead: the last choice stands":  {one: Gateway{State: down}, two: Gateway{State: down}, previous: previous(2), want: []uint8{2}},
		"none reaches: the last stands":     {one: Gateway{State: up}, two: Gateway{State: up}, previous: previous(1), want: []uint8{1}},
		"new agent: no answer, no change":   {one: Gateway{State: unknown}, two: Gateway{State: unknown}, previous: previous(1), want: []uint8{1}},
		"one answer does not narrow":        {one: Gateway{State: up, Reach: reach(cluster)}, two: Gateway{State: unknown}, previous: previous(1, 2), want: []uint8{1, 2}},
		"the last choice is gone: all":      {one: Gateway{State: down}, two: Gateway{State: down}, previous: previous(9), want: []uint8{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			c.one.ID, c.two.ID = 1, 2
			words := Choose(Input{Clusters: []uint8{cluster}, Gateways: []Gateway{c.two, c.one}, Previous: c.previous})
			require.Equal(t, c.want, Unpack(words.Choices[cluster]))
			require.Empty(t, words.Paths)
			require.Zero(t, words.Reach)
		})
	}
}

// Gateway 1 has links 11 and 12 to a cluster and maybe link 21 to a hub, gateway 2
// is the other way.
func TestGateway(t *testing.T) {
	other := Gateway{ID: 2, State: up, Reach: reach(cluster)}
	for name, c := range map[string]struct {
		first, second v1alpha1.PathState
		hub           v1alpha1.PathState // empty: there is none
		previous      Choice
		other         Gateway
		link          uint32
		gateways      []uint8
		reach         bool
	}{
		"new":                     {first: unknown, second: unknown, other: other, link: 11, gateways: []uint8{1}},
		"both up: the first":      {first: up, second: up, other: other, link: 11, gateways: []uint8{1}, reach: true},
		"both up: stays":          {first: up, second: up, previous: words(12), other: other, link: 12, gateways: []uint8{1}, reach: true},
		"one up":                  {first: down, second: up, previous: words(11), other: other, link: 12, gateways: []uint8{1}, reach: true},
		"silent is not down":      {first: up, second: unknown, previous: words(12), other: other, link: 12, gateways: []uint8{1}, reach: true},
		"one up over a hub":       {first: down, second: down, hub: up, previous: reaching(words(12, 1)), other: other, link: 21, gateways: []uint8{1}, reach: true},
		"down: the other gateway": {first: down, second: down, previous: words(12), other: other, link: 12, gateways: []uint8{2}},
		"all down: the last stands": {first: down, second: down, other: Gateway{ID: 2, State: down},
			previous: words(12, 1), link: 12, gateways: []uint8{1}},
		"restarted agent: words stand": {first: unknown, second: unknown, other: Gateway{ID: 2, State: unknown},
			previous: reaching(words(12, 2)), link: 12, gateways: []uint8{2}, reach: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{
				Self: 1, Clusters: []uint8{cluster},
				Gateways: []Gateway{c.other, {ID: 1}},
				Paths:    []Path{direct(12, c.second), direct(11, c.first), {Cluster: 3, Link: 3, Direct: true, Permitted: true, Probed: true, State: up}},
				Previous: c.previous,
			}
			if c.hub != "" {
				in.Paths = append(in.Paths, hub(21, c.hub))
			}
			words := Choose(in)
			require.Equal(t, c.link, words.Paths[cluster])
			require.Equal(t, c.gateways, Unpack(words.Choices[cluster]))
			require.Equal(t, c.reach, HasReach(words.Reach, cluster))
		})
	}
}

// A gateway without any link to the cluster never chooses itself, and words of
// clusters that are gone end.
func TestGatewayWithoutLink(t *testing.T) {
	words := Choose(Input{
		Self: 1, Clusters: []uint8{cluster},
		Gateways: []Gateway{{ID: 1}, {ID: 2, State: unknown}},
		Previous: Choice{Words: plan.Words{
			Paths: map[uint32]uint32{cluster: 7, 5: 7}, Choices: map[uint32]uint64{cluster: Pack([]uint8{1}), 5: Pack([]uint8{1})}, Reach: reach(cluster, 5),
		}},
	})
	require.Empty(t, words.Paths)
	require.Equal(t, map[uint32]uint64{cluster: Pack([]uint8{2})}, words.Choices)
	require.Zero(t, words.Reach)
}

func TestMoreGatewaysThanAWordHolds(t *testing.T) {
	in := Input{Clusters: []uint8{cluster}}
	for id := range uint8(20) {
		in.Gateways = append(in.Gateways, Gateway{ID: id + 1, State: up, Reach: reach(cluster)})
	}
	require.Equal(t, []uint8{1, 2, 3, 4, 5, 6, 7}, Unpack(Choose(in).Choices[cluster]))
}

// One gateway, 0x2a: number in the lowest byte, the id in the next (maps.h).
func TestPack(t *testing.T) {
	require.Equal(t, uint64(0x2a01), Pack([]uint8{0x2a}))
	require.Equal(t, uint64(0x0403020103), Pack([]uint8{1, 2, 3})|4<<32)
}
