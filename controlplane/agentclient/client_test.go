package agentclient

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/agenttest"
	"github.com/weft-fabric/weft/controlplane/channel"
)

func newClient(t *testing.T) (*Client, v1alpha1.Identity) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	certificate, err := identity.Certificate(key)
	require.NoError(t, err)
	return &Client{Certificate: certificate}, identity.Fingerprint(public)
}

func newAgent(t *testing.T, owner v1alpha1.Identity) (*agenttest.Agent, Agent) {
	t.Helper()
	server, err := agenttest.New()
	require.NoError(t, err)
	t.Cleanup(server.Close)
	server.SetOwner(owner)
	nodes := []v1alpha1.FabricNode{{Status: v1alpha1.FabricNodeStatus{
		UnderlayAddress: server.Address.Addr().String(), AgentCertificate: server.Certificate,
	}}, {}}
	nodes[0].Name, nodes[0].Spec.GatewayID = "a1", 1
	agents := Agents(nodes, int32(server.Address.Port()))
	require.Len(t, agents, 1, "a node that has told nothing cannot be asked")
	return server, agents[0]
}

func TestMeasurements(t *testing.T) {
	client, id := newClient(t)
	server, a := newAgent(t, id)
	want := agent.Measurements{Node: "a1", Paths: []agent.Path{{Cluster: "b", Measurement: agent.Measurement{State: v1alpha1.PathUp, RTTMicroseconds: 20100}}}}
	server.SetMeasurements(want)
	got, err := client.Measurements(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, want.Paths, got.Paths)

	other := a
	other.Certificate = "00"
	_, err = client.Measurements(t.Context(), other)
	require.ErrorContains(t, err, "not the one in FabricNode a1")

	stranger, _ := newClient(t)
	_, err = stranger.Measurements(t.Context(), a)
	require.ErrorContains(t, err, "a1")
}

func TestDial(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer echo.Close()
	go func() {
		conn, err := echo.Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn)
		}
	}()
	client, id := newClient(t)
	server, a := newAgent(t, id)
	server.SetRoute("[fd79::1]:9811", echo.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	conn, err := client.Dial(ctx, a, channel.Route{Target: netip.MustParseAddr("fd79::1")})
	require.NoError(t, err)
	cancel() // the request is over; the connection is not
	defer conn.Close()
	_, err = conn.Write([]byte("hello"))
	require.NoError(t, err)
	answer := make([]byte, 5)
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	require.Equal(t, "hello", string(answer))

	_, err = client.Dial(t.Context(), a, channel.Route{Target: netip.MustParseAddr("fd79::2")})
	require.ErrorContains(t, err, "no neighbor has this channel address")

	through := channel.Route{Target: netip.MustParseAddr("fd79::2"), Hub: netip.MustParseAddr("fd79::c")}
	_, err = client.Dial(t.Context(), a, through)
	require.ErrorContains(t, err, "no neighbor has this channel address")
	server.SetRoute("[fd79::2]:9811 fd79::c", server.Address.String())
	conn, err = client.Dial(t.Context(), a, through)
	require.NoError(t, err)
	conn.Close()
}

// Our gateways take turns; an agent that accepts and says nothing costs no more
// than the attempt's time.
func TestGatewaysTakeTurns(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	client, id := newClient(t)
	server, good := newAgent(t, id)
	server.SetRoute("[fd79::1]:9811", server.Address.String())
	dead := Agent{Node: "a2", Address: netip.MustParseAddrPort(silent.Addr().String())}
	dialer := &ChannelDialer{Client: client, Gateways: func(context.Context) ([]Agent, error) { return []Agent{dead, good}, nil }}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = dialer.Dial(ctx, channel.Route{Target: netip.MustParseAddr("fd79::1")}, 0)
	require.ErrorContains(t, err, "a2")
	conn, err := dialer.Dial(t.Context(), channel.Route{Target: netip.MustParseAddr("fd79::1")}, 1)
	require.NoError(t, err)
	conn.Close()

	dialer.Gateways = func(context.Context) ([]Agent, error) { return nil, nil }
	_, err = dialer.Dial(t.Context(), channel.Route{Target: netip.MustParseAddr("fd79::1")}, 0)
	require.ErrorContains(t, err, "no gateway")
}
