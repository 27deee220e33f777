package identity

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apiidentity "github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Gateways lists what a record says of the cluster's gateways, sorted by id.
// A gateway whose agent has not reported a key yet is left out. addresses gives
// a node's own addresses (without its underlay address) by node name.
func Gateways(spec v1alpha1.GatewaySpec, nodes []v1alpha1.FabricNode, addresses map[string][]string) []apiidentity.Gateway {
	var gateways []apiidentity.Gateway
	// A cache lists in no order; a record must not depend on it.
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b v1alpha1.FabricNode) int {
		return cmp.Or(cmp.Compare(a.Spec.GatewayID, b.Spec.GatewayID), cmp.Compare(a.Name, b.Name))
	})
	for i := range nodes {
		n := &nodes[i]
		if n.Spec.GatewayID == 0 || len(gateways) == apiidentity.MaxGateways {
			continue
		}
		lanes := lanesOf(n)
		if len(lanes) == 0 {
			continue
		}
		gateways = append(gateways, apiidentity.Gateway{
			ID:        n.Spec.GatewayID,
			Endpoints: endpoints(spec, n, addresses[n.Name]),
			Lanes:     lanes,
		})
	}
	return gateways
}

func lanesOf(n *v1alpha1.FabricNode) []apiidentity.Lane {
	var lanes []apiidentity.Lane
	for _, l := range n.Status.Lanes {
		key, err := base64.StdEncoding.DecodeString(l.PublicKey)
		if err != nil || len(key) != 32 || bytes.Equal(key, make([]byte, 32)) || l.Port < 1 || l.Port > 65535 || len(lanes) == apiidentity.MaxLanes {
			continue
		}
		lanes = append(lanes, apiidentity.Lane{Port: uint16(l.Port), Key: key})
	}
	return lanes
}

// CheckEndpoints names the first of the endpoints to publish that no peer would
// dial.
func CheckEndpoints(spec v1alpha1.GatewaySpec) error {
	if spec.Exposure != v1alpha1.ExposureStatic {
		return nil
	}
	for _, e := range spec.Endpoints {
		if err := apiidentity.ValidateEndpoint(e); err != nil {
			return fmt.Errorf("spec.gateways.endpoints: %w; give addresses or host names without port", err)
		}
	}
	return nil
}

// endpoints of a gateway in order of preference, those that a peer would
// refuse left out.
func endpoints(spec v1alpha1.GatewaySpec, n *v1alpha1.FabricNode, addresses []string) []string {
	var candidates []string
	switch spec.Exposure {
	case v1alpha1.ExposureNone:
		return nil
	case v1alpha1.ExposureStatic:
		candidates = spec.Endpoints
	default:
		candidates = append(slices.Clone(addresses), n.Status.UnderlayAddress)
	}
	var endpoints []string
	for _, e := range candidates {
		if apiidentity.ValidateEndpoint(e) == nil && !slices.Contains(endpoints, e) && len(endpoints) < apiidentity.MaxEndpoints {
			endpoints = append(endpoints, e)
		}
	}
	return endpoints
}

// Record returns the cluster's signed record. As long as its content is that
// of the previous one, the previous one stands. A serial is the milliseconds
// since the epoch began, or one more than the last serial if that is greater:
// so it grows even if the previous record was lost with its object.
func Record(self Self, clusterID v1alpha1.ClusterID, gateways []apiidentity.Gateway, previous string, now time.Time) (string, error) {
	record := apiidentity.Record{ClusterID: clusterID, Epoch: self.Epoch, Gateways: gateways}
	if ms := now.UnixMilli(); ms > 0 && uint64(ms) > self.Epoch {
		record.Serial = uint64(ms) - self.Epoch
	}
	if old, err := apiidentity.ParseRecord(previous); err == nil && old.Identity() == self.ID && old.Epoch == self.Epoch {
		if sameContent(old, &record) {
			return previous, nil
		}
		record.Serial = max(record.Serial, old.Serial+1)
	}
	token, err := record.Sign(self.Key)
	if err != nil {
		return "", fmt.Errorf("sign the record of cluster %s: %w", clusterID, err)
	}
	return token, nil
}

// sameContent compares what the records say, not when they were made.
func sameContent(a, b *apiidentity.Record) bool {
	if a.ClusterID != b.ClusterID {
		return false
	}
	left, errLeft := json.Marshal(a.Gateways)
	right, errRight := json.Marshal(b.Gateways)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}
