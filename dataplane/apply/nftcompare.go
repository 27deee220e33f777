package apply

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/google/nftables"

	"github.com/weft-fabric/weft/dataplane/plan"
)

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
