package bpfgen

import "strconv"

// Reason says what became of a packet; it is the last index of a counter. The
// list is bpf/lib/reasons.h.
type Reason uint8

// Kind groups reasons.
type Kind uint8

const (
	KindForward Kind = iota // went on as data
	KindPass                // not ours, left alone
	KindStack               // handed to the host's stack, which answers
	KindDrop                // dropped
)

type reasonInfo struct {
	name string
	kind Kind
	help string
}

// Reasons returns every reason in order of its value.
func Reasons() []Reason {
	all := make([]Reason, len(reasons))
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}

// String is the reason's name in metrics and output, such as "no_path".
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r].name
	}
	return "reason_" + strconv.Itoa(int(r))
}

// Help explains the reason in half a sentence.
func (r Reason) Help() string {
	if int(r) < len(reasons) {
		return reasons[r].help
	}
	return "unknown: the program is newer than this reader"
}

// Kind of the reason; an unknown reason counts as a drop.
func (r Reason) Kind() Kind {
	if int(r) < len(reasons) {
		return reasons[r].kind
	}
	return KindDrop
}

// CounterIndex is the index of a counter in the map weft_counters.
func CounterIndex(link uint16, direction uint32, reason Reason) uint32 {
	return (uint32(link)*Directions+direction)*MaxReasons + uint32(reason)
}
