package program

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// skBuff is struct __sk_buff of linux/bpf.h, the context of a test run.
type skBuff struct {
	Len, PktType, Mark, QueueMapping, Protocol, VLANPresent, VLANTCI, VLANProto uint32
	Priority, IngressIfindex, Ifindex, TCIndex                                  uint32
	CB                                                                          [5]uint32
	Hash, TCClassID, Data, DataEnd, NAPIID, Family                              uint32
	RemoteIP4, LocalIP4                                                         uint32
	RemoteIP6, LocalIP6                                                         [4]uint32
	RemotePort, LocalPort, DataMeta                                             uint32
	FlowKeys, Timestamp                                                         uint64
	WireLen, GSOSegs                                                            uint32
	Socket                                                                      uint64
	GSOSize                                                                     uint32
	TimestampType                                                               uint32
	HardwareTimestamp                                                           uint64
}

// Header that a test run's packets carry, and the one that the programs write.
var (
	testHeader    = [12]byte{2, 9, 9, 9, 9, 9, 2, 8, 8, 8, 8, 8}
	writtenHeader = [12]byte{0x02, 'w', 'e', 'f', 't', 2, 0x02, 'w', 'e', 'f', 't', 1}
)

// Runner runs the programs by BPF_PROG_TEST_RUN, always with an Ethernet
// header.
type Runner struct {
	*Loaded
	tunnel  *ebpf.Program // gives the packet a tunnel key, then overlay ingress
	key     *ebpf.Map
	next    *ebpf.Map // its entry lasts as long as this handle
	marks   map[Mark][2]uint32
	scratch []byte
	flags   uint32 // of the test run
}

// NewRunner loads the programs for a world.
func NewRunner(w *World) (*Runner, error) {
	loaded, err := Load(w, Device{BorderOffset: 14, OverlayIfindex: 1})
	if err != nil {
		return nil, err
	}
	r := &Runner{Loaded: loaded, marks: map[Mark][2]uint32{NoMark: {}}, scratch: make([]byte, 1<<12)}
	if err := r.loadTunnel(); err != nil {
		r.Close()
		return nil, fmt.Errorf("load the sender of overlay packets: %w", err)
	}
	return r, nil
}

// Close unloads all.
func (r *Runner) Close() {
	r.Loaded.Close()
	if r.tunnel != nil {
		r.tunnel.Close()
	}
	for _, m := range []*ebpf.Map{r.key, r.next} {
		if m != nil {
			m.Close()
		}
	}
}

// tunnelKey is struct bpf_tunnel_key. What is set as its local address is what
// a receiver reads as the remote one.
type tunnelKey struct {
	ID                 uint32
	Remote             [4]uint32
	TOS, TTL           uint8
	Extension          uint16
	Label              uint32
	Local, LocalIgnore uint32
	_                  [2]uint32
}

// loadTunnel makes a program that sets the key of the map on the packet and
// goes on as overlay ingress.
func (r *Runner) loadTunnel() (err error) {
	const keySize = 44
	if r.key, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: keySize, MaxEntries: 1}); err != nil {
		return err
	}
	r.next, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return err
	}
	r.tunnel, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, r.key.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Reg(asm.R2, asm.R0),
		asm.Mov.Imm(asm.R3, keySize),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnSkbSetTunnelKey.Call(),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, r.next.FD()),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, 99).WithSymbol("end"),
		asm.Return(),
	}})
	if err != nil {
		return err
	}
	return r.next.Put(uint32(0), r.OverlayIngress)
}

// Run one packet. The output does not say what was counted: Counts does.
func (r *Runner) Run(in Input) (Output, skBuff, error) {
	frame := append(testHeader[:], byte(in.EtherType>>8), byte(in.EtherType))
	frame = append(frame, in.Packet...)
	context := skBuff{Ifindex: 1, GSOSize: in.GSOSize}
	mark, known := r.marks[in.Mark]
	if !known {
		return Output{}, skBuff{}, fmt.Errorf("mark %d has not been learned", in.Mark)
	}
	copy(context.CB[:], mark[:])
	program := map[uint32]*ebpf.Program{bpfgen.LaneIngress: r.BorderIngress, bpfgen.LaneEgress: r.BorderEgress,
		bpfgen.OverlayIngress: r.OverlayIngress, bpfgen.OverlayEgress: r.OverlayEgress}[in.Hook]
	if in.Sender.IsValid() {
		address := in.Sender.As4()
		if err := r.key.Put(uint32(0), tunnelKey{ID: in.VNI, Local: binary.BigEndian.Uint32(address[:])}); err != nil {
			return Output{}, skBuff{}, err
		}
		program = r.tunnel
	}
	var after skBuff
	options := ebpf.RunOptions{Data: frame, DataOut: r.scratch, Context: context, ContextOut: &after, Flags: r.flags}
	verdict, err := program.Run(&options)
	if err != nil {
		return Output{}, skBuff{}, err
	}
	out := options.DataOut
	return Output{Verdict: Verdict(int32(verdict)), Packet: append([]byte{}, out[14:]...),
		Framed: [12]byte(out[:12]) == writtenHeader}, after, nil
}

// LearnMarks takes the marks from the hooks that set them.
func (r *Runner) LearnMarks(reflected, fromStack Input) error {
	for mark, in := range map[Mark]Input{WireMark: reflected, HopMark: fromStack} {
		out, after, err := r.Run(in)
		if err != nil {
			return err
		}
		if out.Verdict != Redirect || after.CB[0] == 0 {
			return fmt.Errorf("no mark set: verdict %d", out.Verdict)
		}
		r.marks[mark] = [2]uint32(after.CB[:2])
	}
	return nil
}
