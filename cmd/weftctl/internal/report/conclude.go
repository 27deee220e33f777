package report

import (
	"fmt"
	"io"
)

// Conclude ends a report for people with what is wrong.
func Conclude(w io.Writer, problems []Problem) {
	if len(problems) == 0 {
		fmt.Fprintln(w, "All is well.")
		return
	}
	fmt.Fprintln(w, "Problems:")
	for _, p := range problems {
		fmt.Fprintf(w, "- %s: %s\n  Do: %s\n", p.Object, p.What, p.Do)
	}
}
