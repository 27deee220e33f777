package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
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
	fmt.Fprintf(w, "\nidentity %s\n\n", dash(string(r.Identity)))
	r.nodeTable(w)
	fmt.Fprintln(w)
	r.clusterTable(w)
	r.connectionTable(w)
	fmt.Fprintln(w)
	if r.Healthy {
		fmt.Fprintln(w, "All is well.")
		return
	}
	fmt.Fprintln(w, "Problems:")
	for _, p := range r.Problems {
		fmt.Fprintf(w, "- %s: %s\n  Do: %s\n", p.Object, p.What, p.Do)
	}
}

func (r Report) nodeTable(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tREADY\tFABRIC ADDRESS\tUNDERLAY\tPODS\tGATEWAY\tLANE")
	for _, n := range r.Nodes {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n",
			n.Name, yesNo(n.Ready), dash(n.FabricAddress), dash(n.UnderlayAddress), n.Pods, gateway(n.Gateway), lanes(n.Lanes))
	}
	_ = table.Flush()
}

func (r Report) clusterTable(w io.Writer) {
	if len(r.Clusters) == 0 {
		fmt.Fprintln(w, "No peers yet: `weftctl peer` joins another cluster.")
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tCONNECTED\tPODS HERE\tKNOWN\tITS NETWORKS")
	for _, c := range r.Clusters {
		for i := range max(1, len(c.Networks)) {
			cells := "\t\t\t"
			if i == 0 {
				cells = fmt.Sprintf("%s\t%s\t%s\t%s", c.Name, yesNo(c.Connected), dash(string(c.Pods)), c.known())
			}
			fmt.Fprintf(table, "%s\t%s\n", cells, networkCell(c, i))
		}
	}
	_ = table.Flush()
	r.pathTable(w)
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

func networkCell(c Cluster, i int) string {
	if i >= len(c.Networks) {
		return ""
	}
	n := c.Networks[i]
	return fmt.Sprintf("%s %s as %s", n.Name, n.Original, n.Remapped)
}

// pathTable shows each way to each cluster, and why traffic takes it or not.
func (r Report) pathTable(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows := 0
	for _, c := range r.Clusters {
		for i, path := range c.Paths {
			if rows++; rows == 1 {
				fmt.Fprintln(table, "\nPATH TO\tWAY\tLINK\tSTATE\tRTT\tLOSS\tSINCE\tWHY")
			}
			name := ""
			if i == 0 {
				name = c.Name
			}
			fmt.Fprintf(table, "%s\t%s\n", name, pathCells(path))
		}
	}
	_ = table.Flush()
}

func pathCells(p Path) string {
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
	return fmt.Sprintf("%s\t%d-%d\t%s\t%s\t%s\t%s\t%s",
		way, p.Gateway, p.RemoteGateway, state, rtt(p.RTTMilliseconds), loss, since(p.SinceSeconds), dash(p.Why))
}

// connectionTable shows the direct links that this cluster makes between
// others, each side as it reports itself.
func (r Report) connectionTable(w io.Writer) {
	if len(r.Connections) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nCONNECTION\tMODE\tPHASE\tSINCE\tSIDE\tSTATE\tPATH\tDIRECT\tVIA HUB\tLOSS\tMTU")
	for _, c := range r.Connections {
		for i := range max(1, len(c.Sides)) {
			cells := "\t\t\t"
			if i == 0 {
				cells = fmt.Sprintf("%s\t%s\t%s\t%s", c.Name, dash(string(c.Mode)), dash(string(c.Phase)), since(c.SinceSeconds))
			}
			fmt.Fprintf(table, "%s\t%s\n", cells, sideCells(c, i))
		}
	}
	_ = table.Flush()
	for _, c := range r.Connections {
		if c.Message != "" && c.settled() { // else it stands among the problems
			fmt.Fprintf(w, "%s: %s\n", c.Name, c.Message)
		}
	}
}

func sideCells(c Connection, i int) string {
	if i >= len(c.Sides) {
		return fmt.Sprintf("%s, %s\t-\t-\t-\t-\t-\t-", c.A, c.B)
	}
	s := c.Sides[i]
	loss, mtu := "-", "-"
	if s.DirectRTTMilliseconds > 0 {
		loss = fmt.Sprintf("%.1f %%", s.DirectLossPercent)
	}
	if s.MTU > 0 {
		mtu = fmt.Sprint(s.MTU)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s",
		s.Name, dash(s.State), dash(s.ActivePath), rtt(s.DirectRTTMilliseconds), rtt(s.HubRTTMilliseconds), loss, mtu)
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

func lanes(list []v1alpha1.LaneStatus) string {
	var cells []string
	for _, lane := range list {
		where := "kernel"
		if !lane.Kernel {
			where = "user space"
		}
		cells = append(cells, fmt.Sprintf("%s UDP %d (%s)", lane.Name, lane.Port, where))
	}
	return dash(strings.Join(cells, ", "))
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

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
