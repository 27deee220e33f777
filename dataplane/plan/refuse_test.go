package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// One bad item becomes a Problem of its neighbor with a sentence that names it. What c has stays, and so does the rest of b.
func TestBadNeighbor(t *testing.T) {
	first := func(n *v1alpha1.Neighbor) *v1alpha1.NeighborPeer { return &n.Spec.Peers[0] }
	for name, c := range map[string]struct {
		change func(n *v1alpha1.Neighbor)
		says   string
		views  int // of b that remain
		rows   int
	}{
		"view is no CIDR":        {func(n *v1alpha1.Neighbor) { n.Spec.Networks[0].Local = "100.70.0.0" }, "is not a CIDR", 1, 3},
		"view has host bits":     {func(n *v1alpha1.Neighbor) { n.Spec.Networks[0].Local = "100.70.0.1/16" }, "host bits", 1, 3},
		"view is everything":     {func(n *v1alpha1.Neighbor) { n.Spec.Networks[0].Local = "0.0.0.0/0" }, "wider than", 1, 3},
		"view is our pods":       {func(n *v1alpha1.Neighbor) { n.Spec.Networks[0].Local = "10.244.128.0/17" }, "overlaps 10.244.0.0/16 of own network pods", 1, 3},
		"view is metadata":       {func(n *v1alpha1.Neighbor) { n.Spec.Networks[0].Local = "169.254.0.0/16" }, "never routed into a tunnel", 1, 3},
		"view holds an underlay": {func(n *v1alpha1.Neighbor) { n.Spec.Networks[0].Local = "192.168.0.0/16" }, "underlay address of node a1", 1, 3},
		"view index":             {func(n *v1alpha1.Neighbor) { n.Spec.Networks[0].Index = 256 }, "not within 1 to 255", 1, 3},
		"view index twice":       {func(n *v1alpha1.Neighbor) { n.Spec.Networks[0].Index = 2 }, "index 2 is not unique", 1, 2},
		"wire is no CIDR":        {func(n *v1alpha1.Neighbor) { n.Spec.Rows[0].Wire = "x" }, "is not a CIDR", 2, 3},
		"wire not from our pool": {func(n *v1alpha1.Neighbor) { n.Spec.Rows[0].Wire = "100.99.0.0/16" }, "nor from FabricConfig.spec.wirePools", 2, 3},
		"wire of another length": {func(n *v1alpha1.Neighbor) { n.Spec.Rows[0].Wire = "240.1.0.0/17" }, "must have its length", 2, 3},
		"row of another view":    {func(n *v1alpha1.Neighbor) { n.Spec.Rows[0].Local = "100.73.0.0/16" }, "is 100.70.0.0/16 here", 2, 3},
		"row of no network":      {func(n *v1alpha1.Neighbor) { n.Spec.Rows[0].NetworkIndex = 7 }, "not known here", 2, 3},
		"row of no origin":       {func(n *v1alpha1.Neighbor) { n.Spec.Rows[0].OriginIndex = 300 }, "not a cluster index", 2, 3},
		"row of no gateway":      {func(n *v1alpha1.Neighbor) { n.Spec.Rows[0].RemoteGateway = 2 }, "no such gateway", 2, 3},
		"row twice":              {func(n *v1alpha1.Neighbor) { n.Spec.Rows = append(n.Spec.Rows, n.Spec.Rows[0]) }, "another row for it", 2, 4},
		"theirs names one twice": {func(n *v1alpha1.Neighbor) { n.Spec.Rows[3].Wire = "240.9.16.0/20" }, "overlaps 240.9.0.0/16 of this link", 2, 3},
		"theirs names multicast": {func(n *v1alpha1.Neighbor) { n.Spec.Rows[2].Wire = "224.1.0.0/16" }, "never routed", 2, 3},
		"ours for our network":   {func(n *v1alpha1.Neighbor) { n.Spec.Rows[2].Side = v1alpha1.RowOurs }, "do not enter from a neighbor", 2, 3},
		"theirs for its network": {func(n *v1alpha1.Neighbor) { n.Spec.Rows[0].Side = v1alpha1.RowTheirs }, "do not leave towards it", 2, 3},
		"gateway id":             {func(n *v1alpha1.Neighbor) { first(n).GatewayID = 0; n.Spec.Rows = nil }, "not within 1 to 255", 2, 0},
		"gateway without lane":   {func(n *v1alpha1.Neighbor) { first(n).Lanes = nil; n.Spec.Rows = nil }, "no lane", 2, 0},
		"short key":              {func(n *v1alpha1.Neighbor) { first(n).Lanes[0].PublicKey = "AAAA"; n.Spec.Rows = nil }, "32 bytes in base64", 2, 0},
		"c's key":                {func(n *v1alpha1.Neighbor) { first(n).Lanes[0].PublicKey = publicKey(0xc9); n.Spec.Rows = nil }, "", 2, 0},
		"port":                   {func(n *v1alpha1.Neighbor) { first(n).Lanes[0].Port = 70000; n.Spec.Rows = nil }, "UDP port 70000", 2, 0},
		"channel address":        {func(n *v1alpha1.Neighbor) { first(n).ChannelAddress = "fd79::1"; n.Spec.Rows = nil }, "does not follow from its identity", 2, 0},
		"endpoint":               {func(n *v1alpha1.Neighbor) { first(n).Endpoints[0] = "127.0.0.1" }, "127.0.0.1 is not an address", 2, 4},
		"policy":                 {func(n *v1alpha1.Neighbor) { n.Spec.Paths = "SomeOnly" }, "does not know the path policy", 2, 4},
		"MTU":                    {func(n *v1alpha1.Neighbor) { n.Spec.MTU = 20 }, "MTU 20 is ignored", 2, 4},
		"cluster index":          {func(n *v1alpha1.Neighbor) { n.Spec.ClusterIndex = 0 }, "cluster index 0", 0, 0},
		"our identity":           {func(n *v1alpha1.Neighbor) { n.Spec.Identity = identityA }, "this cluster's own", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := fixture()
			in.Neighbors = append(in.Neighbors, neighborC())
			c.change(&in.Neighbors[0])
			p, problems := Build(in)
			require.NotEmpty(t, problems) // the first is the cause
			if c.says == "" {             // the later of two loses
				require.Equal(t, "c", problems[0].Neighbor)
				return
			}
			require.Equal(t, "b", problems[0].Neighbor)
			require.Contains(t, problems[0].Message, c.says)
			require.Len(t, p.Routing.Routes, c.views+1)
			require.Len(t, p.Maps.Rows4, c.rows+1)
			require.Equal(t, []v1alpha1.AppliedNeighbor{{Name: "c", UID: "uid-c", Generation: 1}}, p.Names.Neighbors)
			in.Neighbors[0].Spec.Paths = policyInForce(in.Neighbors[0].Spec.Paths)
			checkTables(t, &p, policiesOf(&in, &p))
		})
	}
}

