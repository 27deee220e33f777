package agent

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
	"github.com/weft-fabric/weft/dataplane/metrics"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// countingExecutor has counters of links 1 and 2 to b, link 9 that is gone,
// and of no link.
type countingExecutor struct {
	*fakeExecutor
	failure error
}

func (countingExecutor) Counters() ([]apply.Counter, error) {
	cell := func(link uint16, direction, reason uint8, packets uint64) apply.Counter {
		return apply.Counter{Link: link, Direction: direction, Reason: reason, Packets: packets, Bytes: 100 * packets}
	}
	forwarded, noPlace := uint8(bpfgen.ReasonForwarded), uint8(bpfgen.ReasonNoPlace)
	return []apply.Counter{
		cell(1, bpfgen.LaneEgress, forwarded, 3), cell(2, bpfgen.LaneEgress, forwarded, 4),
		cell(2, bpfgen.LaneIngress, noPlace, 1), cell(9, bpfgen.LaneEgress, forwarded, 2), cell(0, bpfgen.OverlayEgress, forwarded, 5),
	}, nil
}

// HostDrops of the rules; they cannot be read while failure is set.
func (e countingExecutor) HostDrops() ([]apply.HostDrop, error) {
	if e.failure != nil {
		return nil, e.failure
	}
	return []apply.HostDrop{{Reason: "access_not_granted", Packets: 6, Bytes: 360}}, nil
}

func TestCountersByNeighbor(t *testing.T) {
	a := &agent{executor: countingExecutor{newFakeExecutor(), nil}}
	a.names.Links = []plan.LinkName{{Link: 1, Neighbor: "b"}, {Link: 2, Neighbor: "b"}}
	counters, err := a.counters()
	require.NoError(t, err)
	require.Equal(t, []metrics.Counter{
		{Neighbor: "b", Direction: "lane_egress", Reason: "forwarded", Packets: 7, Bytes: 700},
		{Neighbor: "b", Direction: "lane_ingress", Reason: "no_place", Packets: 1, Bytes: 100},
		{Neighbor: "", Direction: "lane_egress", Reason: "forwarded", Packets: 2, Bytes: 200},
		{Neighbor: "", Direction: "overlay_egress", Reason: "forwarded", Packets: 5, Bytes: 500},
		{Neighbor: "", Direction: "host", Reason: "access_not_granted", Packets: 6, Bytes: 360},
	}, counters)

	a.executor = countingExecutor{newFakeExecutor(), errors.New("no netlink")}
	rest, err := a.counters()
	require.ErrorContains(t, err, "no netlink")
	require.Equal(t, counters[:4], rest, "the programs' counters are told all the same")
}

// Only the last port counts, and setting one never blocks.
func TestSetPort(t *testing.T) {
	a := &agent{ports: make(chan int, 1)}
	a.setPort(1)
	a.setPort(2)
	require.Equal(t, 2, <-a.ports)
}
