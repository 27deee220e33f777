package apply

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ensureRule leads all traffic through Weft's table, which holds nothing but
// local views.
func (r *run) ensureRule() error {
	present, err := listRules()
	if err != nil {
		return err
	}
	for _, have := range present {
		if r.isPlanned(have) {
			return nil
		}
	}
	rule := netlink.NewRule()
	rule.Family = netlink.FAMILY_V4
	rule.Table = r.plan.Routing.Table
	rule.Priority = r.plan.Routing.RulePriority
	rule.Protocol = routeProtocol
	if err := netlink.RuleAdd(rule); err != nil {
		return fmt.Errorf("add rule with priority %d for table %d: %w", rule.Priority, rule.Table, err)
	}
	r.did("add", "rule", fmt.Sprintf("%d: lookup %d", rule.Priority, rule.Table))
	return nil
}

func (r *run) isPlanned(rule netlink.Rule) bool {
	return r.plan.Overlay != nil && rule.Protocol == routeProtocol &&
		rule.Priority == r.plan.Routing.RulePriority && rule.Table == r.plan.Routing.Table &&
		rule.Src == nil && rule.Dst == nil && rule.Mark == 0
}

func (r *run) pruneRules() error {
	present, err := listRules()
	if err != nil {
		return err
	}
	var failures []error
	for _, rule := range present {
		if rule.Protocol != routeProtocol || r.isPlanned(rule) {
			continue
		}
		if err := netlink.RuleDel(&rule); err != nil && !errors.Is(err, unix.ENOENT) {
			failures = append(failures, fmt.Errorf("remove rule with priority %d: %w", rule.Priority, err))
			continue
		}
		r.did("remove", "rule", fmt.Sprintf("%d: lookup %d", rule.Priority, rule.Table))
	}
	return errors.Join(failures...)
}

func listRules() ([]netlink.Rule, error) {
	rules, err := dump(func() ([]netlink.Rule, error) { return netlink.RuleList(netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	return rules, nil
}

// verifyRoute asks the kernel where a packet to the first local view would go:
// a rule of somebody else with a lower number may lead it elsewhere.
func (r *run) verifyRoute(link netlink.Link) error {
	if len(r.plan.Routing.Routes) == 0 {
		return nil
	}
	destination := r.plan.Routing.Routes[0].Destination.Addr().Next()
	routes, err := netlink.RouteGet(destination.AsSlice())
	if err != nil {
		return fmt.Errorf("ask for the route to %s: %w", destination, err)
	}
	if len(routes) > 0 && routes[0].LinkIndex == link.Attrs().Index {
		return nil
	}
	return fmt.Errorf("packets to %s do not go to %s: a routing rule before priority %d takes them, set spec.routing.rulePriority of the FabricConfig below it (see `ip rule`)",
		r.plan.Routing.Routes[0].Destination, link.Attrs().Name, r.plan.Routing.RulePriority)
}