// policyInForce is the strictest for one that is unknown.
func policyInForce(policy v1alpha1.PathPolicy) v1alpha1.PathPolicy {
	if policy == "SomeOnly" {
		return v1alpha1.PathDirectOnly
	}
	return policy
}

// A node cannot take over addresses that are not its cluster's pods, nor those
// of another node.
func TestBadNode(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n *v1alpha1.FabricNode)
		says   string
		places int
	}{
		"pod in a remote view":    {func(n *v1alpha1.FabricNode) { n.Status.PodPrefixes = []v1alpha1.CIDR{"100.70.0.9/32"} }, "1 pod addresses of node a2", 4},
		"everything":              {func(n *v1alpha1.FabricNode) { n.Status.PodPrefixes = []v1alpha1.CIDR{"0.0.0.0/0"} }, "1 pod addresses of node a2", 4},
		"wider than the network":  {func(n *v1alpha1.FabricNode) { n.Status.PodPrefixes = []v1alpha1.CIDR{"10.0.0.0/8"} }, "outside of this cluster's pod networks", 4},
		"our own pod":             {func(n *v1alpha1.FabricNode) { n.Status.PodPrefixes = []v1alpha1.CIDR{"10.244.1.5/32"} }, "another node has them too", 4},
		"our underlay":            {func(n *v1alpha1.FabricNode) { n.Status.UnderlayAddress = "192.168.0.1" }, "node a2 is left out", 3},
		"underlay is no address":  {func(n *v1alpha1.FabricNode) { n.Status.UnderlayAddress = "x" }, "node a2 is left out", 3},
		"our fabric address":      {func(n *v1alpha1.FabricNode) { n.Spec.FabricAddress = "100.64.0.1" }, "belongs to node a1", 4},
		"host 0":                  {func(n *v1alpha1.FabricNode) { n.Spec.FabricAddress = "100.64.0.0" }, "belongs to probes", 4},
		"fabric address anywhere": {func(n *v1alpha1.FabricNode) { n.Spec.FabricAddress = "10.244.0.9" }, "not in a node network", 4},
		"our gateway id":          {func(n *v1alpha1.FabricNode) { n.Spec.GatewayID = 1 }, "not used as a gateway", 5},
	} {
		t.Run(name, func(t *testing.T) {
			in := fixture()
			c.change(&in.Nodes[1])
			p, problems := Build(in)
			require.Len(t, problems, 1, "%v", problems)
			require.Empty(t, problems[0].Neighbor)
			require.Contains(t, problems[0].Message, c.says)
			require.Len(t, p.Maps.Places4, c.places)
			require.Len(t, p.Maps.Gateways4, 1)
			require.Len(t, p.Names.Neighbors, 1)
			require.NotNil(t, p.Overlay)
		})
	}
}

// A node whose agent has not started yet is no problem.
func TestNodeWithoutStatus(t *testing.T) {
	in := fixture()
	in.Nodes[1].Status = v1alpha1.FabricNodeStatus{}
	require.Len(t, built(t, in).Maps.Places4, 3)
}
