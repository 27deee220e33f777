package channel

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// openStream connects to an end's server as the holder of another's key and
// greets it. It is how a peer that keeps no rules looks.
func openStream(t *testing.T, as, to *end) (grpc.BidiStreamingClient[channelv1.Envelope, channelv1.Envelope], error) {
	t.Helper()
	client, err := grpc.NewClient("passthrough:///"+to.listener.Addr().String(),
		grpc.WithTransportCredentials(credentials.NewTLS(as.clientTLS(to.id))), grpc.WithNoProxy())
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	s, err := channelv1.NewChannelClient(client).Exchange(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Send(hello()); err != nil {
		return nil, err
	}
	_, err = s.Recv()
	return s, err
}

// hostilePair returns an honest end and a stream of a peer that it knows.
func hostilePair(t *testing.T) (*end, *end, grpc.BidiStreamingClient[channelv1.Envelope, channelv1.Envelope]) {
	t.Helper()
	k := keys(t, 2)
	honest, hostile := newEnd(t, k[1]), newEnd(t, k[0]) // the lower identity: its streams stand
	honest.knows(hostile, Snapshot{MTU: 1400})
	s, err := openStream(t, hostile, honest)
	require.NoError(t, err)
	return honest, hostile, s
}

func send(t *testing.T, s grpc.BidiStreamingClient[channelv1.Envelope, channelv1.Envelope], snapshot *channelv1.Snapshot) *channelv1.Ack {
	t.Helper()
	require.NoError(t, s.Send(&channelv1.Envelope{Body: &channelv1.Envelope_Snapshot{Snapshot: snapshot}}))
	for {
		envelope, err := s.Recv()
		require.NoError(t, err)
		if ack := envelope.GetAck(); ack != nil {
			return ack
		}
	}
}

// Refused snapshots name the offending item and change nothing.
func TestHostileSnapshots(t *testing.T) {
	honest, hostile, s := hostilePair(t)
	stranger := newEnd(t, keys(t, 3)[2])
	good := &channelv1.Snapshot{Epoch: 1, Serial: 1, Networks: &channelv1.Networks{Networks: []*channelv1.Network{pods("10.244.0.0/16")}}}
	require.Empty(t, send(t, s, good).GetRefused())
	before := honest.Status(hostile.id).Said

	altered, record := hostile.record(1), stranger.record(1)
	altered = altered[:40] + "A" + altered[41:]
	many := &channelv1.Networks{}
	for i := range MaxNetworks + 1 {
		many.Networks = append(many.Networks, pods(fmt.Sprintf("10.%d.0.0/16", i)))
	}
	tests := map[string]struct {
		snapshot *channelv1.Snapshot
		names    string
	}{
		"altered record":        {&channelv1.Snapshot{Record: &altered}, "record"},
		"another's record":      {&channelv1.Snapshot{Record: &record}, string(stranger.id)},
		"default route":         {networks(pods("0.0.0.0/0")), "0.0.0.0/0"},
		"loopback":              {networks(pods("127.0.0.0/8")), "127.0.0.0/8"},
		"metadata":              {networks(pods("169.254.169.0/24")), "169.254.169.0/24"},
		"multicast":             {networks(pods("224.0.0.0/8")), "224.0.0.0/8"},
		"around the loopback":   {networks(pods("126.0.0.0/7")), "length of 7"},
		"one address":           {networks(pods("10.0.0.1/32")), "10.0.0.1/32"},
		"host bits":             {networks(pods("10.244.0.1/16")), "10.244.0.1/16"},
		"IPv6":                  {networks(pods("fd00::/16")), "fd00::/16"},
		"nonsense":              {networks(pods("lots")), "lots"},
		"overlap":               {networks(pods("10.244.0.0/16"), &channelv1.Network{Name: "more", Kind: channelv1.Network_KIND_POD, Cidrs: []string{"10.244.8.0/24"}}), "more"},
		"too many":              {&channelv1.Snapshot{Networks: many}, "at most 16"},
		"more than a /8":        {networks(pods("10.0.0.0/8"), &channelv1.Network{Name: "more", Kind: channelv1.Network_KIND_POD, Cidrs: []string{"20.0.0.0/8"}}), "20.0.0.0/8"},
		"empty networks":        {&channelv1.Snapshot{Networks: &channelv1.Networks{Networks: make([]*channelv1.Network, 100000)}}, "100000 networks"},
		"bad name":              {networks(&channelv1.Network{Name: "Pods!", Kind: channelv1.Network_KIND_POD}), "Pods!"},
		"unknown kind":          {networks(&channelv1.Network{Name: "p", Kind: 77, Cidrs: []string{"10.0.0.0/16"}}), "kind 77"},
		"tiny MTU":              {&channelv1.Snapshot{Mtu: 100}, "100 bytes"},
		"huge MTU":              {&channelv1.Snapshot{Mtu: 1 << 31}, "2147483648"},
		"end of time":           {&channelv1.Snapshot{Epoch: 1<<64 - 1}, "18446744073709551615"},
		"gateway 0":             {offers(&channelv1.Offer{SenderGateway: 1, Network: "p", Cidr: "10.0.0.0/16", Wire: "240.0.0.0/16"}), "gateway id 0"},
		"gateway 256":           {offers(&channelv1.Offer{ReceiverGateway: 1, SenderGateway: 256, Network: "p", Cidr: "10.0.0.0/16", Wire: "240.0.0.0/16"}), "gateway id 256"},
		"lengths differ":        {offers(offer("10.0.0.0/16", "240.0.0.0/17")), "differ in length"},
		"wire to loopback":      {offers(offer("10.0.0.0/16", "127.1.0.0/16")), "127.1.0.0/16"},
		"one wire, two uses":    {offers(offer("10.0.0.0/16", "240.0.0.0/16"), offer("10.1.0.0/16", "240.0.0.0/16")), "overlap on one link"},
		"two wires, one use":    {offers(offer("10.0.0.0/16", "240.0.0.0/16"), offer("10.0.0.0/16", "240.1.0.0/16")), "overlap on one link"},
		"too many offers":       {&channelv1.Snapshot{Offers: &channelv1.Offers{Offers: make([]*channelv1.Offer, MaxOffers+1)}}, "8193 wire prefixes"},
		"a good part beside it": {&channelv1.Snapshot{Mtu: 1300, Networks: networks(pods("127.0.0.0/8")).Networks}, "127.0.0.0/8"},
	}
	serial := uint64(1)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			serial++
			if test.snapshot.Epoch == 0 {
				test.snapshot.Epoch, test.snapshot.Serial = 1, serial
			}
			ack := send(t, s, test.snapshot)
			require.Contains(t, ack.GetRefused(), test.names)
			require.EqualValues(t, 1, ack.GetSerial(), "the last good one")
			now := honest.Status(hostile.id)
			require.Equal(t, ack.GetRefused(), now.Refused)
			require.Equal(t, before, now.Said)
			time.Sleep(100 * time.Millisecond) // stay below the bound of messages a second
		})
	}
	require.Empty(t, send(t, s, &channelv1.Snapshot{Epoch: 1, Serial: 999, Mtu: 1300}).GetRefused())
	require.Empty(t, honest.Status(hostile.id).Refused, "a good snapshot heals")
	ack := send(t, s, &channelv1.Snapshot{Epoch: 1, Serial: 998, Mtu: 1200})
	require.Contains(t, ack.GetRefused(), "newer")
	require.EqualValues(t, 1300, honest.Status(hostile.id).Said.MTU)
}

