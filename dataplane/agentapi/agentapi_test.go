package agentapi

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
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
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

var (
	ownChannel      = netip.MustParseAddr("fd79::a")
	peerChannel     = netip.MustParseAddr("fd79::b")
	strangerChannel = netip.MustParseAddr("fd79::c")
	apiAddress      = netip.MustParseAddrPort("127.0.0.1:9810")
)

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return key
}

func identityOf(key ed25519.PrivateKey) v1alpha1.Identity {
	return identity.Fingerprint(key.Public().(ed25519.PublicKey))
}

// dialAPI connects as the holder of a key, pinning the server's certificate as
// the controller does.
func dialAPI(t *testing.T, s *Server, key ed25519.PrivateKey) (*tls.Conn, error) {
	t.Helper()
	certificate, err := identity.Certificate(key)
	require.NoError(t, err)
	config := identity.PinnedConfig(certificate, func(v1alpha1.Identity) error { return nil })
	config.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error {
		sum := sha256.Sum256(raw[0])
		if hex.EncodeToString(sum[:]) != s.CertificateSHA256() {
			return errors.New("not the pinned certificate")
		}
		return nil
	}
	return tls.DialWithDialer(&net.Dialer{Timeout: time.Second}, "tcp", apiAddress.String(), config)
}

// request sends one HTTP request. The answer's body is not closed, so that
// CONNECT can go on.
func request(conn *tls.Conn, text string) (*http.Response, *bufio.Reader, error) {
	if _, err := io.WriteString(conn, text); err != nil {
		return nil, nil, err
	}
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, &http.Request{Method: text[:3]})
	return response, reader, err
}

func run(t *testing.T, state State, change ...func(*Server)) *Server {
	t.Helper()
	s, err := New(Options{StateDir: t.TempDir(), Measurements: func() agent.Measurements { return agent.Measurements{Node: "a1"} }})
	require.NoError(t, err)
	for _, f := range change {
		f(s)
	}
	s.SetState(state)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	if state.Listen.IsValid() {
		requireListens(t, apiAddress.String())
	}
	return s
}

func requireListens(t *testing.T, address string) {
	t.Helper()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, 5*time.Second, 5*time.Millisecond)
}

func TestKeySurvivesRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := New(Options{StateDir: dir})
	require.NoError(t, err)
	second, err := New(Options{StateDir: dir})
	require.NoError(t, err)
	require.Len(t, first.CertificateSHA256(), 64)
	require.Equal(t, first.CertificateSHA256(), second.CertificateSHA256())
	info, err := os.Stat(filepath.Join(dir, keyFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestOnlyTheControllerReadsMeasurements(t *testing.T) {
	controller := newKey(t)
	s := run(t, State{Identity: identityOf(controller), Listen: apiAddress})

	conn, err := dialAPI(t, s, controller)
	require.NoError(t, err)
	defer conn.Close()
	response, _, err := request(conn, "GET /v1/measurements HTTP/1.1\r\nHost: a1\r\n\r\n")
	require.NoError(t, err)
	var m agent.Measurements
	require.NoError(t, json.NewDecoder(response.Body).Decode(&m))
	require.Equal(t, "a1", m.Node)

	// With TLS 1.3 the client learns of the refusal when it reads.
	stranger, err := dialAPI(t, s, newKey(t))
	if err == nil {
		_, _, err = request(stranger, "GET /v1/measurements HTTP/1.1\r\nHost: a1\r\n\r\n")
	}
	require.Error(t, err)

	plain, err := net.Dial("tcp", apiAddress.String())
	require.NoError(t, err)
	defer plain.Close()
	nobody := tls.Client(plain, &tls.Config{InsecureSkipVerify: true})
	if err = nobody.Handshake(); err == nil {
		_, _, err = request(nobody, "GET /v1/measurements HTTP/1.1\r\nHost: a1\r\n\r\n")
	}
	require.Error(t, err, "a client without certificate")

	// An open connection loses its right with the identity.
	s.SetState(State{Identity: identityOf(newKey(t)), Listen: apiAddress})
	response, _, err = request(conn, "GET /v1/measurements HTTP/1.1\r\nHost: a1\r\n\r\n")
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, response.StatusCode)
}

func TestListenerFollowsTheState(t *testing.T) {
	s := run(t, State{Listen: apiAddress})
	s.SetState(State{})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", apiAddress.String())
		if err == nil {
			conn.Close()
		}
		return err != nil
	}, 5*time.Second, 5*time.Millisecond)
	s.SetState(State{Listen: apiAddress})
	requireListens(t, apiAddress.String())
}

// serve accepts one connection after the other and hands it over.
func serve(t *testing.T, address string) <-chan *net.TCPConn {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	accepted := make(chan *net.TCPConn, 16)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn.(*net.TCPConn)
		}
	}()
	return accepted
}

