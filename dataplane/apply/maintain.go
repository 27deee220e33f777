package apply

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"golang.zx2c4.com/wireguard/wgctrl"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// Maintain does what the running tunnels need between two Applies and what no
// plan says: endpoints of silent peers, persisting roamed endpoints, counts of
// outer fragments. It is meant to be called every 2 to 5 s and is cheap.
func (e *Executor) Maintain(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(e.maintainEndpoints(ctx), e.copyFragmentCounts())
}

// copyFragmentCounts writes what nftables has counted per source address to the
// links of the peers that send from there, where the reflected probes find it.
func (e *Executor) copyFragmentCounts() error {
	if len(e.current.Lanes) == 0 || e.current.Firewall == nil {
		return nil
	}
	counts, err := fragmentCounts()
	if err != nil || len(counts) == 0 {
		return err
	}
	byLink, err := e.linkCounts(counts)
	if err != nil {
		return err
	}
	e.mapsMu.Lock()
	defer e.mapsMu.Unlock()
	set, err := e.openedMaps()
	if err != nil || set == nil {
		return err
	}
	links := set.byName[bpfgen.BorderMapWeftLinks]
	for id, count := range byLink {
		var link bpfgen.BorderWeftLink
		if err := links.Lookup(uint32(id), &link); err != nil {
			return wrapMap(links, "read", err)
		}
		seen, known := e.fragments[id]
		if !known { // by this process
			seen = min(count, link.OuterFragments)
		}
		e.fragments[id] = count
		rise := fragmentsSince(seen, count)
		if link.Flags&bpfgen.LinkValid == 0 || rise == 0 {
			continue
		}
		link.OuterFragments += rise
		if err := links.Put(uint32(id), &link); err != nil {
			return wrapMap(links, "write", err)
		}
	}
	return nil
}

// fragmentsSince is by how much a count has grown. It begins anew when the set
// has forgotten a silent source or the table was replaced, and the number that
// probes carry goes on rising.
func fragmentsSince(seen, count uint32) uint32 {
	if count < seen {
		return count
	}
	return count - seen
}

// fragmentCounts reads the dynamic set: source address -> first fragments.
func fragmentCounts() (map[netip.Addr]uint32, error) {
	connection, err := nftConnection()
	if err != nil {
		return nil, err
	}
	set := setSpec{name: setFragments, key: nftables.TypeIPAddr}.definition()
	elements, err := connection.GetSetElements(set)
	if err != nil {
		return nil, fmt.Errorf("read nftables set %s: %w", setFragments, err)
	}
	counts := map[netip.Addr]uint32{}
	for _, element := range elements {
		if address, ok := netip.AddrFromSlice(element.Key); ok && element.Counter != nil {
			counts[address] = uint32(element.Counter.Packets)
		}
	}
	return counts, nil
}

// linkCounts finds the links by the peers' endpoints: a link's wire prefixes are
// among the AllowedIPs of its peer.
func (e *Executor) linkCounts(counts map[netip.Addr]uint32) (map[uint16]uint32, error) {
	client, err := wgctrl.New()
	if err != nil {
		return nil, fmt.Errorf("reach WireGuard: %w", err)
	}
	defer client.Close()
	byLink := map[uint16]uint32{}
	for _, lane := range e.current.Lanes {
		device, err := client.Device(lane.Device)
		if err != nil {
			return nil, fmt.Errorf("read lane %s: %w", lane.Device, err)
		}
		for _, peer := range device.Peers {
			count := counts[endpointOf(peer).Addr()]
			if count == 0 {
				continue
			}
			for _, prefix := range toPrefixes(peer.AllowedIPs) {
				if link := e.linkOfWire(prefix); link != 0 {
					byLink[link] = count
				}
			}
		}
	}
	return byLink, nil
}

// linkOfWire returns the link on which packets from a wire prefix arrive, 0 if
// there is none.
func (e *Executor) linkOfWire(prefix netip.Prefix) uint16 {
	if !prefix.Addr().Is4() {
		return 0
	}
	address := prefix.Addr().As4()
	if wire, ok := e.current.Maps.Wire4[uint32(address[0])<<8|uint32(address[1])]; ok && wire.Link != 0 {
		return wire.Link
	}
	for key, wire := range e.current.Maps.Wire4Long {
		if key.PrefixLen == uint32(prefix.Bits()) && key.Prefix == bpfgen.Address4(prefix.Addr()) {
			return wire.Link
		}
	}
	return 0
}