func pods(cidr string) *channelv1.Network {
	return &channelv1.Network{Name: "pods", Kind: channelv1.Network_KIND_POD, Cidrs: []string{cidr}}
}

func networks(list ...*channelv1.Network) *channelv1.Snapshot {
	return &channelv1.Snapshot{Networks: &channelv1.Networks{Networks: list}}
}

func offer(cidr, wire string) *channelv1.Offer {
	return &channelv1.Offer{ReceiverGateway: 1, SenderGateway: 1, Network: "p", Cidr: cidr, Wire: wire}
}

func offers(list ...*channelv1.Offer) *channelv1.Snapshot {
	return &channelv1.Snapshot{Offers: &channelv1.Offers{Offers: list}}
}

// Floods and giants end the hostile stream; another peer's is untouched.
func TestHostileTraffic(t *testing.T) {
	k := keys(t, 3)
	honest, hostile, good := newEnd(t, k[2]), newEnd(t, k[0]), newEnd(t, k[1])
	honest.knows(hostile, Snapshot{})
	honest.knows(good, Snapshot{})
	good.reaches(honest)
	good.knows(honest, Snapshot{})
	honest.until(good.id, "the good peer is connected", connected)
	since := honest.Status(good.id).Since

	flood := map[string]func(grpc.BidiStreamingClient[channelv1.Envelope, channelv1.Envelope]) error{
		"too many messages": func(s grpc.BidiStreamingClient[channelv1.Envelope, channelv1.Envelope]) error {
			for range 10000 {
				if err := s.Send(&channelv1.Envelope{}); err != nil {
					return drain(s)
				}
			}
			return drain(s)
		},
		"a giant": func(s grpc.BidiStreamingClient[channelv1.Envelope, channelv1.Envelope]) error {
			big := strings.Repeat("x", 2*maxMessage)
			if err := s.Send(&channelv1.Envelope{Body: &channelv1.Envelope_Snapshot{Snapshot: &channelv1.Snapshot{Record: &big}}}); err != nil {
				return err
			}
			return drain(s)
		},
	}
	for name, attack := range flood {
		t.Run(name, func(t *testing.T) {
			s, err := openStream(t, hostile, honest)
			require.NoError(t, err)
			_ = attack(s) // how it ends does not matter, that it ends does
			honest.until(hostile.id, "the stream is ended", func(s Status) bool { return !s.Connected && s.Problem != "" })
		})
	}
	t.Run("too many connections", func(t *testing.T) {
		var held []*tls.Conn
		refused := 0
		for range 2 * maxConnsPerPeer {
			config := hostile.clientTLS(honest.id)
			config.NextProtos = []string{"h2"}
			conn, err := tls.Dial("tcp", honest.listener.Addr().String(), config)
			require.NoError(t, err)
			held = append(held, conn)
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := conn.Read(make([]byte, 1)); err == io.EOF {
				refused++
			}
		}
		for _, conn := range held {
			conn.Close()
		}
		require.GreaterOrEqual(t, refused, maxConnsPerPeer)
	})
	now := honest.Status(good.id)
	require.True(t, now.Connected)
	require.Equal(t, since, now.Since, "the good peer's channel was never interrupted")
}