// Controller → agent API (CONNECT) → tunnel → neighbor's gateway.
func TestConnectSplicesToKnownNeighborsOnly(t *testing.T) {
	controller := newKey(t)
	state := State{
		Identity: identityOf(controller), Listen: apiAddress,
		ChannelAddress: ownChannel, Peers: []netip.Addr{peerChannel},
	}
	s := run(t, state)
	far := serve(t, netip.AddrPortFrom(peerChannel, 9811).String())

	for _, target := range []string{"[fd79::c]:9811", "[fd79::b]:22", "127.0.0.1:9811", "nonsense"} {
		conn, err := dialAPI(t, s, controller)
		require.NoError(t, err)
		response, _, err := request(conn, fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target))
		require.NoError(t, err, target)
		require.NotEqual(t, http.StatusOK, response.StatusCode, target)
		conn.Close()
	}

	conn, err := dialAPI(t, s, controller)
	require.NoError(t, err)
	defer conn.Close()
	// The first bytes may come along with the request.
	response, reader, err := request(conn, "CONNECT [fd79::b]:9811 HTTP/1.1\r\nHost: [fd79::b]:9811\r\n\r\nhello")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	gateway := <-far
	defer gateway.Close()
	require.Equal(t, ownChannel.String(), gateway.RemoteAddr().(*net.TCPAddr).IP.String())
	require.NoError(t, conn.CloseWrite())
	got, err := io.ReadAll(gateway) // ends, because the half-close is handed on
	require.NoError(t, err)
	require.Equal(t, "hello", string(got))
	_, err = gateway.Write([]byte("answer after the half-close"))
	require.NoError(t, err)
	require.NoError(t, gateway.Close())
	got, err = io.ReadAll(reader)
	require.NoError(t, err)
	require.Equal(t, "answer after the half-close", string(got))
}

// Neighbor's gateway → tunnel → agent → controller.
func TestInboundChannelReachesTheController(t *testing.T) {
	state := State{
		ChannelAddress: ownChannel, Peers: []netip.Addr{peerChannel}, ChannelEndpoint: "127.0.0.1:9443",
	}
	s := run(t, state)
	requireListens(t, "[fd79::a]:9811")
	controller := serve(t, state.ChannelEndpoint)

	dialFrom := func(source netip.Addr) net.Conn {
		dialer := net.Dialer{Timeout: time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))}
		conn, err := dialer.Dial("tcp", "[fd79::a]:9811")
		require.NoError(t, err)
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	_, err := dialFrom(strangerChannel).Read(make([]byte, 1))
	require.Error(t, err, "not a neighbor")
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded))

	conn := dialFrom(peerChannel)
	_, err = conn.Write([]byte("ping"))
	require.NoError(t, err)
	end := <-controller
	got := make([]byte, 4)
	_, err = io.ReadFull(end, got)
	require.NoError(t, err)
	require.Equal(t, "ping", string(got))

	// More than a neighbor may have.
	var open []net.Conn
	for range peerLimit - 1 {
		one := dialFrom(peerChannel)
		_, err := one.Write([]byte("x"))
		require.NoError(t, err)
		open = append(open, one)
		<-controller
	}
	_, err = dialFrom(peerChannel).Read(make([]byte, 1))
	require.Error(t, err)
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded))

	// A neighbor that is gone loses what it had.
	s.SetState(State{ChannelAddress: ownChannel, ChannelEndpoint: state.ChannelEndpoint})
	for _, c := range append(open, conn) {
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
		require.False(t, errors.Is(err, os.ErrDeadlineExceeded))
	}
}

func TestSilentSpliceEnds(t *testing.T) {
	accepted := serve(t, "127.0.0.1:9444")
	pair := func() (*net.TCPConn, *net.TCPConn) {
		conn, err := net.Dial("tcp", "127.0.0.1:9444")
		require.NoError(t, err)
		return conn.(*net.TCPConn), <-accepted
	}
	a, farA := pair()
	b, farB := pair()
	defer farB.Close()
	var all splices
	end, err := all.enter(passage{from: peerChannel}, group{from: peerChannel}, 1)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		end.spliceWithin(300*time.Millisecond, a, b)
	}()
	// One busy direction keeps the other alive.
	start := time.Now()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for range 12 {
		<-ticker.C
		_, err := farA.Write([]byte("x"))
		require.NoError(t, err)
	}
	select {
	case <-done:
		t.Fatal("ended while in use")
	default:
	}
	<-done
	require.Greater(t, time.Since(start), 800*time.Millisecond)
	require.Less(t, time.Since(start), 5*time.Second)
}
