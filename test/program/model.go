package program

import (
	"net/netip"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// Verdict of a program.
type Verdict int

// Verdicts, as the kernel numbers them.
const (
	Pass     Verdict = -1
	Drop     Verdict = 2
	Redirect Verdict = 7
)

// Mark is a note from another hook.
type Mark int

// Marks.
const (
	NoMark Mark = iota
	WireMark
	HopMark
)

// Input of a program.
type Input struct {
	Hook      uint32 // bpfgen.LaneIngress and so on
	EtherType uint16
	Packet    []byte // from the IP header on
	GSOSize   uint32
	Mark      Mark
	// Sender is the outer source of a packet from the tunnel; not valid: it was
	// redirected by this node.
	Sender netip.Addr
	VNI    uint32
}

// Output of a program.
type Output struct {
	Verdict Verdict
	Reason  bpfgen.Reason
	Link    uint16
	Counted bool
	Packet  []byte
	// Framed: the Ethernet header was written anew.
	Framed bool
}

// drop is how the model's functions fail.
type drop bpfgen.Reason

func (d drop) Error() string { return bpfgen.Reason(d).String() }

// Model says what the programs have to do, from the world itself: prefixes are
// searched one by one, checksums are residues modulo 65535.
func (w *World) Model(in Input) Output {
	m := model{World: w, in: in, out: Output{Verdict: Pass, Counted: true, Packet: append([]byte{}, in.Packet...)}}
	hooks := map[uint32]func() error{bpfgen.LaneEgress: m.leave, bpfgen.LaneIngress: m.enter,
		bpfgen.OverlayEgress: m.send, bpfgen.OverlayIngress: m.receive}
	if err := hooks[in.Hook](); err != nil {
		return Output{Verdict: Drop, Reason: bpfgen.Reason(err.(drop)), Link: m.out.Link, Counted: true, Packet: in.Packet}
	}
	return m.out
}

// model is one run.
type model struct {
	*World
	in  Input
	out Output
	ip  header
}

func (m *model) leave() error {
	if m.in.Mark == WireMark {
		m.out.Counted = false
		return nil
	}
	if done, err := m.lane(); done || err != nil {
		return err
	}
	to := m.networkOf(m.ip.destination)
	switch {
	case to == nil:
		return drop(bpfgen.ReasonNoDestination)
	case to.Cluster == Self:
		return drop(bpfgen.ReasonNotRemote)
	case m.Paths[to.Cluster] == 0:
		return drop(bpfgen.ReasonNoPath)
	}
	id := m.Paths[to.Cluster]
	if _, ok := m.Links[id]; !ok {
		return drop(bpfgen.ReasonNoLink)
	}
	m.out.Link = id
	toRow := m.row(id, bpfgen.SideOurs, to.Cluster, to.Network)
	if toRow == nil {
		return drop(bpfgen.ReasonNoDestinationRow)
	}
	source := m.ip.source
	from := m.networkOf(source)
	if from == nil && m.ip.isError() {
		source = m.FabricAddress
		from = m.networkOf(source)
	}
	if from == nil {
		return drop(bpfgen.ReasonNoSource)
	}
	switch {
	case from.Cluster == Self:
	case !m.Transit[[2]uint8{from.Cluster, to.Cluster}]:
		return drop(bpfgen.ReasonNoTransit)
	case m.Links[id].Cluster != to.Cluster:
		return drop(bpfgen.ReasonNoPath)
	}
	fromRow := m.row(id, bpfgen.SideTheirs, from.Cluster, from.Network)
	if fromRow == nil {
		return drop(bpfgen.ReasonNoSourceRow)
	}
	isProbe, err := m.checkHost0(from.Node, fromRow, to.Node, toRow)
	if err != nil {
		return err
	}
	mtu := m.MTU[to.Cluster]
	if mtu == 0 {
		return drop(bpfgen.ReasonNoCluster)
	}
	quoted, err := m.quote(func(a netip.Addr) *Row { // the source of what is quoted
		if n := m.networkOf(a); n != nil && n.Cluster != Self {
			return m.row(id, bpfgen.SideOurs, n.Cluster, n.Network)
		}
		return nil
	}, func(a netip.Addr) *Row {
		if n := m.networkOf(a); n != nil {
			return m.row(id, bpfgen.SideTheirs, n.Cluster, n.Network)
		}
		return nil
	}, (*Row).toWire)
	if err != nil {
		return err
	}
	hop := m.in.Mark != HopMark
	if m.ends(hop, mtu) {
		m.out.Verdict, m.out.Framed = Redirect, true
		return nil
	}
	m.out.Counted = !isProbe
	m.write(fromRow.toWire(source), toRow.toWire(m.ip.destination), quoted, hop)
	m.clamp(mtu)
	return nil
}

func (m *model) enter() error {
	if done, err := m.lane(); done || err != nil {
		return err
	}
	fromRow := m.wireRow(m.ip.source)
	if fromRow == nil {
		return drop(bpfgen.ReasonNoSource)
	}
	id := fromRow.Link
	if _, ok := m.Links[id]; !ok {
		return drop(bpfgen.ReasonNoLink)
	}
	m.out.Link = id
	toRow := m.theirRow(id, m.ip.destination)
	if toRow == nil {
		return drop(bpfgen.ReasonNoDestination)
	}
	if toRow.Cluster != Self && (fromRow.Cluster != m.Links[id].Cluster || !m.Transit[[2]uint8{fromRow.Cluster, toRow.Cluster}]) {
		return drop(bpfgen.ReasonNoTransit)
	}
	isProbe, err := m.checkHost0(m.isNode(fromRow), fromRow, m.isNode(toRow), toRow)
	if err != nil {
		return err
	}
	if isProbe && toRow.Cluster == Self {
		return m.reflect(func(probe []byte) { putUint32(probe[20:], m.Links[id].OuterFragments) }, false)
	}
	if !isProbe && !m.Accept[Crossing{id, fromRow.Cluster}] {
		return drop(bpfgen.ReasonNotAccepted)
	}
	quoted, err := m.quote(func(a netip.Addr) *Row { return m.theirRow(id, a) }, func(a netip.Addr) *Row {
		if row := m.wireRow(a); row != nil && row.Link == id && m.Accept[Crossing{id, row.Cluster}] {
			return row
		}
		return nil
	}, (*Row).toLocal)
	if err != nil {
		return err
	}
	source, destination := fromRow.toLocal(m.ip.source), toRow.toLocal(m.ip.destination)
	mtu := m.MTU[fromRow.Cluster]
	lane, overlay := false, false
	if toRow.Cluster == Self {
		place := m.place(destination)
		if place == nil {
			return drop(bpfgen.ReasonNoPlace)
		}
		overlay = !place.Local
	} else if link, ok := m.Links[m.Paths[toRow.Cluster]]; ok && link.Cluster == toRow.Cluster && m.Reach[toRow.Cluster/64]>>(toRow.Cluster%64)&1 == 1 {
		lane = true
	} else {
		overlay = true
	}
	if toRow.Cluster != Self {
		m.out.Reason = bpfgen.ReasonTransit
	}
	ended := overlay && m.ends(true, mtu)
	overlay = overlay && !ended
	m.out.Counted = !isProbe || ended
	m.write(source, destination, quoted, overlay)
	if !lane {
		m.clamp(mtu)
	}
	if lane || overlay {
		m.out.Verdict, m.out.Framed = Redirect, overlay
	}
	return nil
}

func (m *model) send() error {
	if done, err := m.overlay(); done || err != nil {
		return err
	}
	to := m.networkOf(m.ip.destination)
	if to == nil {
		return drop(bpfgen.ReasonNoDestination)
	}
	if to.Cluster == Self {
		place := m.place(m.ip.destination)
		if place == nil {
			return drop(bpfgen.ReasonNoPlace)
		}
		m.out.Counted = !m.isNodeProbe()
		m.out.Framed = true
		if place.Local {
			m.out.Verdict = Redirect
		}
		return nil
	}
	m.out.Counted = !m.isLaneProbe(to)
	ids := m.Choices[to.Cluster]
	if len(ids) == 0 {
		return drop(bpfgen.ReasonNoGateway)
	}
	gateway, ok := m.Gateways[ids[m.flowHash()%uint32(len(ids))]]
	switch {
	case !ok:
		return drop(bpfgen.ReasonNoGateway)
	case !gateway.Local:
		m.out.Framed = true
		return nil
	}
	if _, ok := m.Links[m.Paths[to.Cluster]]; !ok {
		return drop(bpfgen.ReasonNoPath)
	}
	m.out.Verdict = Redirect
	return nil
}

func (m *model) receive() error {
	if !m.in.Sender.IsValid() {
		return nil
	}
	gateway, known := m.Nodes[m.in.Sender]
	if !known {
		return drop(bpfgen.ReasonTunnelUnknownNode)
	}
	if m.in.VNI != m.VNI {
		return drop(bpfgen.ReasonTunnelWrongVNI)
	}
	if done, err := m.overlay(); done || err != nil {
		return err
	}
	from, at := m.networkOf(m.ip.source), m.place(m.ip.source)
	var fits bool
	switch {
	case from != nil && from.Cluster != Self:
		fits = gateway
	case at != nil:
		fits = at.Underlay == m.in.Sender
	default:
		fits = m.ip.isError()
	}
	if !fits {
		return drop(bpfgen.ReasonTunnelSource)
	}
	to := m.networkOf(m.ip.destination)
	if to == nil {
		return drop(bpfgen.ReasonNoDestination)
	}
	if to.Cluster != Self {
		if _, ok := m.Links[m.Paths[to.Cluster]]; !ok {
			return drop(bpfgen.ReasonNotGateway)
		}
		m.out.Verdict, m.out.Counted = Redirect, !m.isLaneProbe(to)
		return nil
	}
	if place := m.place(m.ip.destination); place == nil || !place.Local {
		return drop(bpfgen.ReasonNoPlace)
	}
	if m.ip.destination == m.FabricAddress && m.isNodeProbe() {
		return m.reflect(func(probe []byte) { copy(probe[24:], Probe{Reach: m.Reach}.String()[24:]) }, true)
	}
	return nil
}