func drain(s grpc.BidiStreamingClient[channelv1.Envelope, channelv1.Envelope]) error {
	for {
		if _, err := s.Recv(); err != nil {
			return err
		}
	}
}

// Messages and fields of a newer release are passed over.
func TestUnknownIsIgnored(t *testing.T) {
	honest, hostile, s := hostilePair(t)
	future := &channelv1.Envelope{}
	future.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
	require.NoError(t, s.Send(future))
	snapshot := &channelv1.Snapshot{Epoch: 1, Serial: 1, Mtu: 1234}
	snapshot.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 50, protowire.BytesType), "services"))
	require.Empty(t, send(t, s, snapshot).GetRefused())
	require.EqualValues(t, 1234, honest.Status(hostile.id).Said.MTU)
}

func TestGreeting(t *testing.T) {
	require.NoError(t, compatible(&channelv1.Hello{ProtocolMin: 0, ProtocolMax: channelv1.ProtocolMin}))
	require.NoError(t, compatible(&channelv1.Hello{ProtocolMin: channelv1.ProtocolMax, ProtocolMax: 99}))
	require.ErrorContains(t, compatible(&channelv1.Hello{ProtocolMin: 98, ProtocolMax: 99}), "upgrade")
	require.ErrorContains(t, compatible(nil), "greeting")

	k := keys(t, 2)
	honest, silent := newEnd(t, k[1]), newEnd(t, k[0])
	honest.knows(silent, Snapshot{})
	client, err := grpc.NewClient("passthrough:///"+honest.listener.Addr().String(),
		grpc.WithTransportCredentials(credentials.NewTLS(silent.clientTLS(honest.id))), grpc.WithNoProxy())
	require.NoError(t, err)
	defer client.Close()
	s, err := channelv1.NewChannelClient(client).Exchange(t.Context())
	require.NoError(t, err)
	_, err = s.Recv()
	require.Contains(t, status.Convert(err).Message(), "no greeting")
	require.False(t, honest.Status(silent.id).Connected)
}

