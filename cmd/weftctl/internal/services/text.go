package services

import (
	"fmt"
	"io"
	"strings"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/report"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/table"
)

// Text writes the report for people.
func (r Report) Text(w io.Writer) {
	r.serviceTable(w)
	r.peerTable(w)
	fmt.Fprintf(w, "\nDNS: %s.\n\n", r.DNS)
	report.Conclude(w, r.Problems)
}

func (r Report) serviceTable(w io.Writer) {
	if len(r.Services) == 0 {
		fmt.Fprintf(w, "%s exports and imports no service: a ServiceExport of the name and in the namespace of a Service exports it.\n", r.ClusterID)
		return
	}
	t := table.New(w, "SERVICE", "EXPORTED HERE", "IMPORTED HERE", "PORTS", "FROM", "ENDPOINTS", "REACHED")
	for _, s := range r.Services {
		t.Group([]string{s.Namespace + "/" + s.Name, s.Export.cell(), s.Import.cell(), s.Import.ports()}, s.clusterRows())
	}
	t.Flush()
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

func (s Service) clusterRows() [][]string {
	if len(s.Clusters) == 0 {
		return [][]string{{"-", "-", "-"}}
	}
	var rows [][]string
	for _, c := range s.Clusters {
		name, endpoints := c.Name, fmt.Sprintf("%d of %d ready", c.Ready, c.Endpoints)
		if c.Own {
			name += " (here)"
		}
		if c.Withheld > 0 {
			endpoints = fmt.Sprintf("%d left out", c.Withheld)
		}
		rows = append(rows, []string{name, endpoints, strings.ToLower(string(c.Reachable))})
	}
	return rows
}

// peerTable says whose services may come and go, and what came of it.
func (r Report) peerTable(w io.Writer) {
	if len(r.Peers) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := table.New(w, "PEER", "MAY IMPORT OURS", "WE IMPORT ITS", "STATE")
	for _, p := range r.Peers {
		t.Row(p.Name, scope(p.Policy.Export, p.Policy.ExportNamespaces), scope(p.Policy.Import, p.Policy.ImportNamespaces), table.Dash(p.Says))
	}
	t.Flush()
}

// scope says which services a policy lets pass.
func scope(policy v1alpha1.ServicePolicy, namespaces []string) string {
	switch {
	case policy == v1alpha1.ServicesAll:
		return "all"
	case policy == v1alpha1.ServicesSelected && len(namespaces) > 0:
		return "those in " + strings.Join(namespaces, ", ")
	}
	return "none"
}
