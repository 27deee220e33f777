package dns

import (
	"fmt"
	"io"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns/corefile"
)

// Text writes for people what was done.
func (c Change) Text(w io.Writer) {
	switch {
	case c.Enabled && c.Answers:
		fmt.Fprintf(w, "The cluster's DNS answers for %s: pods can use SERVICE.NAMESPACE.svc.%s.\n", corefile.Zone, corefile.Zone)
	case c.Enabled:
		fmt.Fprintf(w, "ConfigMap %s forwards %s to %s; `weftctl dns check` says when the cluster's DNS answers.\n", c.ConfigMap, corefile.Zone, c.Server)
	case c.Changed:
		fmt.Fprintf(w, "ConfigMap %s does not forward %s any more; CoreDNS reads that within two minutes.\n", c.ConfigMap, corefile.Zone)
	default:
		fmt.Fprintf(w, "ConfigMap %s has no block of Weft's.\n", c.ConfigMap)
	}
}

// Text writes the report for people.
func (r Report) Text(w io.Writer) {
	block := map[corefile.State]string{
		corefile.Absent: "there is none", corefile.Present: "as weftctl wrote it", corefile.Edited: "changed by somebody",
	}[r.Block]
	fmt.Fprintf(w, "weft-dns   %s\n", r.Server)
	fmt.Fprintf(w, "block      %s, in ConfigMap %s\n", block, r.ConfigMap)
	for _, a := range r.Answers {
		if a.Report == nil {
			fmt.Fprintf(w, "answers    %s on node %s could not be asked\n", a.Pod, a.Node)
			continue
		}
		fmt.Fprintf(w, "answers    %d of %d right, to %s on node %s\n", a.Report.Right, a.Report.Asked, a.Pod, a.Node)
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(w, "problem    %s\n", problem)
	}
	if r.Healthy {
		fmt.Fprintf(w, "The cluster's DNS answers for %s.\n", corefile.Zone)
	}
}