// decode never panics and, if it accepts, encode gives the same again.
func FuzzDecode(f *testing.F) {
	f.Add("pods", "10.244.0.0/16", "240.1.0.0/16", uint32(1), uint32(2), uint32(1440))
	f.Add("", "::/0", "0.0.0.0/0", uint32(0), uint32(300), uint32(1))
	from := v1alpha1.Identity("x")
	f.Fuzz(func(t *testing.T, name, cidr, wire string, receiver, sender, mtu uint32) {
		in := &channelv1.Snapshot{
			Mtu:      mtu,
			Networks: &channelv1.Networks{Networks: []*channelv1.Network{{Name: name, Kind: channelv1.Network_KIND_POD, Cidrs: []string{cidr}}}},
			Offers:   &channelv1.Offers{Offers: []*channelv1.Offer{{ReceiverGateway: receiver, SenderGateway: sender, Network: name, Cidr: cidr, Wire: wire}}},
		}
		out, err := decode(in, from, Snapshot{})
		if err != nil {
			return
		}
		again, err := decode(out.encode(0, 0), from, Snapshot{})
		require.NoError(t, err)
		require.Equal(t, out, again)
	})
}

// What a peer writes as text ends in conditions and on terminals: it is bounded,
// printable, and the same after a way through JSON (else each turn would write
// the status anew).
func TestTextOfPeers(t *testing.T) {
	for name, text := range map[string]string{
		"cut within a character": strings.Repeat("x", 299) + "\u00e9\u00e9",
		"terminal escapes":       "\x1b[2J\x1b]0;title\x07red",
		"no UTF-8":               "a\xff\xfeb",
		"endless":                strings.Repeat("y", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			got := clip(text)
			require.LessOrEqual(t, len(got), 310)
			require.NotContains(t, got, "\x1b")
			require.NotContains(t, got, "\x07")
			encoded, err := json.Marshal(got)
			require.NoError(t, err)
			var back string
			require.NoError(t, json.Unmarshal(encoded, &back))
			require.Equal(t, got, back)
		})
	}
}

// A server that ends the stream with a long status does not fill the condition.
func TestLongStatusOfPeer(t *testing.T) {
	k := keys(t, 2)
	honest, hostile := newEnd(t, k[0]), newEnd(t, k[1]) // the honest end dials
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(hostile.clientTLS(honest.id))))
	channelv1.RegisterChannelServer(server, &rude{text: strings.Repeat("\x1b[31m", 10000)})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	honest.mu.Lock()
	honest.routes[hostile.address()] = listener.Addr().String()
	honest.mu.Unlock()
	honest.knows(hostile, Snapshot{})
	s := honest.until(hostile.id, "the stream has ended with the rude status", func(s Status) bool { return strings.Contains(s.Problem, "[31m") })
	require.Less(t, len(s.Problem), 400)
	require.NotContains(t, s.Problem, "\x1b")
}

// rude greets and ends the stream with a status of its own.
type rude struct {
	channelv1.UnimplementedChannelServer
	text string
}

func (r *rude) Exchange(s grpc.BidiStreamingServer[channelv1.Envelope, channelv1.Envelope]) error {
	if err := s.Send(hello()); err != nil {
		return err
	}
	return status.Error(codes.Aborted, r.text)
}

// The largest snapshot that is taken at all costs little to check.
func TestManyOffersAreCheap(t *testing.T) {
	many := make([]*channelv1.Offer, MaxOffers)
	for i := range many {
		many[i] = offer(fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), fmt.Sprintf("240.%d.%d.0/24", i/256, i%256))
	}
	fastest := time.Hour
	for range 5 { // on a busy machine a single try says little
		began := time.Now()
		out, err := decodeOffers(many)
		require.NoError(t, err)
		require.Len(t, out, MaxOffers)
		fastest = min(fastest, time.Since(began))
	}
	require.Less(t, fastest, 150*time.Millisecond) // comparing every pair takes several times as long
	many[0] = offer("10.15.255.0/24", "240.99.0.0/24")
	_, err := decodeOffers(many)
	require.ErrorContains(t, err, "overlap on one link")
}
