// Package table writes tables in text for people.
package table

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table aligns columns. Nothing is written before Flush.
type Table struct{ out *tabwriter.Writer }

// New begins a table with its heads.
func New(w io.Writer, heads ...string) *Table {
	t := &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.Row(heads...)
	return t
}

// Row adds a line.
func (t *Table) Row(cells ...string) { fmt.Fprintln(t.out, strings.Join(cells, "\t")) }

// Group adds lines that belong to one thing: the first alone says which.
func (t *Table) Group(thing []string, rows [][]string) {
	for i, row := range rows {
		if i > 0 {
			thing = make([]string, len(thing))
		}
		t.Row(append(append([]string{}, thing...), row...)...)
	}
}

// Flush writes the table. As with fmt, a terminal that is gone is no error.
func (t *Table) Flush() { _ = t.out.Flush() }

// Dash stands for what is not known.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
