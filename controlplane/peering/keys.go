package peering

import (
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// foreignKey is why a gateway of an introduced cluster gets no tunnel.
type foreignKey struct {
	gateway  int32
	neighbor string
}

func (f foreignKey) Error() string {
	return fmt.Sprintf("gateway %d gets no tunnel: its record names a WireGuard key that is one of %s; have its admin see to it", f.gateway, f.neighbor)
}

// withoutForeignKeys returns the record of a cluster without the gateways whose
// WireGuard keys others hold already, and the first of those as an error. A record
// proves who signed it, not whose the keys in it are, and the data plane gives a
// key to one peer alone: a cluster that others introduced takes it from nobody.
func (s *snapshot) withoutForeignKeys(fc *v1alpha1.ForeignCluster, record *identity.Record) (*identity.Record, error) {
	if fc.Spec.MadeByAdmin() {
		return record, nil
	}
	own := map[string]bool{}
	if n := s.neighborOf(fc); n != nil {
		for _, key := range keysOf(n) {
			own[key] = true
		}
	}
	held := map[string]string{}
	for i := range s.neighbors {
		n := &s.neighbors[i]
		other := s.cluster(n.Name)
		admins := other != nil && other.Spec.MadeByAdmin()
		for _, key := range keysOf(n) {
			if n.Spec.Identity != fc.Spec.Identity && (admins || !own[key]) {
				held[key] = n.Name
			}
		}
	}
	var problem error
	out := *record
	out.Gateways = slices.Clone(record.Gateways)
	out.Gateways = slices.DeleteFunc(out.Gateways, func(g identity.Gateway) bool {
		for _, lane := range g.Lanes {
			if name := held[base64.StdEncoding.EncodeToString(lane.Key)]; name != "" {
				problem = firstOf(problem, foreignKey{g.ID, name})
				return true
			}
		}
		return false
	})
	return &out, problem
}

func keysOf(n *v1alpha1.Neighbor) []string {
	var keys []string
	for _, p := range n.Spec.Peers {
		for _, lane := range p.Lanes {
			keys = append(keys, lane.PublicKey)
		}
	}
	return keys
}
