package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/table"
)

// Text writes the report for people.
func (r Report) Text(w io.Writer) {
	fmt.Fprintf(w, "Cluster %s", r.ClusterID)
	for i, network := range r.Networks {
		separator := ", "
		if i == 0 {
			separator = " exports "
		}
		fmt.Fprintf(w, "%s%s %s", separator, network.Name, network.CIDR)
	}
	fmt.Fprintf(w, "\nidentity %s\n\n", table.Dash(string(r.Identity)))
	r.nodeTable(w)
	fmt.Fprintln(w)
	r.clusterTable(w)
	r.connectionTable(w)
	fmt.Fprintln(w)
	Conclude(w, r.Problems)
}

func (r Report) nodeTable(w io.Writer) {
	t := table.New(w, "NODE", "READY", "FABRIC ADDRESS", "UNDERLAY", "PODS", "GATEWAY", "WIREGUARD")
	for _, n := range r.Nodes {
		t.Row(n.Name, yesNo(n.Ready), table.Dash(n.FabricAddress), table.Dash(n.UnderlayAddress), fmt.Sprint(n.Pods), gateway(n.Gateway), wireGuard(n.WireGuard))
	}
	t.Flush()
}

func (r Report) clusterTable(w io.Writer) {
	if len(r.Clusters) == 0 {
		fmt.Fprintln(w, "No peers yet: `weftctl peer` joins another cluster.")
		return
	}
	t := table.New(w, "CLUSTER", "CONNECTED", "PODS HERE", "KNOWN", "ITS NETWORKS")
	for _, c := range r.Clusters {
		t.Group([]string{c.Name, r.unlessStale(yesNo(c.Connected)), table.Dash(string(c.Pods)), c.known()}, networkRows(c))
	}
	t.Flush()
	r.pathTable(w)
}

// unlessStale is a state, if anybody knows it.
func (r Report) unlessStale(state string) string {
	if r.Stale {
		return "unknown"
	}
	return state
}

// known says why there is an object of the cluster.
func (c Cluster) known() string {
	var parts []string
	if len(c.IntroducedBy) > 0 {
		parts = append(parts, "introduced by "+strings.Join(c.IntroducedBy, ", "))
	}
	if len(c.ReachedThrough) > 0 {
		parts = append(parts, "through "+strings.Join(c.ReachedThrough, ", "))
	}
	if c.AwaitingApproval {
		parts = append(parts, "waits for approval")
	}
	if len(parts) == 0 {
		return "as a peer"
	}
	return strings.Join(parts, "; ")
}

func networkRows(c Cluster) [][]string {
	var rows [][]string
	for _, n := range c.Networks {
		rows = append(rows, []string{fmt.Sprintf("%s %s as %s", n.Name, n.Original, n.Remapped)})
	}
	if len(rows) == 0 {
		return [][]string{{""}}
	}
	return rows
}

// pathTable shows each way to each cluster, and why traffic takes it or not.
func (r Report) pathTable(w io.Writer) {
	if !slices.ContainsFunc(r.Clusters, func(c Cluster) bool { return len(c.Paths) > 0 }) {
		return
	}
	fmt.Fprintln(w)
	t := table.New(w, "PATH TO", "WAY", "LINK", "STATE", "RTT", "LOSS", "SINCE", "WHY")
	for _, c := range r.Clusters {
		var rows [][]string
		for _, path := range c.Paths {
			rows = append(rows, pathCells(path))
		}
		t.Group([]string{c.Name}, rows)
	}
	t.Flush()
}

func pathCells(p Path) []string {
	way, state, loss := "direct", string(p.State), "-"
	if !p.Direct {
		way = "via " + p.Via
	}
	if p.Active {
		state += " (in use)"
	}
	if lossTells(p.State, p.SinceSeconds) {
		loss = fmt.Sprintf("%.1f %%", p.LossPercent)
	}
	link := fmt.Sprintf("%d-%d", p.Gateway, p.RemoteGateway)
	return []string{way, link, state, rtt(p.RTTMilliseconds), loss, since(p.SinceSeconds), table.Dash(p.Why)}
}

// connectionTable shows the direct links that this cluster makes between
// others, each side as it reports itself.
func (r Report) connectionTable(w io.Writer) {
	if len(r.Connections) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := table.New(w, "CONNECTION", "MODE", "PHASE", "SINCE", "SIDE", "STATE", "PATH", "DIRECT", "VIA HUB", "LOSS", "MTU")
	for _, c := range r.Connections {
		t.Group([]string{c.Name, table.Dash(string(c.Mode)), r.unlessStale(table.Dash(string(c.Phase))), since(c.SinceSeconds)}, sideRows(c))
	}
	t.Flush()
	for _, c := range r.Connections {
		if c.Message != "" && c.settled() { // else it stands among the problems
			fmt.Fprintf(w, "%s: %s\n", c.Name, c.Message)
		}
	}
}

func sideRows(c Connection) [][]string {
	if len(c.Sides) == 0 {
		return [][]string{{c.A + ", " + c.B, "-", "-", "-", "-", "-", "-"}}
	}
	var rows [][]string
	for _, s := range c.Sides {
		loss, mtu := "-", "-"
		if s.DirectRTTMilliseconds > 0 {
			loss = fmt.Sprintf("%.1f %%", s.DirectLossPercent)
		}
		if s.MTU > 0 {
			mtu = fmt.Sprint(s.MTU)
		}
		rows = append(rows, []string{
			s.Name, table.Dash(s.State), table.Dash(s.ActivePath), rtt(s.DirectRTTMilliseconds), rtt(s.HubRTTMilliseconds), loss, mtu,
		})
	}
	return rows
}

func rtt(milliseconds float64) string {
	if milliseconds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f ms", milliseconds)
}

// since is a dash where the time is not known.
func since(seconds int64) string {
	if seconds == 0 {
		return "-"
	}
	return (time.Duration(seconds) * time.Second).String()
}

// wireGuard says by which devices a gateway has its tunnels.
func wireGuard(devices []v1alpha1.LaneStatus) string {
	var cells []string
	for _, device := range devices {
		where := "kernel"
		if !device.Kernel {
			where = "user space"
		}
		cells = append(cells, fmt.Sprintf("%s UDP %d (%s)", device.Name, device.Port, where))
	}
	return table.Dash(strings.Join(cells, ", "))
}

func gateway(id int32) string {
	if id == 0 {
		return "-"
	}
	return fmt.Sprint(id)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
