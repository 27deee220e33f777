package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/tools/demo/leftover"
	"github.com/weft-fabric/weft/tools/demo/testbed"
)

// Two clusters with the same pod and service CIDRs, from installation to
// removal. The steps share one lab and build on each other.
func TestSameAddresses(t *testing.T) {
	before, err := leftover.Take()
	require.NoError(t, err)
	if !reuse() {
		// Registered first, so it runs after the lab is gone.
		t.Cleanup(func() { nothingLeft(t, before) })
	}
	s := start(t, testbed.LabOptions{}, nil)

	step(t, "peer", s.peer)
	views := s.views(t)
	step(t, "every pair", s.matrix)
	step(t, "access", s.access)

	step(t, "undisturbed", func(t *testing.T) { s.continuity(t, s.undisturbed) })
	step(t, "agents killed", func(t *testing.T) { s.continuity(t, s.killAgents) })
	step(t, "agents restarted", func(t *testing.T) { s.continuity(t, s.restartAgents) })
	step(t, "controllers killed", func(t *testing.T) { s.continuity(t, s.killControllers) })
	step(t, "API servers down", func(t *testing.T) { s.continuity(t, s.stopAPIServers) })

	step(t, "unpeer", s.unpeer)
	step(t, "records, a first", func(t *testing.T) { s.applyRecords(t, s.a, s.b) })
	step(t, "the same views", func(t *testing.T) { s.sameViews(t, views) })
	step(t, "every pair again", s.matrix)
	step(t, "unpeer from the dead", s.unpeerFromTheDead)
	step(t, "records, b first", func(t *testing.T) { s.applyRecords(t, s.b, s.a) })
	step(t, "every pair once more", s.matrix)
	step(t, "uninstall", s.uninstall)
}

// Different pod CIDRs.
func TestDifferentAddresses(t *testing.T) {
	variant(t, testbed.LabOptions{PodCIDRs: map[string]string{"b": "10.80.0.0/16"}})
}

// Cluster b is behind NAT and has no open port; the same pod CIDRs.
func TestBehindNAT(t *testing.T) {
	variant(t, testbed.LabOptions{NAT: []string{"b"}})
}

// Both at once.
func TestDifferentAddressesBehindNAT(t *testing.T) {
	if full() {
		variant(t, testbed.LabOptions{PodCIDRs: map[string]string{"b": "10.80.0.0/16"}, NAT: []string{"b"}})
	}
}

func variant(t *testing.T, options testbed.LabOptions) {
	extra := map[string][]string{}
	for _, cluster := range options.NAT {
		extra[cluster] = []string{"--exposure", "None"}
	}
	s := start(t, options, extra)
	step(t, "peer", s.peer)
	step(t, "every pair", s.matrix)
	step(t, "undisturbed", func(t *testing.T) { s.continuity(t, s.undisturbed) })
	step(t, "unpeer", s.unpeer)
}

// uninstall requires that nothing of Weft is left on the nodes and in the API
// servers, but for the user's export and what that needs. The clusters are still
// peered, and b imports the service: uninstalling ends that too.
func (s *suite) uninstall(t *testing.T) {
	s.share(t)
	for _, c := range s.clusters() {
		begin := time.Now()
		require.NoError(t, c.Uninstall(bounded(t, 5*time.Minute)))
		t.Logf("cluster %s: uninstall took %.1f s", c.Name, time.Since(begin).Seconds())
		ctx := bounded(t, time.Minute)
		left, err := c.NodeResidue(ctx)
		require.NoError(t, err)
		require.Empty(t, left)
		left, err = c.APIResidue(ctx)
		require.NoError(t, err)
		if c == s.a {
			require.Equal(t, []string{"CustomResourceDefinition /" + mcsv1beta1.ServiceExportFullName}, left)
		} else {
			require.Empty(t, left)
		}
	}
}

// share exports a service from a, and lets the DNS of both clusters forward its
// name.
func (s *suite) share(t *testing.T) {
	t.Helper()
	ctx := bounded(t, 2*time.Minute)
	require.NoError(t, s.a.Apply(ctx, testbed.EchoService(0)+"---\n"+testbed.ServiceExport(testbed.ServiceName)))
	for c, other := range s.both() {
		require.NoError(t, c.GrantServices(ctx, other.Name)) // records grant none by themselves
		_, err := c.Weftctl(ctx, "dns", "enable", "--wait", "0")
		require.NoError(t, err)
	}
	_, err := s.b.WaitImport(ctx, serviceLimit)
	require.NoError(t, err)
}

// nothingLeft requires that the machine holds nothing of the lab that it did
// not hold before. What other programs of the machine did meanwhile is not the
// lab's: only names that the lab or Weft give count.
func nothingLeft(t *testing.T, before leftover.Snapshot) {
	t.Helper()
	ours := func() []string {
		after, err := leftover.Take()
		require.NoError(t, err)
		var added []string
		for _, line := range leftover.Compare(before, after) {
			for _, name := range []string{
				"weft-lab", "weft0", "weft-vx", "weft_", "/sys/fs/bpf/", "/run/weft", "/var/lib/weft", "bare0", "wan-",
				"kube-", "kubelet", "etcd", "containerd", "coredns", "k8s.io",
			} {
				if strings.Contains(line, name) {
					added = append(added, line)
					break
				}
			}
		}
		return added
	}
	// The kernel frees programs and namespaces a moment after their last user.
	if !assertEventually(func() bool { return len(ours()) == 0 }, 15*time.Second) {
		require.Empty(t, ours())
	}
}

func assertEventually(condition func() bool, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(250 * time.Millisecond) {
		if condition() {
			return true
		}
	}
	return condition()
}
