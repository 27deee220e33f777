package apply

import (
	"bytes"
	"cmp"
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

// elementsPerMessage keeps a netlink attribute below its 64 KiB.
const elementsPerMessage = 400

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

// sameStructure compares chains, rules (by their fingerprints), counters and
// sets with what the kernel has.
func sameStructure(connection *nftables.Conn, want ruleset) (bool, error) {
	exists, err := tableExists(connection)
	if err != nil || !exists {
		return false, err
	}
	sets, err := connection.GetSets(nftTable())
	if err != nil {
		return false, fmt.Errorf("list nftables sets: %w", err)
	}
	if !sameSets(sets, want.sets) {
		return false, nil
	}
	chains, err := connection.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, fmt.Errorf("list nftables chains: %w", err)
	}
	chains = slices.DeleteFunc(chains, func(c *nftables.Chain) bool { return c.Table.Name != plan.NftablesTable })
	if len(chains) != len(want.chains) {
		return false, nil
	}
	for _, chain := range want.chains {
		same, err := sameChain(connection, chains, chain)
		if err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func sameSets(have []*nftables.Set, want []setSpec) bool {
	if len(have) != len(want) {
		return false
	}
	for _, set := range want {
		matches := slices.ContainsFunc(have, func(h *nftables.Set) bool {
			return h.Name == set.name && h.Interval == set.interval && h.KeyType.Bytes == set.key.Bytes && h.Dynamic == (set.dynamic != nil) &&
				(set.dynamic == nil || h.Size == set.dynamic.size && h.Timeout == set.dynamic.timeout)
		})
		if !matches {
			return false
		}
	}
	return true
}

func sameChain(connection *nftables.Conn, have []*nftables.Chain, want chainSpec) (bool, error) {
	index := slices.IndexFunc(have, func(c *nftables.Chain) bool { return c.Name == want.name })
	if index < 0 || !sameHook(have[index], want) {
		return false, nil
	}
	rules, err := connection.GetRules(nftTable(), have[index])
	if err != nil {
		return false, fmt.Errorf("list rules of nftables chain %s: %w", want.name, err)
	}
	if len(rules) != len(want.rules) {
		return false, nil
	}
	for i, rule := range rules {
		userData, err := want.rules[i].userData()
		if err != nil || !bytes.Equal(rule.UserData, userData) {
			return false, err
		}
	}
	return true, nil
}

func sameHook(have *nftables.Chain, want chainSpec) bool {
	if want.hook == nil {
		return have.Hooknum == nil
	}
	return have.Hooknum != nil && *have.Hooknum == *want.hook && have.Priority != nil && *have.Priority == want.priority &&
		have.Type == want.kind && have.Policy != nil && *have.Policy == nftables.ChainPolicyAccept
}

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

func zeroCounter() *expr.Counter { return &expr.Counter{} }
