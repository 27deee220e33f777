package dns

import (
	"context"
	"fmt"
	"net/netip"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns/corefile"
)

// Standing is what the Corefile says, without asking whether it is in force.
type Standing struct {
	ConfigMap string         `json:"configMap,omitempty"`
	Block     corefile.State `json:"block,omitempty"`
	// Server is the address of weft-dns.
	Server netip.Addr `json:"server,omitzero"`
	// Forwards: the Corefile forwards the zone to weft-dns, on every port.
	Forwards bool `json:"forwards"`
	// Problem: why it cannot be told.
	Problem string `json:"problem,omitempty"`
}

// Look reads the Corefile. What it cannot find out is part of the answer, since
// all but names works without.
func Look(ctx context.Context, c client.Reader) Standing {
	s, err := look(ctx, c)
	if err != nil {
		s.Problem = err.Error()
	}
	return s
}

func look(ctx context.Context, c client.Reader) (Standing, error) {
	var s Standing
	var err error
	if s.Server, err = server(ctx, c); err != nil {
		return s, err
	}
	configMap, err := find(ctx, c, "")
	if err != nil {
		return s, err
	}
	s.ConfigMap = fullName(configMap)
	file, err := corefile.Parse(configMap.Data[corefileKey])
	if err != nil {
		return s, inConfigMap(err, configMap)
	}
	s.Block, s.Forwards = file.State(), file.Forwards(s.Server)
	return s, nil
}

// String says it in a sentence without its stop, with the next step if one is
// left.
func (s Standing) String() string {
	switch {
	case s.Problem != "":
		return "it cannot be told whether the cluster's DNS forwards " + corefile.Zone + ": " + s.Problem
	case s.Forwards:
		return fmt.Sprintf("ConfigMap %s forwards %s to weft-dns at %s; `weftctl dns check` asks whether pods get answers", s.ConfigMap, corefile.Zone, s.Server)
	case s.Block == corefile.Absent:
		return fmt.Sprintf("if pods shall find services of other clusters by name, run `weftctl dns enable`: ConfigMap %s does not forward %s so far", s.ConfigMap, corefile.Zone)
	case s.Block == corefile.Edited:
		return fmt.Sprintf("somebody has changed Weft's block in ConfigMap %s: `weftctl dns check` says whether pods get answers", s.ConfigMap)
	}
	return fmt.Sprintf("Weft's block in ConfigMap %s is not what it should be, with weft-dns at %s: run `weftctl dns enable`", s.ConfigMap, s.Server)
}
