// Package corefile puts Weft's block into a CoreDNS configuration and takes it
// out again. It is pure: text in, text out. Every byte outside of the block stays
// as it is, so that taking it out gives what was there before.
package corefile

import "fmt"

// Zone that the block forwards.
const Zone = "clusterset.local"

// State of the block.
type State string

// The states.
const (
	// Absent: there is no block of ours.
	Absent State = "Absent"
	// Present: it is as it was written.
	Present State = "Present"
	// Edited: somebody has changed it since.
	Edited State = "Edited"
)

// SyntaxError is a Corefile that CoreDNS could not read either, or in a form to
// which nothing can be added.
type SyntaxError struct {
	Line    int
	Problem string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d of the Corefile: %s", e.Line, e.Problem)
}

// ConflictError is somebody else's configuration of the zone.
type ConflictError struct {
	Line int
	Text string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("line %d of the Corefile (%s) serves %s already: remove that first, if weft-dns is to answer for it", e.Line, e.Text, Zone)
}

// EditedError is a change by hand that would get lost.
type EditedError struct{ Line int }

func (e *EditedError) Error() string {
	return fmt.Sprintf("somebody has changed Weft's block, line %d of the Corefile: move what you need out of it, then repeat with --force, which gives the change up", e.Line)
}
