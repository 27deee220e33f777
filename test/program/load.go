package program

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// Device says what the programs are loaded for.
type Device struct {
	BorderOffset   uint8 // bytes before the IP header on the lane
	OverlayIfindex uint32
}

// Loaded programs and the maps that they share.
type Loaded struct {
	bpfgen.BorderMaps
	BorderIngress, BorderEgress   *ebpf.Program
	OverlayIngress, OverlayEgress *ebpf.Program

	collections []*ebpf.Collection
}

// Load both objects, nothing pinned, with the world in their maps.
func Load(w *World, device Device) (_ *Loaded, err error) {
	loaded := &Loaded{}
	defer func() {
		if err != nil {
			loaded.Close()
		}
	}()
	border, err := loaded.load(bpfgen.LoadBorder, w, device.BorderOffset, device.OverlayIfindex, nil)
	if err != nil {
		return nil, fmt.Errorf("load border programs: %w", err)
	}
	shared := maps.Clone(border.Maps)
	if err := border.Assign(&loaded.BorderMaps); err != nil { // takes them out of the collection
		return nil, err
	}
	overlay, err := loaded.load(bpfgen.LoadOverlay, w, 14, device.OverlayIfindex, shared)
	if err != nil {
		return nil, fmt.Errorf("load overlay programs: %w", err)
	}
	loaded.BorderIngress = border.Programs[bpfgen.BorderProgWeftBorderIngress]
	loaded.BorderEgress = border.Programs[bpfgen.BorderProgWeftBorderEgress]
	loaded.OverlayIngress = overlay.Programs[bpfgen.OverlayProgWeftOverlayIngress]
	loaded.OverlayEgress = overlay.Programs[bpfgen.OverlayProgWeftOverlayEgress]
	if err := loaded.Fill(w); err != nil {
		return nil, fmt.Errorf("fill maps: %w", err)
	}
	return loaded, nil
}

// Close unloads what is not attached.
func (l *Loaded) Close() {
	for _, collection := range l.collections {
		collection.Close()
	}
	l.BorderMaps.Close()
}

func (l *Loaded) load(spec func() (*ebpf.CollectionSpec, error), w *World, offset uint8, overlay uint32, shared map[string]*ebpf.Map) (*ebpf.Collection, error) {
	collectionSpec, err := spec()
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]any{
		"weft_overlay_ifindex": overlay,
		"weft_vni":             w.VNI,
		"weft_probe_port":      w.ProbePort,
		"weft_channel_port":    w.ChannelPort,
		"weft_l3_offset":       offset,
		"weft_fabric_address":  bpfgen.Address4(w.FabricAddress),
	} {
		if err := collectionSpec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	replacements := map[string]*ebpf.Map{}
	for name, mapSpec := range collectionSpec.Maps {
		mapSpec.Pinning = ebpf.PinNone
		if m := shared[name]; m != nil && name != ".rodata" {
			replacements[name] = m
		}
	}
	collection, err := ebpf.NewCollectionWithOptions(collectionSpec, ebpf.CollectionOptions{MapReplacements: replacements})
	if err != nil {
		return nil, err
	}
	l.collections = append(l.collections, collection)
	return collection, nil
}

