package services

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
)

// Text writes the report for people.
func (r Report) Text(w io.Writer) {
	r.serviceTable(w)
	r.peerList(w)
	fmt.Fprintf(w, "\nDNS: %s.\n\n", r.DNS)
	if r.Healthy {
		fmt.Fprintln(w, "All is well.")
		return
	}
	fmt.Fprintln(w, "Problems:")
	for _, p := range r.Problems {
		fmt.Fprintf(w, "- %s: %s\n  Do: %s\n", p.Object, p.What, p.Do)
	}
}

func (r Report) serviceTable(w io.Writer) {
	if len(r.Services) == 0 {
		fmt.Fprintf(w, "%s exports and imports no service: a ServiceExport of the name and in the namespace of a Service exports it.\n", r.ClusterID)
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SERVICE\tEXPORTED HERE\tIMPORTED HERE\tPORTS\tFROM\tENDPOINTS\tREACHED")
	for _, s := range r.Services {
		for i := range max(1, len(s.Clusters)) {
			cells := "\t\t\t"
			if i == 0 {
				cells = fmt.Sprintf("%s/%s\t%s\t%s\t%s", s.Namespace, s.Name, s.Export.cell(), s.Import.cell(), s.Import.ports())
			}
			fmt.Fprintf(table, "%s\t%s\n", cells, s.clusterCells(i))
		}
	}
	_ = table.Flush()
}

func (e *Export) cell() string {
	switch {
	case e == nil:
		return "-"
	case !e.Valid || !e.Ready:
		return "no, see below"
	case e.Conflict:
		return "yes, with conflicts"
	}
	return "yes"
}

func (i *Import) cell() string {
	switch {
	case i == nil:
		return "-"
	case !i.ByWeft:
		return "by another program"
	case !i.Ready:
		return "no, see below"
	}
	return "at " + strings.Join(i.IPs, ", ")
}

func (i *Import) ports() string {
	if i == nil || len(i.Ports) == 0 {
		return "-"
	}
	var ports []string
	for _, p := range i.Ports {
		text := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.Name != "" {
			text = p.Name + " " + text
		}
		ports = append(ports, text)
	}
	return strings.Join(ports, ", ")
}

func (s Service) clusterCells(i int) string {
	if i >= len(s.Clusters) {
		return "-\t-\t-"
	}
	c := s.Clusters[i]
	name, endpoints := c.Name, fmt.Sprintf("%d of %d ready", c.Ready, c.Endpoints)
	if c.Own {
		name += " (here)"
	}
	if c.Withheld > 0 {
		endpoints = fmt.Sprintf("%d left out", c.Withheld)
	}
	return fmt.Sprintf("%s\t%s\t%s", name, endpoints, strings.ToLower(string(c.Reachable)))
}

// peerList says whose services may come and go, and what came of it.
func (r Report) peerList(w io.Writer) {
	for i, p := range r.Peers {
		if i == 0 {
			fmt.Fprintln(w)
		}
		export, imports := peering.ServicesGrant(p.Name, r.ClusterID, p.Policy)
		fmt.Fprintf(w, "%s: %s; %s", p.Name, export, imports)
		if p.Says != "" {
			fmt.Fprintf(w, "; %s", p.Says)
		}
		fmt.Fprintln(w, ".")
	}
}
