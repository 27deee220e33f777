// Package agentclient asks the agents of our own nodes: for what their probes
// saw, and to splice a peer channel into the tunnel.
package agentclient

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// maxMeasurements bounds an answer, in bytes.
const maxMeasurements = 4 << 20

// Agent is how one node's agent is reached.
type Agent struct {
	Node string
	// GatewayID is 0 on plain nodes.
	GatewayID int32
	Address   netip.AddrPort
	// Certificate is the SHA-256 of its TLS certificate (DER) in lower-case hex.
	Certificate string
}

// Agents returns the agents that can be asked: those that have told where they
// are and which certificate they have.
func Agents(nodes []v1alpha1.FabricNode, port int32) []Agent {
	var agents []Agent
	for i := range nodes {
		addr, err := netip.ParseAddr(nodes[i].Status.UnderlayAddress)
		if err != nil || nodes[i].Status.AgentCertificate == "" || port < 1 || port > 65535 {
			continue
		}
		agents = append(agents, Agent{
			Node: nodes[i].Name, GatewayID: nodes[i].Spec.GatewayID,
			Address:     netip.AddrPortFrom(addr, uint16(port)),
			Certificate: nodes[i].Status.AgentCertificate,
		})
	}
	return agents
}

// Client proves the cluster's identity to the agents.
type Client struct {
	Certificate tls.Certificate
}

// Measurements asks an agent what its probes saw.
func (c *Client) Measurements(ctx context.Context, a Agent) (agent.Measurements, error) {
	var out agent.Measurements
	conn, err := c.connect(ctx, a)
	if err != nil {
		return out, err
	}
	defer conn.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+a.Address.String()+agent.MeasurementsPath, nil)
	if err != nil {
		return out, fmt.Errorf("ask the agent of node %s: %w", a.Node, err)
	}
	request.Close = true
	response, _, err := roundTrip(conn, request)
	if err != nil {
		return out, fmt.Errorf("ask the agent of node %s: %w", a.Node, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return out, fmt.Errorf("ask the agent of node %s: %s", a.Node, answer(response))
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxMeasurements)).Decode(&out); err != nil {
		return out, fmt.Errorf("read the measurements of node %s: %w", a.Node, err)
	}
	return out, nil
}

// Dial asks the agent of a gateway to connect to a channel address inside the
// tunnel, through the gateway of a hub if the route names one, and returns the
// byte stream. With a hub it comes before the hub has reached the target.
func (c *Client) Dial(ctx context.Context, a Agent, route channel.Route) (net.Conn, error) {
	conn, err := c.connect(ctx, a)
	if err != nil {
		return nil, err
	}
	authority := netip.AddrPortFrom(route.Target, v1alpha1.ChannelPort).String()
	request, err := http.NewRequestWithContext(ctx, http.MethodConnect, "https://"+authority, nil)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("ask gateway %s for a channel: %w", a.Node, err)
	}
	if route.Hub.IsValid() {
		request.Header.Set(agent.HubHeader, route.Hub.String())
	}
	response, buffered, err := roundTrip(conn, request)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("no answer through the tunnel of gateway %s: %w", a.Node, err)
	}
	if response.StatusCode != http.StatusOK {
		defer conn.Close()
		return nil, fmt.Errorf("gateway %s: %s", a.Node, answer(response))
	}
	_ = conn.SetDeadline(time.Time{}) // the deadline was the request's
	return &bufferedConn{Conn: conn, reader: buffered}, nil
}

// connect dials an agent and pins its certificate.
func (c *Client) connect(ctx context.Context, a Agent) (*tls.Conn, error) {
	config := identity.PinnedConfig(c.Certificate, func(v1alpha1.Identity) error { return nil })
	config.ServerName = a.Node
	config.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error {
		if len(raw) == 0 {
			return errors.New("the agent presents no certificate")
		}
		if sum := sha256.Sum256(raw[0]); hex.EncodeToString(sum[:]) != a.Certificate {
			return fmt.Errorf("the certificate is not the one in FabricNode %s", a.Node)
		}
		return nil
	}
	dialer := tls.Dialer{Config: config}
	conn, err := dialer.DialContext(ctx, "tcp", a.Address.String())
	if err != nil {
		return nil, fmt.Errorf("reach the agent of node %s at %s: %w", a.Node, a.Address, err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	return conn.(*tls.Conn), nil
}

// roundTrip writes a request and reads the head of the response. The reader may
// hold bytes after it. The caller's context ends it through the deadline and,
// if cancelled, through the closing of the connection.
func roundTrip(conn net.Conn, request *http.Request) (*http.Response, *bufio.Reader, error) {
	stop := context.AfterFunc(request.Context(), func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := request.Write(conn); err != nil {
		return nil, nil, err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, nil, err
	}
	return response, reader, nil
}

// answer returns the agent's refusal, bounded.
func answer(response *http.Response) string {
	text, err := io.ReadAll(io.LimitReader(response.Body, 300))
	if err != nil || len(text) == 0 {
		return response.Status
	}
	return strings.TrimSpace(string(text))
}

// bufferedConn reads first what the head of the response was read with.
type bufferedConn struct {
	net.Conn
	reader *bufio.Reader
}

func (b *bufferedConn) Read(p []byte) (int, error) { return b.reader.Read(p) }