// Fill writes the world into fresh maps.
func (l *Loaded) Fill(w *World) error {
	var errs []error
	put := func(m *ebpf.Map, key, value any) { errs = append(errs, m.Put(key, value)) }
	var lengths bpfgen.BorderWeftLengths
	// Longer prefixes after the shorter ones that may hold them.
	networks, rows := slices.Clone(w.Networks), slices.Clone(w.Rows)
	slices.SortFunc(networks, func(a, b Network) int { return a.Local.Bits() - b.Local.Bits() })
	slices.SortFunc(rows, func(a, b Row) int { return a.Wire.Bits() - b.Wire.Bits() })
	for _, network := range networks {
		net := bpfgen.BorderWeftNet{Flags: bpfgen.NetValid, PrefixLen: uint8(network.Local.Bits()), Cluster: network.Cluster, Network: network.Network}
		if network.Node {
			net.Flags |= bpfgen.NetNode
		}
		errs = append(errs, putTwoLevels(l.WeftView4, l.WeftView4Long, &lengths.View4, network.Local, net,
			func(n *bpfgen.BorderWeftNet) { n.Flags |= bpfgen.NetLonger }))
	}
	theirs := map[uint16]uint32{}
	for _, row := range rows {
		key := bpfgen.BorderWeftRowKey{Link: row.Link, Side: row.Side, Cluster: row.Cluster, Network: row.Network}
		put(l.WeftRows4, key, bpfgen.BorderWeftRow4{Local: bpfgen.Address4(row.Local.Addr()), Wire: bpfgen.Address4(row.Wire.Addr()),
			Mask: bpfgen.Mask4(row.Wire.Bits()), Delta: bpfgen.Delta(row.Local, row.Wire)})
		flags := uint8(bpfgen.NetValid)
		if network := w.network(row.Cluster, row.Network); network != nil && network.Node {
			flags |= bpfgen.NetNode
		}
		if row.Side == bpfgen.SideTheirs {
			theirs[row.Link] |= 1 << (row.Wire.Bits() - 1)
			put(l.WeftTheirs4, bpfgen.BorderWeftTheirsKey{Prefix: bpfgen.Address4(row.Wire.Addr()), Link: row.Link, PrefixLen: uint8(row.Wire.Bits())},
				bpfgen.BorderWeftNet{Flags: flags, PrefixLen: uint8(row.Wire.Bits()), Cluster: row.Cluster, Network: row.Network})
			continue
		}
		errs = append(errs, putTwoLevels(l.WeftWire4, l.WeftWire4Long, &lengths.Wire4, row.Wire,
			bpfgen.BorderWeftWire{Link: row.Link, Flags: flags, PrefixLen: uint8(row.Wire.Bits()), Cluster: row.Cluster, Network: row.Network},
			func(n *bpfgen.BorderWeftWire) { n.Flags |= bpfgen.NetLonger }))
	}
	for id, link := range w.Links {
		put(l.WeftLinks, uint32(id), bpfgen.BorderWeftLink{Flags: bpfgen.LinkValid, Cluster: link.Cluster, LaneIfindex: link.Lane,
			OuterFragments: link.OuterFragments, TheirsLengths: theirs[id]})
	}
	for crossing, accept := range w.Accept {
		put(l.WeftAccept, bpfgen.BorderWeftAcceptKey{Link: crossing.Link, Cluster: crossing.Cluster}, number(accept))
	}
	for pair, allowed := range w.Transit {
		put(l.WeftTransit, uint32(pair[0])*bpfgen.MaxClusters+uint32(pair[1]), number(allowed))
	}
	for cluster, link := range w.Paths {
		put(l.WeftPaths, uint32(cluster), uint32(link))
	}
	for cluster, ids := range w.Choices {
		word := uint64(len(ids))
		for i, id := range ids {
			word |= uint64(id) << (8 * (i + 1))
		}
		put(l.WeftChoices, uint32(cluster), word)
	}
	for id, gateway := range w.Gateways {
		put(l.WeftGateways4, uint32(id), bpfgen.BorderWeftGateway4{Underlay: bpfgen.Address4(gateway.Underlay), Flags: number(gateway.Local) * bpfgen.PlaceLocal})
	}
	for cluster, mtu := range w.MTU {
		put(l.WeftClusters, uint32(cluster), bpfgen.BorderWeftCluster{Mtu: mtu})
	}
	for _, place := range w.Places {
		lengths.Places4 |= 1 << (place.Prefix.Bits() - 1)
		put(l.WeftPlaces4, prefix4(place.Prefix), bpfgen.BorderWeftPlace4{Underlay: bpfgen.Address4(place.Underlay),
			Flags: number(place.Local)*bpfgen.PlaceLocal | number(place.Fabric)*bpfgen.PlaceFabric})
	}
	for node, gateway := range w.Nodes {
		put(l.WeftNodes4, bpfgen.Address4(node), number(gateway)*bpfgen.NodeGateway)
	}
	put(l.WeftLengths, uint32(0), lengths)
	put(l.WeftReach, uint32(0), bpfgen.BorderWeftReach{Bits: w.Reach})
	return errors.Join(errs...)
}

// putTwoLevels writes a prefix into a table of an array over the upper 16 bits
// and a hash of longer prefixes. longer sets the flag that points to the hash.
func putTwoLevels[V any](array, hash *ebpf.Map, lengths *uint32, prefix netip.Prefix, value V, longer func(*V)) error {
	first := prefix.Addr().As4()
	index := uint32(first[0])<<8 | uint32(first[1])
	var entry V
	if prefix.Bits() > 16 {
		*lengths |= 1 << (prefix.Bits() - 1)
		if err := array.Lookup(index, &entry); err != nil {
			return err
		}
		longer(&entry)
		return errors.Join(array.Put(index, entry), hash.Put(prefix4(prefix), value))
	}
	for i := range uint32(1) << (16 - prefix.Bits()) {
		if err := array.Put(index+i, value); err != nil {
			return err
		}
	}
	return nil
}

func prefix4(prefix netip.Prefix) bpfgen.BorderWeftPrefix4 {
	return bpfgen.BorderWeftPrefix4{Prefix: bpfgen.Address4(prefix.Addr()), PrefixLen: uint32(prefix.Bits())}
}

func number(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
