package apply

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
)

// attachedProgram returns the program that is attached at this place, by a
// pinned link or by clsact; 0 if there is none.
func attachedProgram(pinRoot string, a attachment, device netlink.Link) ebpf.ProgramID {
	pinned, err := link.LoadPinnedLink(linkPin(pinRoot, a), nil)
	if err == nil {
		defer pinned.Close()
		program, _ := linkTarget(pinned, device)
		return program
	}
	filter, _ := classicFilter(a, device)
	if filter == nil {
		return 0
	}
	return ebpf.ProgramID(filter.Id)
}

func linkPin(pinRoot string, a attachment) string {
	return filepath.Join(pinRoot, linksFolder, a.name())
}

// linkTarget returns the link's program, and false if the link is not (or no
// longer) on this device: the kernel zeroes the index when a device goes.
func linkTarget(pinned link.Link, device netlink.Link) (ebpf.ProgramID, bool) {
	info, err := pinned.Info()
	if err != nil {
		return 0, false
	}
	tcx := info.TCX()
	if tcx == nil || tcx.Ifindex != uint32(device.Attrs().Index) {
		return 0, false
	}
	return info.Program, true
}

// attach puts the program on the device, by TCX where the kernel has it (6.6),
// else by clsact. A link in place is updated: no packet passes unseen.
func (r *run) attach(a attachment, device netlink.Link, program *ebpf.Program, pin string) error {
	err := ebpf.ErrNotSupported
	if !r.forceClassic {
		err = r.attachTCX(a, device, program)
	}
	if errors.Is(err, ebpf.ErrNotSupported) {
		err = attachClassic(a, device, program)
	}
	if err != nil {
		return err
	}
	return pinProgram(program, pin, a)
}

func (r *run) attachTCX(a attachment, device netlink.Link, program *ebpf.Program) error {
	path := linkPin(r.options.PinRoot, a)
	pinned, err := link.LoadPinnedLink(path, nil)
	if err == nil {
		defer pinned.Close()
		if _, here := linkTarget(pinned, device); here {
			return pinned.Update(program)
		}
		// The device was deleted or made anew, and the link went with it.
		if err := pinned.Unpin(); err != nil {
			return fmt.Errorf("remove link of a former device: %w", err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("open pinned link: %w", err)
	}
	// Whoever else is on the device should see local view: before the wire on
	// egress, after it on ingress. So we are the last to see what leaves and the
	// first to see what arrives.
	options := link.TCXOptions{Interface: device.Attrs().Index, Program: program, Attach: ebpf.AttachTCXEgress, Anchor: link.Tail()}
	if a.ingress {
		options.Attach, options.Anchor = ebpf.AttachTCXIngress, link.Head()
	}
	attached, err := link.AttachTCX(options)
	if err != nil {
		return err
	}
	defer attached.Close()
	if err := makePinFolder(filepath.Dir(path)); err != nil {
		return err
	}
	return attached.Pin(path)
}

// pruneAttachments removes the pins of devices that the plan does not name and
// that are gone: with its pin a program leaves a device that is still there.
func (r *run) pruneAttachments() {
	wanted := map[string]bool{}
	for _, attachments := range r.attachments() {
		for _, a := range attachments {
			wanted[a.name()] = true
		}
	}
	for _, folder := range []string{linksFolder, programsFolder} {
		pins, err := os.ReadDir(filepath.Join(r.options.PinRoot, folder))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			r.fail(fmt.Errorf("list pins: %w", err))
			continue
		}
		for _, pin := range pins {
			device, name := splitPin(pin.Name())
			if wanted[name] {
				continue
			}
			if left, err := findDevice(device); !r.fail(err) || left != nil {
				continue // why it is left has been reported
			}
			if r.fail(os.Remove(filepath.Join(r.options.PinRoot, folder, pin.Name()))) {
				r.did("remove", "pin", pin.Name())
			}
		}
	}
}

// splitPin returns the device and the attachment's name from the name of a pin,
// of which a program's ends with its fingerprint.
func splitPin(pin string) (device, attachment string) {
	for _, direction := range []string{"-ingress", "-egress"} {
		if device, _, found := strings.Cut(pin, direction); found {
			return device, device + direction
		}
	}
	return pin, pin
}
