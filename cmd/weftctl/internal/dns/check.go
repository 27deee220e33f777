package dns

import (
	"context"
	"fmt"
	"net/netip"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns/corefile"
)

// Report says whether the cluster's DNS forwards the zone, and why not.
type Report struct {
	ConfigMap string         `json:"configMap"`
	Block     corefile.State `json:"block"`
	// Server is the address of weft-dns.
	Server   netip.Addr `json:"server"`
	Answers  []Answer   `json:"answers"`
	Problems []string   `json:"problems"`
	Healthy  bool       `json:"healthy"`
}

// observed is what Check reads before it judges.
type observed struct {
	configMap string
	file      *corefile.File
	server    netip.Addr
	answers   []Answer
	nodeLocal bool
}

// Check reads the Corefile and asks the cluster's DNS. It changes nothing.
func Check(ctx context.Context, c client.Reader, ask Asker, named string) (Report, error) {
	var o observed
	var err error
	if o.server, err = server(ctx, c); err != nil {
		return Report{}, err
	}
	configMap, err := find(ctx, c, named)
	if err != nil {
		return Report{}, err
	}
	o.configMap = fullName(configMap)
	if o.file, err = corefile.Parse(configMap.Data[corefileKey]); err != nil {
		return Report{}, inConfigMap(err, configMap)
	}
	if o.nodeLocal, err = nodeLocal(ctx, c); err != nil {
		return Report{}, err
	}
	if o.answers, err = askAll(ctx, c, ask); err != nil {
		return Report{}, err
	}
	return o.judge(), nil
}

// judge is pure. A block that is missing is no problem where the answers are
// right: somebody has another way.
func (o observed) judge() Report {
	r := Report{ConfigMap: o.configMap, Block: o.file.State(), Server: o.server, Answers: o.answers, Problems: []string{}}
	wrong := pending(o.answers)
	switch forwards := o.file.Forwards(o.server); {
	case r.Block == corefile.Edited:
		r.Problems = append(r.Problems, fmt.Sprintf("somebody has changed Weft's block in ConfigMap %s: `weftctl dns enable --force` writes it anew", o.configMap))
	case r.Block == corefile.Present && !forwards:
		r.Problems = append(r.Problems, fmt.Sprintf("Weft's block in ConfigMap %s is not what it should be, with weft-dns at %s: run `weftctl dns enable`", o.configMap, o.server))
	case r.Block == corefile.Absent && wrong != "":
		r.Problems = append(r.Problems, fmt.Sprintf("ConfigMap %s has no block for %s: run `weftctl dns enable`", o.configMap, corefile.Zone))
	}
	if wrong != "" {
		problem := wrong
		if r.Block == corefile.Present {
			problem += "; " + advice(o.configMap, o.file.Reloads(), o.nodeLocal)
		}
		r.Problems = append(r.Problems, problem)
	}
	r.Healthy = len(r.Problems) == 0
	return r
}
