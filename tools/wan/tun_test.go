package wan_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/lab/machine"
	"github.com/weft-fabric/weft/tools/wan"
)

// Two namespaces joined by nothing but the emulated line: the round trip of a
// TCP byte is twice the delay, and a bulk transfer passes whole.
func TestRoundTripAndBulkThroughTUNs(t *testing.T) {
	require.Zero(t, os.Geteuid(), "network namespaces need root")
	const delay = 5 * time.Millisecond
	prefix := fmt.Sprintf("weft-wantest-%d-", os.Getpid())
	t.Cleanup(func() { require.NoError(t, machine.DeleteNamespaces(prefix)) })
	var files [2]*os.File
	for i, name := range []string{"a", "b"} {
		require.NoError(t, machine.EnsureNamespace(prefix+name))
		file, err := wan.End{Namespace: prefix + name, Device: "wan0"}.Open()
		require.NoError(t, err)
		defer file.Close()
		files[i] = file
		network, err := machine.OpenNetwork(prefix + name)
		require.NoError(t, err)
		defer network.Close()
		require.NoError(t, network.Address("wan0", netip.MustParsePrefix(fmt.Sprintf("172.31.0.%d/24", i+1))))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	forth := wan.NewLine(files[1], delay, wan.DefaultQueueBytes)
	back := wan.NewLine(files[0], delay, wan.DefaultQueueBytes)
	go func() { _ = wan.Join(ctx, files[0], files[1], forth, back) }()

	echo(t, prefix+"b")
	var conn net.Conn
	require.NoError(t, machine.InNamespace(prefix+"a", func() (err error) {
		conn, err = net.DialTimeout("tcp4", "172.31.0.2:7", 5*time.Second)
		return err
	}))
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))

	round := make([]time.Duration, 101)
	for i := range round {
		begin := time.Now()
		_, err := conn.Write([]byte{1})
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, 1))
		require.NoError(t, err)
		round[i] = time.Since(begin)
	}
	sort.Slice(round, func(i, j int) bool { return round[i] < round[j] })
	require.GreaterOrEqual(t, round[0], 2*delay)
	require.Less(t, round[50], 2*delay+2*time.Millisecond, "median")

	const bulk = 20 << 20
	go func() { _, _ = conn.Write(make([]byte, bulk)) }()
	_, err := io.CopyN(io.Discard, conn, bulk)
	require.NoError(t, err)
	require.Zero(t, forth.Stats().Dropped+back.Stats().Dropped)
}

func echo(t *testing.T, namespace string) {
	t.Helper()
	require.NoError(t, machine.InNamespace(namespace, func() error {
		listener, err := net.Listen("tcp4", "172.31.0.2:7")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.Copy(conn, conn)
		}()
		return nil
	}))
}
