package apply

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// Header lengths in front of the IP header, for weft_l3_offset.
const (
	l3OffsetLane    = 0
	l3OffsetOverlay = 14
)

// programSpecs are the compiled programs as parsed. They are copied before use.
type programSpecs struct {
	border, overlay *ebpf.CollectionSpec
	// code is a digest of each program's instructions, by name.
	code map[string]string
}

func loadSpecs() (programSpecs, error) {
	border, err := bpfgen.LoadBorder()
	if err != nil {
		return programSpecs{}, fmt.Errorf("read compiled border programs: %w", err)
	}
	overlay, err := bpfgen.LoadOverlay()
	if err != nil {
		return programSpecs{}, fmt.Errorf("read compiled overlay programs: %w", err)
	}
	specs := programSpecs{border: border, overlay: overlay, code: map[string]string{}}
	for _, collection := range []*ebpf.CollectionSpec{border, overlay} {
		for name, program := range collection.Programs {
			specs.code[name] = digest(program)
		}
	}
	return specs, nil
}

func digest(program *ebpf.ProgramSpec) string {
	hash := sha256.New()
	for _, instruction := range program.Instructions {
		fmt.Fprintf(hash, "%d %d %d %d %d %s %s\n", instruction.OpCode, instruction.Dst, instruction.Src,
			instruction.Offset, instruction.Constant, instruction.Reference(), instruction.Symbol())
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// pinned are all maps that the programs share by name.
func (s programSpecs) pinned() map[string]*ebpf.MapSpec {
	shared := map[string]*ebpf.MapSpec{}
	for _, collection := range []*ebpf.CollectionSpec{s.border, s.overlay} {
		for name, spec := range collection.Maps {
			if spec.Pinning == ebpf.PinByName {
				shared[name] = spec
			}
		}
	}
	return shared
}

// attachment is one program on one device in one direction.
type attachment struct {
	device  string
	ingress bool
	program string // its name in the collection
}

func (a attachment) name() string {
	if a.ingress {
		return a.device + "-ingress"
	}
	return a.device + "-egress"
}

// attachments that the plan needs, by device.
func (r *run) attachments() map[string][]attachment {
	wanted := map[string][]attachment{}
	if overlay := r.plan.Overlay; overlay != nil {
		wanted[overlay.Device] = []attachment{
			{overlay.Device, true, bpfgen.OverlayProgWeftOverlayIngress},
			{overlay.Device, false, bpfgen.OverlayProgWeftOverlayEgress},
		}
	}
	for _, lane := range r.plan.Lanes {
		wanted[lane.Device] = []attachment{
			{lane.Device, true, bpfgen.BorderProgWeftBorderIngress},
			{lane.Device, false, bpfgen.BorderProgWeftBorderEgress},
		}
	}
	return wanted
}

// ensurePrograms attaches the programs of every device that exists.
func (r *run) ensurePrograms() {
	if r.maps == nil {
		return // why has been reported
	}
	for _, device := range slices.Sorted(maps.Keys(r.attachments())) {
		r.fail(r.guard(device, r.attachments()[device]))
	}
}

// guard attaches a device's programs, loading them only if those in the kernel
// are others.
func (r *run) guard(device string, wanted []attachment) error {
	link, err := findDevice(device)
	if err != nil || link == nil {
		return err // why it is missing has been reported
	}
	spec, err := r.collection(device)
	if err != nil {
		return fmt.Errorf("prepare programs of %s: %w", device, err)
	}
	var loaded *ebpf.Collection
	defer func() {
		if loaded != nil {
			loaded.Close()
		}
	}()
	for _, a := range wanted {
		fingerprint, err := fingerprint(spec, r.specs.code[a.program], r.maps)
		if err != nil {
			return fmt.Errorf("prepare program %s: %w", a.program, err)
		}
		pin := filepath.Join(r.options.PinRoot, programsFolder, a.name()+"-"+fingerprint)
		if current := pinnedProgram(pin); current != 0 && attachedProgram(r.options.PinRoot, a, link) == current {
			continue
		}
		if loaded == nil {
			if loaded, err = load(spec, r.maps); err != nil {
				return fmt.Errorf("load programs of %s: %w", device, err)
			}
		}
		if err := r.attach(a, link, loaded.Programs[a.program], pin); err != nil {
			return fmt.Errorf("attach %s to %s: %w", a.program, device, err)
		}
		r.did("change", "program", a.name())
	}
	r.guarded[device] = true
	return nil
}

// collection returns the device's programs with their constants set.
func (r *run) collection(device string) (*ebpf.CollectionSpec, error) {
	overlay := r.plan.Overlay
	isOverlay := overlay != nil && device == overlay.Device
	spec, offset := r.specs.border.Copy(), uint8(l3OffsetLane)
	if isOverlay {
		spec, offset = r.specs.overlay.Copy(), l3OffsetOverlay
	}
	values := map[string]any{"weft_l3_offset": offset, "weft_overlay_ifindex": uint32(0), "weft_vni": uint32(0),
		"weft_fabric_address": [4]byte{}, "weft_probe_port": uint16(0), "weft_channel_port": uint16(0)}
	if overlay != nil {
		link, err := findDevice(overlay.Device)
		if err != nil || link == nil {
			return nil, errors.Join(err, fmt.Errorf("device %s does not exist", overlay.Device))
		}
		values["weft_overlay_ifindex"] = uint32(link.Attrs().Index)
		values["weft_vni"] = overlay.VNI
		if overlay.FabricAddress.Is4() {
			values["weft_fabric_address"] = overlay.FabricAddress.As4()
		}
	}
	if firewall := r.plan.Firewall; firewall != nil {
		values["weft_probe_port"] = firewall.ProbePort
		values["weft_channel_port"] = firewall.ChannelPort
	}
	return spec, setConstants(spec, values)
}

// setConstants sets all of a collection's own constants. One that nobody gives a
// value to would silently be zero, so it is an error.
func setConstants(spec *ebpf.CollectionSpec, values map[string]any) error {
	for name, variable := range spec.Variables {
		if !strings.HasPrefix(name, "weft_") || !variable.Constant() {
			continue
		}
		value, known := values[name]
		if !known {
			return fmt.Errorf("constant %s of the program has no value", name)
		}
		if err := variable.Set(value); err != nil {
			return fmt.Errorf("set constant %s: %w", name, err)
		}
	}
	return nil
}

func load(spec *ebpf.CollectionSpec, set *mapSet) (*ebpf.Collection, error) {
	shared := map[string]*ebpf.Map{}
	for name, m := range spec.Maps {
		if m.Pinning == ebpf.PinByName {
			shared[name] = set.byName[name]
			m.Pinning = ebpf.PinNone // they are open already
		}
	}
	collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
	var verifier *ebpf.VerifierError
	if errors.As(err, &verifier) {
		return nil, fmt.Errorf("%w (last lines of the verifier: %s)", err, strings.Join(verifier.Log[max(0, len(verifier.Log)-5):], "; "))
	}
	return collection, err
}

// fingerprint names a program by all that makes it: instructions, constants and
// the maps it is bound to. It is part of the name of the program's pin, so that
// a restarted agent can tell that the program in the kernel is its own.
func fingerprint(spec *ebpf.CollectionSpec, code string, set *mapSet) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, code)
	for _, name := range slices.Sorted(maps.Keys(spec.Variables)) {
		fmt.Fprintf(hash, "%s=%x\n", name, spec.Variables[name].Value)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Maps)) {
		m, shared := set.byName[name]
		if !shared {
			continue
		}
		info, err := m.Info()
		if err != nil {
			return "", err
		}
		id, _ := info.ID()
		if err := binary.Write(hash, binary.BigEndian, uint32(id)); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)[:8]), nil
}

// pinnedProgram returns 0 if there is no such pin.
func pinnedProgram(pin string) ebpf.ProgramID {
	program, err := ebpf.LoadPinnedProgram(pin, nil)
	if err != nil {
		return 0
	}
	defer program.Close()
	return programID(program)
}

func programID(program *ebpf.Program) ebpf.ProgramID {
	info, err := program.Info()
	if err != nil {
		return 0
	}
	id, _ := info.ID()
	return id
}

// pinProgram pins the attached program and removes the pins of those before it.
func pinProgram(program *ebpf.Program, pin string, a attachment) error {
	folder := filepath.Dir(pin)
	if err := makePinFolder(folder); err != nil {
		return err
	}
	pins, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("list pinned programs: %w", err)
	}
	for _, old := range pins {
		if strings.HasPrefix(old.Name(), a.name()+"-") {
			if err := os.Remove(filepath.Join(folder, old.Name())); err != nil {
				return fmt.Errorf("remove pin of the former program: %w", err)
			}
		}
	}
	return program.Pin(pin)
}
