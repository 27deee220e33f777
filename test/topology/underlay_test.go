package topology

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The network between the gateways carries 1400 bytes, their interfaces say
// 1500: packets of full size still cross, in fragments, and the probes of both
// gateways tell. Once the interfaces say what is true, nothing is fragmented.
func TestUnderlaySmallerThanTold(t *testing.T) {
	f := newFabric(t, options{bMTU: 1500, wanMTU: 1400},
		names{pods: prefixes{"100.70.0.0/16", "240.1.0.0/16"}, nodes: prefixes{"100.64.16.0/20", "240.3.16.0/20"}},
		names{pods: prefixes{"100.71.0.0/16", "100.71.0.0/16"}, nodes: prefixes{"100.64.32.0/20", "100.64.32.0/20"}})
	f.serve(t)
	clusters := []*cluster{f.a, f.b}
	for _, c := range clusters {
		c.gatewayNode().eventually(t, "heard that its outer packets were fragmented, by probes alone", func() bool {
			values, err := c.gatewayNode().metrics()
			return err == nil && values[f.direct(c, "weft_path_outer_fragments_total")] > 0
		})
		require.EqualValues(t, 1, c.gatewayNode().metric(t, f.direct(c, "weft_path_up")))
	}
	f.testLargeDatagrams(t)

	for _, c := range clusters {
		for _, n := range c.nodes {
			n.ip(t, "link set eth0 mtu 1400")
		}
	}
	for _, c := range clusters {
		for _, n := range c.nodes {
			n.eventually(t, "routed by the new MTU", func() bool {
				routes := mustRun(t, "nsenter", "--net=/run/netns/"+n.namespace.name, "--", "ip", "route", "show", "table", "7077")
				return strings.Count(routes, "dev weft-vx") == 2 && strings.Count(routes, "mtu 1328") == 2
			})
		}
	}
	before := [2]string{f.a.gatewayNode().fragmenters(t), f.b.gatewayNode().fragmenters(t)}
	require.Contains(t, before[0], "packets", "a's gateway has counted b's")
	f.testLargeDatagrams(t)
	f.testPods(t)
	for _, c := range clusters {
		loss := f.direct(c, "weft_path_loss_ratio")
		// One of the last hundred is of full size.
		c.gatewayNode().eventually(t, "had its last hundred probes answered", func() bool {
			values, err := c.gatewayNode().metrics()
			ratio, told := values[loss]
			return err == nil && told && ratio == 0
		})
	}
	require.Equal(t, before, [2]string{f.a.gatewayNode().fragmenters(t), f.b.gatewayNode().fragmenters(t)})
}

// expiryPattern is what changes from one listing of a set to the next.
var expiryPattern = regexp.MustCompile(`expires [0-9a-z]+`)

// fragmenters lists who has sent outer fragments to a gateway, and how many.
func (n *node) fragmenters(t *testing.T) string {
	t.Helper()
	set := mustRun(t, "nsenter", "--net=/run/netns/"+n.namespace.name, "--", "nft", "list", "set", "inet", "weft", "outer_fragments")
	_, elements, _ := strings.Cut(set, "elements")
	return expiryPattern.ReplaceAllString(elements, "")
}
