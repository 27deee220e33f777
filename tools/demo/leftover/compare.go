package leftover

import (
	"fmt"
	"maps"
	"slices"
)

// Compare lists what after holds and before did not, as "kind: name". The same
// name may occur several times; each one too many counts.
func Compare(before, after Snapshot) []string {
	var added []string
	for _, kind := range slices.Sorted(maps.Keys(after)) {
		had := map[string]int{}
		for _, name := range before[kind] {
			had[name]++
		}
		for _, name := range after[kind] {
			if had[name]--; had[name] < 0 {
				added = append(added, fmt.Sprintf("%s: %s", kind, name))
			}
		}
	}
	return added
}
