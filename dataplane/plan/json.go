package plan

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// MarshalJSON writes the hardware address in its usual form.
func (o Overlay) MarshalJSON() ([]byte, error) {
	type plain Overlay
	return json.Marshal(struct {
		plain
		MAC string `json:"mac"`
	}{plain(o), o.MAC.String()})
}

// MarshalJSON writes the key in base64, as WireGuard's own tools do.
func (p Peer) MarshalJSON() ([]byte, error) {
	type plain Peer
	return json.Marshal(struct {
		plain
		PublicKey string `json:"publicKey"`
	}{plain(p), base64.StdEncoding.EncodeToString(p.PublicKey[:])})
}

// MarshalJSON writes the maps for people to read and to compare: each as a
// sorted list of lines "key: value", addresses as text.
func (m Maps) MarshalJSON() ([]byte, error) {
	net := func(n bpfgen.BorderWeftNet) string { return fmt.Sprintf("cluster %d network %d", n.Cluster, n.Network) }
	wire := func(w bpfgen.BorderWeftWire) string {
		return fmt.Sprintf("link %d cluster %d network %d", w.Link, w.Cluster, w.Network)
	}
	return json.Marshal(map[string][]string{
		"view4": slices.Concat(
			lines(m.View4, func(slot uint32, n bpfgen.BorderWeftNet) string { return first(slot, n.Flags, n.PrefixLen, net(n)) }),
			lines(m.View4Long, func(k bpfgen.BorderWeftPrefix4, n bpfgen.BorderWeftNet) string {
				return fmt.Sprintf("%s: %s", prefixText(k), net(n))
			})),
		"wire4": slices.Concat(
			lines(m.Wire4, func(slot uint32, w bpfgen.BorderWeftWire) string { return first(slot, w.Flags, w.PrefixLen, wire(w)) }),
			lines(m.Wire4Long, func(k bpfgen.BorderWeftPrefix4, w bpfgen.BorderWeftWire) string {
				return fmt.Sprintf("%s: %s", prefixText(k), wire(w))
			})),
		"theirs4": lines(m.Theirs4, func(k bpfgen.BorderWeftTheirsKey, n bpfgen.BorderWeftNet) string {
			return fmt.Sprintf("link %d %s/%d: %s", k.Link, bpfgen.FromAddress4(k.Prefix), k.PrefixLen, net(n))
		}),
		"rows4": lines(m.Rows4, func(k bpfgen.BorderWeftRowKey, r bpfgen.BorderWeftRow4) string {
			side := [...]string{bpfgen.SideOurs: "ours", bpfgen.SideTheirs: "theirs"}[k.Side]
			return fmt.Sprintf("link %d %s cluster %d network %d: local %s wire %s mask %s", k.Link, side, k.Cluster, k.Network,
				bpfgen.FromAddress4(r.Local), bpfgen.FromAddress4(r.Wire), bpfgen.FromAddress4(r.Mask))
		}),
		"links": lines(m.Links, func(id uint32, l Link) string {
			return fmt.Sprintf("link %d: lane %s cluster %d own gateway %d remote gateway %d", id, l.Lane, l.Value.Cluster, l.Value.OwnGateway, l.Value.RemoteGateway)
		}),
		"accept": lines(m.Accept, func(k bpfgen.BorderWeftAcceptKey, v uint32) string {
			return fmt.Sprintf("link %d cluster %d: %d", k.Link, k.Cluster, v)
		}),
		"transit": lines(m.Transit, func(k, v uint32) string { return fmt.Sprintf("from %d to %d: %d", k/256, k%256, v) }),
		"gateways4": lines(m.Gateways4, func(id uint32, g bpfgen.BorderWeftGateway4) string {
			return fmt.Sprintf("gateway %d: %s flags %d", id, bpfgen.FromAddress4(g.Underlay), g.Flags)
		}),
		"clusters": lines(m.Clusters, func(index uint32, c bpfgen.BorderWeftCluster) string {
			return fmt.Sprintf("cluster %d: mtu %d", index, c.Mtu)
		}),
		"places4": lines(m.Places4, func(k bpfgen.BorderWeftPrefix4, p bpfgen.BorderWeftPlace4) string {
			return fmt.Sprintf("%s: %s flags %d", prefixText(k), bpfgen.FromAddress4(p.Underlay), p.Flags)
		}),
		"nodes4": lines(m.Nodes4, func(k, v uint32) string { return fmt.Sprintf("%s: %d", bpfgen.FromAddress4(k), v) }),
	})
}

// lines are the entries of a map as text, sorted, without repetitions and empty
// lines.
func lines[K comparable, V any](m map[K]V, line func(K, V) string) []string {
	out := []string{}
	for k, v := range m {
		if text := line(k, v); text != "" {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// first is the line of a slot of a first level: that of the prefix that covers
// it, and none where the second level answers.
func first(slot uint32, flags, bits uint8, value string) string {
	if flags&bpfgen.NetValid == 0 {
		return ""
	}
	var bytes [4]byte
	binary.BigEndian.PutUint16(bytes[:2], uint16(slot))
	return fmt.Sprintf("%s: %s", netip.PrefixFrom(netip.AddrFrom4(bytes), int(bits)).Masked(), value)
}

func prefixText(k bpfgen.BorderWeftPrefix4) netip.Prefix {
	return netip.PrefixFrom(bpfgen.FromAddress4(k.Prefix), int(k.PrefixLen))
}
