package apply

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Our filter on clsact: others may use any other priority.
const (
	classicPriority = 77
	classicHandle   = 1
)

func classicParent(a attachment) uint32 {
	if a.ingress {
		return netlink.HANDLE_MIN_INGRESS
	}
	return netlink.HANDLE_MIN_EGRESS
}

// classicFilter returns our filter at this place, nil if there is none.
func classicFilter(a attachment, device netlink.Link) (*netlink.BpfFilter, error) {
	filters, err := dump(func() ([]netlink.Filter, error) { return netlink.FilterList(device, classicParent(a)) })
	if err != nil {
		return nil, fmt.Errorf("list filters of %s: %w", a.device, err)
	}
	for _, filter := range filters {
		if bpf, ok := filter.(*netlink.BpfFilter); ok && bpf.Priority == classicPriority && bpf.Handle == classicHandle {
			return bpf, nil
		}
	}
	return nil, nil
}

// attachClassic serves kernels before 6.6. Replacing a filter is atomic.
func attachClassic(a attachment, device netlink.Link, program *ebpf.Program) error {
	index := device.Attrs().Index
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index,
		Handle:    netlink.MakeHandle(0xffff, 0),
		Parent:    netlink.HANDLE_CLSACT,
	}}
	if err := netlink.QdiscAdd(qdisc); err != nil && err != unix.EEXIST {
		return fmt.Errorf("add clsact to %s: %w", a.device, err)
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: index,
			Parent:    classicParent(a),
			Handle:    classicHandle,
			Priority:  classicPriority,
			Protocol:  unix.ETH_P_ALL,
		},
		Fd:           program.FD(),
		Name:         a.program,
		DirectAction: true,
	}
	if err := netlink.FilterReplace(filter); err != nil {
		return fmt.Errorf("add filter to %s: %w", a.device, err)
	}
	return nil
}
