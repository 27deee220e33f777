package topology

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// controller's pod of a → agent API of a's gateway → tunnel, channel address to
// channel address → agent of b's gateway → controller's pod of b. The echo
// server of a pod stands for b's controller.
func (f *fabric) testChannel(t *testing.T) {
	f.b.config.Status.ChannelEndpoint = netip.AddrPortFrom(f.b.nodes[1].pods[0].address, echoPort).String()
	f.b.write(t, "config.yaml", f.b.config)
	target := fmt.Sprintf("[%s]:%d", identity.ChannelAddress(f.b.identity, 1), v1alpha1.ChannelPort)

	var conn *tls.Conn
	var reader *bufio.Reader
	f.b.gatewayNode().eventually(t, "handed a channel on to its controller", func() bool {
		conn = f.a.callAgent(t)
		_ = conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
		reader = bufio.NewReader(conn)
		response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, response.StatusCode)
		// Whoever calls speaks first. The echo server greets; without an endpoint
		// the channel is closed.
		_, err = conn.Write([]byte("through the tunnel\n"))
		require.NoError(t, err)
		_, err = reader.ReadString('\n')
		return err == nil
	})
	defer conn.Close()
	line, err := reader.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "through the tunnel\n", line)
	f.testMeasurements(t)
}

// The agent of a gateway tells its controller what its probes saw.
func (f *fabric) testMeasurements(t *testing.T) {
	conn := f.a.callAgent(t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a1\r\n\r\n", agent.MeasurementsPath)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	var m agent.Measurements
	require.NoError(t, json.NewDecoder(response.Body).Decode(&m))
	require.Len(t, m.Paths, 1)
	require.Equal(t, "b", m.Paths[0].Cluster)
	require.Equal(t, v1alpha1.PathUp, m.Paths[0].State)
	require.Positive(t, m.Paths[0].RTTMicroseconds)
	require.Equal(t, net.JoinHostPort(f.b.gatewayNode().underlay.String(), "51847"), m.Paths[0].Endpoint)
	require.WithinDuration(t, time.Now(), m.Paths[0].LastHandshake, time.Minute)
	require.Equal(t, []int32{1}, m.Clusters[0].Gateways)
}

// callAgent connects to the gateway's agent from a pod, as the holder of the
// cluster's key.
func (c *cluster) callAgent(t *testing.T) *tls.Conn {
	t.Helper()
	gateway := c.gatewayNode()
	certificate, err := identity.Certificate(c.key)
	require.NoError(t, err)
	raw, err := dial(c.nodes[1].pods[0].namespace, "tcp4", netip.AddrPortFrom(gateway.underlay, 9810))
	require.NoError(t, err)
	conn := tls.Client(raw, identity.PinnedConfig(certificate, func(v1alpha1.Identity) error { return nil }))
	t.Cleanup(func() { conn.Close() })
	return conn
}
