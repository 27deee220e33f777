package apply

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	mdnetlink "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/dataplane/plan"
)

// sendBuffer holds a whole transaction: it is one message to the kernel.
const sendBuffer = 8 << 20

func nftConnection() (*nftables.Conn, error) {
	return nftables.New(nftables.WithSockOptions(func(c *mdnetlink.Conn) error { return c.SetWriteBuffer(sendBuffer) }))
}

func nftTable() *nftables.Table {
	return &nftables.Table{Name: plan.NftablesTable, Family: nftables.TableFamilyINet}
}

// ensureFirewall makes the table as planned, except for set elements to remove.
// It is replaced in one transaction if its structure differs; else only set
// elements are added.
func (r *run) ensureFirewall() {
	if r.plan.Firewall == nil {
		return
	}
	err := r.syncFirewall(false)
	if err != nil {
		err = fmt.Errorf("set up nftables table inet %s: %w", plan.NftablesTable, err)
	}
	r.walled = r.fail(err)
}

// pruneFirewallSets removes set elements after the routes that needed them.
func (r *run) pruneFirewallSets() {
	if !r.walled {
		return
	}
	if err := r.syncFirewall(true); err != nil {
		r.fail(fmt.Errorf("remove from nftables table inet %s: %w", plan.NftablesTable, err))
	}
}

// pruneFirewall deletes the table after the last device is gone.
func (r *run) pruneFirewall() {
	if r.plan.Firewall != nil {
		return
	}
	connection, err := nftConnection()
	if !r.fail(err) {
		return
	}
	exists, err := tableExists(connection)
	if !r.fail(err) || !exists {
		return
	}
	connection.DelTable(nftTable())
	if err := connection.Flush(); err != nil {
		r.fail(fmt.Errorf("delete nftables table inet %s: %w", plan.NftablesTable, err))
		return
	}
	r.did("remove", "nftables table", plan.NftablesTable)
}

func tableExists(connection *nftables.Conn) (bool, error) {
	tables, err := connection.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, fmt.Errorf("list nftables tables: %w", err)
	}
	return slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == plan.NftablesTable }), nil
}

func (r *run) syncFirewall(remove bool) error {
	want := buildRuleset(r.plan)
	connection, err := nftConnection()
	if err != nil {
		return err
	}
	same, err := sameStructure(connection, want)
	if err != nil {
		return err
	}
	var gone revoked
	if !same {
		if gone, err = lostByReplacing(connection, want); err != nil {
			return err
		}
		if err := r.replaceTable(connection, want); err != nil {
			return err
		}
		return r.forgetFlows(gone)
	}
	changed := []string{}
	for _, set := range want.sets {
		if set.dynamic != nil {
			continue
		}
		missing, surplus, err := syncSet(connection, set, remove)
		if err != nil {
			return err
		}
		if len(missing)+len(surplus) > 0 {
			changed = append(changed, set.name)
		}
		switch set.name {
		case setGranted:
			gone.granted = surplus
		case setForeign:
			gone.foreign = surplus
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := connection.Flush(); err != nil {
		return fmt.Errorf("change sets %v: %w", changed, err)
	}
	for _, name := range changed {
		r.did("change", "nftables set", name)
	}
	return r.forgetFlows(gone)
}

// lostByReplacing returns what a new table grants no more, compared with the one
// that is there.
func lostByReplacing(connection *nftables.Conn, want ruleset) (revoked, error) {
	var gone revoked
	exists, err := tableExists(connection)
	if err != nil || !exists {
		return gone, err
	}
	present, err := connection.GetSets(nftTable())
	if err != nil {
		return gone, fmt.Errorf("list nftables sets: %w", err)
	}
	for _, set := range want.sets {
		granted, foreign := set.name == setGranted, set.name == setForeign
		if !granted && !foreign || !slices.ContainsFunc(present, func(s *nftables.Set) bool { return s.Name == set.name }) {
			continue
		}
		listed, err := connection.GetSetElements(set.definition())
		if err != nil {
			return gone, fmt.Errorf("list nftables set %s: %w", set.name, err)
		}
		surplus := slices.DeleteFunc(slices.Collect(maps.Keys(set.parse(listed))), func(e element) bool { return set.elements[e] })
		if granted {
			gone.granted = surplus
		} else {
			gone.foreign = surplus
		}
	}
	return gone, nil
}

// replaceTable swaps the whole table in one transaction: there is no moment
// without rules.
func (r *run) replaceTable(connection *nftables.Conn, want ruleset) error {
	table := nftTable()
	connection.AddTable(table) // so that deleting it cannot fail
	connection.DelTable(table)
	connection.AddTable(table)
	for _, name := range want.counters {
		connection.AddObj(&nftables.NamedObj{Table: table, Name: name, Type: nftables.ObjTypeCounter, Obj: zeroCounter()})
	}
	for _, set := range want.sets {
		if err := connection.AddSet(set.definition(), nil); err != nil {
			return fmt.Errorf("add set %s: %w", set.name, err)
		}
		if err := addElements(connection, set, slices.Collect(maps.Keys(set.elements))); err != nil {
			return err
		}
	}
	for _, chain := range want.chains {
		added := connection.AddChain(chain.definition())
		for _, rule := range chain.rules {
			userData, err := rule.userData()
			if err != nil {
				return err
			}
			connection.AddRule(&nftables.Rule{Table: table, Chain: added, Exprs: rule.exprs, UserData: userData})
		}
	}
	if err := connection.Flush(); err != nil {
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("the kernel needs nf_tables with NAT for the inet family (5.2 or later) and connection tracking: %w", err)
		}
		return err
	}
	r.did("change", "nftables table", plan.NftablesTable)
	return nil
}

func (s setSpec) definition() *nftables.Set {
	set := &nftables.Set{Table: nftTable(), Name: s.name, KeyType: s.key, Interval: s.interval}
	if s.dynamic != nil {
		set.Dynamic, set.HasTimeout = true, true
		set.Size, set.Timeout = s.dynamic.size, s.dynamic.timeout
	}
	return set
}

func (c chainSpec) definition() *nftables.Chain {
	chain := &nftables.Chain{Table: nftTable(), Name: c.name}
	if c.hook != nil {
		policy := nftables.ChainPolicyAccept
		chain.Type, chain.Hooknum, chain.Priority, chain.Policy = c.kind, c.hook, nftables.ChainPriorityRef(c.priority), &policy
	}
	return chain
}

func zeroCounter() *expr.Counter { return &expr.Counter{} }
