package machine

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseMount(t *testing.T) {
	m, ok := parseMount(`36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 - cgroup cgroup rw,name=systemd`)
	require.True(t, ok)
	require.Equal(t, Mount{Path: "/mnt 2", Type: "cgroup", SuperOptions: "rw,name=systemd"}, m)
	_, ok = parseMount("nonsense")
	require.False(t, ok)
}

func TestHierarchyOptionsMountAgain(t *testing.T) {
	for super, want := range map[string]string{
		"rw,cpu,cpuacct":                  "cpu,cpuacct",
		"rw,xattr,name=systemd":           "none,name=systemd",
		"rw,cpuset,release_agent=/sbin/x": "cpuset",
	} {
		require.Equal(t, want, mountOptions("cgroup", super))
	}
	require.Empty(t, mountOptions("cgroup2", "rw,nsdelegate"))
}

// Two namespaces joined by a cable: a datagram arrives; a blackhole stops it
// without an error to a forwarded packet; deletion leaves nothing.
func TestNamespacesAndCable(t *testing.T) {
	require.Zero(t, os.Geteuid(), "network namespaces need root")
	prefix := fmt.Sprintf("weft-labtest-%d-", os.Getpid())
	a, b := prefix+"a", prefix+"b"
	t.Cleanup(func() { require.NoError(t, DeleteNamespaces(prefix)) })
	require.NoError(t, EnsureNamespace(a))
	require.NoError(t, EnsureNamespace(a), "again")
	require.NoError(t, EnsureNamespace(b))
	require.Len(t, Namespaces(prefix), 2)

	na, err := OpenNetwork(a)
	require.NoError(t, err)
	defer na.Close()
	nb, err := OpenNetwork(b)
	require.NoError(t, err)
	defer nb.Close()
	for range 2 { // repeating changes nothing
		require.NoError(t, na.Cable("eth0", b, "eth0"))
		require.NoError(t, na.Address("eth0", netip.MustParsePrefix("172.31.0.1/24")))
		require.NoError(t, nb.Address("eth0", netip.MustParsePrefix("172.31.0.2/24")))
	}
	require.True(t, na.Has("eth0"))
	require.False(t, na.Has("eth1"))

	received := make(chan string, 1)
	require.NoError(t, InNamespace(b, func() error {
		conn, err := net.ListenPacket("udp4", "172.31.0.2:7")
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			buffer := make([]byte, 10)
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			n, _, _ := conn.ReadFrom(buffer)
			received <- string(buffer[:n])
		}()
		return nil
	}))
	require.NoError(t, InNamespace(a, func() error {
		conn, err := net.Dial("udp4", "172.31.0.2:7")
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("hello"))
		return err
	}))
	require.Equal(t, "hello", <-received)

	require.NoError(t, na.Route(netip.MustParsePrefix("192.0.2.0/24"), netip.MustParseAddr("172.31.0.2"), "eth0"))
	require.NoError(t, na.Route(netip.MustParsePrefix("192.0.2.0/24"), netip.Addr{}, ""))
	routes, err := na.RouteList(nil, 2)
	require.NoError(t, err)
	require.Len(t, routes, 2, "the blackhole replaced the route")
}

func TestMarkedProcessesAreFoundAndKilled(t *testing.T) {
	root := t.TempDir()
	command := exec.Command("sleep", "1000")
	command.Env = append(os.Environ(), Mark(root))
	require.NoError(t, command.Start())
	waited := make(chan error, 1)
	go func() { waited <- command.Wait() }()
	list := func() ([]int, error) { return MarkedProcesses(root) }
	require.Eventually(t, func() bool {
		pids, err := list()
		return err == nil && len(pids) == 1 && pids[0] == command.Process.Pid
	}, 5*time.Second, time.Millisecond)
	require.Equal(t, root, OtherLab("/elsewhere", func(folder string) bool { return folder == root }))
	require.Empty(t, OtherLab("/elsewhere", func(string) bool { return false }))
	require.NoError(t, KillAll(list))
	require.ErrorContains(t, <-waited, "killed")
}
