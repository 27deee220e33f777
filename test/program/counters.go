package program

import (
	"fmt"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

var directions = [bpfgen.Directions]string{"lane ingress", "lane egress", "overlay ingress", "overlay egress"}

// Counts returns the packet counters that are not zero, by a readable name, of
// links 0 to 4.
func (l *Loaded) Counts() (map[string]uint64, error) {
	counts := map[string]uint64{}
	for id := range uint16(5) {
		for direction := range uint32(bpfgen.Directions) {
			for _, reason := range bpfgen.Reasons() {
				var perCPU []bpfgen.BorderWeftCounter
				if err := l.WeftCounters.Lookup(bpfgen.CounterIndex(id, direction, reason), &perCPU); err != nil {
					return nil, err
				}
				for _, counter := range perCPU {
					if counter.Packets > 0 {
						counts[CounterName(id, direction, reason)] += counter.Packets
					}
				}
			}
		}
	}
	return counts, nil
}

// CounterName is the key of a counter in Counts.
func CounterName(link uint16, direction uint32, reason bpfgen.Reason) string {
	return fmt.Sprintf("link %d %s %s", link, directions[direction], reason)
}
