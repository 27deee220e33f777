package apply

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/google/nftables"
)

// elementsPerMessage keeps a netlink attribute below its 64 KiB.
const elementsPerMessage = 400

// syncSet queues what makes a set as planned and returns what that is.
func syncSet(connection *nftables.Conn, want setSpec, remove bool) (missing, surplus []element, err error) {
	listed, err := connection.GetSetElements(want.definition())
	if err != nil {
		return nil, nil, fmt.Errorf("list nftables set %s: %w", want.name, err)
	}
	have := want.parse(listed)
	for e := range want.elements {
		if !have[e] {
			missing = append(missing, e)
		}
	}
	for e := range have {
		if !want.elements[e] {
			surplus = append(surplus, e)
		}
	}
	// A prefix that grows or shrinks overlaps its former self, which then has to
	// go in the same transaction.
	if remove || want.interval && len(missing) > 0 {
		if err := deleteElements(connection, want, surplus); err != nil {
			return nil, nil, err
		}
	} else {
		surplus = nil
	}
	return missing, surplus, addElements(connection, want, missing)
}

// parse pairs the ends of intervals, which the kernel lists one by one.
func (s setSpec) parse(listed []nftables.SetElement) map[element]bool {
	elements := map[element]bool{}
	if !s.interval {
		for _, e := range listed {
			elements[element{start: string(e.Key)}] = true
		}
		return elements
	}
	// At one key, an interval ends before the next begins.
	slices.SortFunc(listed, func(a, b nftables.SetElement) int {
		if order := bytes.Compare(a.Key, b.Key); order != 0 {
			return order
		}
		return cmp.Compare(boolInt(b.IntervalEnd), boolInt(a.IntervalEnd))
	})
	start := ""
	for _, e := range listed {
		switch {
		case !e.IntervalEnd:
			start = string(e.Key)
		case start != "":
			elements[element{start: start, end: string(e.Key)}] = true
			start = ""
		}
	}
	if start != "" {
		elements[element{start: start}] = true
	}
	return elements
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func addElements(connection *nftables.Conn, set setSpec, elements []element) error {
	for chunk := range slices.Chunk(elements, elementsPerMessage) {
		if err := connection.SetAddElements(set.definition(), toSetElements(set, chunk)); err != nil {
			return fmt.Errorf("add to nftables set %s: %w", set.name, err)
		}
	}
	return nil
}

func deleteElements(connection *nftables.Conn, set setSpec, elements []element) error {
	for chunk := range slices.Chunk(elements, elementsPerMessage) {
		if err := connection.SetDeleteElements(set.definition(), toSetElements(set, chunk)); err != nil {
			return fmt.Errorf("remove from nftables set %s: %w", set.name, err)
		}
	}
	return nil
}

func toSetElements(set setSpec, elements []element) []nftables.SetElement {
	var list []nftables.SetElement
	for _, e := range elements {
		list = append(list, nftables.SetElement{Key: []byte(e.start)})
		if set.interval && e.end != "" {
			list = append(list, nftables.SetElement{Key: []byte(e.end), IntervalEnd: true})
		}
	}
	return list
}
