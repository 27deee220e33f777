package bulk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/traffic/bulk"
)

func server(t *testing.T) netip.AddrPort {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- bulk.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		l.Close()
		require.NoError(t, <-done)
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

// The same seed gives the same bytes in both directions, so both hashes of two
// transfers agree; a size that no chunk divides is moved whole.
func TestTransferVerifiesContent(t *testing.T) {
	target := server(t)
	const size = 5<<20 + 17
	sums := map[string]bool{}
	for _, direction := range []bulk.Direction{bulk.Upload, bulk.Download} {
		result, err := bulk.Transfer(t.Context(), bulk.Request{Target: target, Direction: direction, Bytes: size, Verify: true, Seed: 7})
		require.NoError(t, err)
		require.EqualValues(t, size, result.Bytes)
		require.Len(t, result.SHA256, 64)
		require.Positive(t, result.MegabitsPerSecond)
		sums[result.SHA256] = true
	}
	require.Len(t, sums, 1)
}

func TestTransferEndsAfterItsDuration(t *testing.T) {
	target := server(t)
	for _, direction := range []bulk.Direction{bulk.Upload, bulk.Download} {
		result, err := bulk.Transfer(t.Context(), bulk.Request{Target: target, Direction: direction, Bytes: 16 << 30, DurationMilliseconds: 50})
		require.NoError(t, err)
		require.Less(t, result.Seconds, 10.0)
		require.Positive(t, result.Bytes)
	}
}

// A server that answers with another hash is found out.
func TestTransferFindsDamage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		if _, err := r.ReadSlice('\n'); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, r, 4+1000+4); err != nil {
			return
		}
		_ = json.NewEncoder(conn).Encode(map[string]any{"bytes": 1000, "sha256": "other"})
	}()
	_, err = bulk.Transfer(t.Context(), bulk.Request{
		Target: netip.MustParseAddrPort(l.Addr().String()), Direction: bulk.Upload, Bytes: 1000, Verify: true,
	})
	require.ErrorContains(t, err, `SHA-256 "other"`)
}

func TestTransferRefusesNonsense(t *testing.T) {
	_, err := bulk.Transfer(t.Context(), bulk.Request{Direction: "sideways", Bytes: 1})
	require.ErrorContains(t, err, "sideways")
	_, err = bulk.Transfer(t.Context(), bulk.Request{Direction: bulk.Upload})
	require.ErrorContains(t, err, "0 bytes are not a transfer")
}
