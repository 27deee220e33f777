package apply

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// HostDrop says how many packets the host's rules have dropped for a reason.
type HostDrop struct {
	Reason  string
	Packets uint64
	Bytes   uint64
}

// HostDrops reads the named counters of Weft's nftables table, sorted; empty
// without a table. They begin anew when the table is replaced.
func (e *Executor) HostDrops() ([]HostDrop, error) {
	connection, err := nftConnection()
	if err != nil {
		return nil, err
	}
	if exists, err := tableExists(connection); err != nil || !exists {
		return nil, err
	}
	objects, err := connection.GetNamedObjects(nftTable())
	if err != nil {
		return nil, fmt.Errorf("read nftables counters: %w", err)
	}
	var drops []HostDrop
	for _, object := range objects {
		named, ok := object.(*nftables.NamedObj)
		if !ok || named.Type != nftables.ObjTypeCounter {
			continue
		}
		if counter, ok := named.Obj.(*expr.Counter); ok {
			drops = append(drops, HostDrop{Reason: named.Name, Packets: counter.Packets, Bytes: counter.Bytes})
		}
	}
	slices.SortFunc(drops, func(a, b HostDrop) int { return cmp.Compare(a.Reason, b.Reason) })
	return drops, nil
}
