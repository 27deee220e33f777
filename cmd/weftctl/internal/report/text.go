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
	fmt.Fprintln(table, "CLUSTER\tCONNECTED\tPODS HERE\tITS NETWORKS\tLINK\tSTATE\tRTT\tLOSS\tSINCE")
	for _, c := range r.Clusters {
		rows := max(1, len(c.Links), len(c.Networks))
		for i := range rows {
			name, connected, pods := "", "", ""
			if i == 0 {
				name, connected, pods = c.Name, yesNo(c.Connected), dash(string(c.Pods))
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", name, connected, pods, networkCell(c, i), linkCells(c, i))
		}
	}
	_ = table.Flush()
}

func networkCell(c Cluster, i int) string {
	if i >= len(c.Networks) {
		return ""
	}
	n := c.Networks[i]
	return fmt.Sprintf("%s %s as %s", n.Name, n.Original, n.Remapped)
}

func linkCells(c Cluster, i int) string {
	if i >= len(c.Links) {
		return "\t\t\t\t"
	}
	l := c.Links[i]
	state, rtt, loss := string(l.State), "-", "-"
	if l.Active {
		state += " (in use)"
	}
	if l.RTTMilliseconds > 0 {
		rtt = fmt.Sprintf("%.2f ms", l.RTTMilliseconds)
	}
	if lossTells(l.State, l.SinceSeconds) {
		loss = fmt.Sprintf("%.1f %%", l.LossPercent)
	}
	since := (time.Duration(l.SinceSeconds) * time.Second).String()
	return fmt.Sprintf("%d-%d\t%s\t%s\t%s\t%s", l.Gateway, l.RemoteGateway, state, rtt, loss, since)
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
