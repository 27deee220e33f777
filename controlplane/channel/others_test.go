package channel

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const sender = v1alpha1.Identity("the sender's")

// recordOf the n-th third cluster, with the given number of gateways.
func recordOf(t *testing.T, n, gateways int) (string, v1alpha1.Identity) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(append(bytes.Repeat([]byte{9}, 31), byte(n)))
	r := identity.Record{ClusterID: "third", Epoch: 1, Serial: 1}
	for id := range gateways {
		r.Gateways = append(r.Gateways, identity.Gateway{ID: int32(id + 1), Lanes: []identity.Lane{{Port: 51847, Key: bytes.Repeat([]byte{7}, 32)}}})
	}
	token, err := r.Sign(key)
	require.NoError(t, err)
	return token, idOf(key)
}

func full(t *testing.T) Snapshot {
	t.Helper()
	record, id := recordOf(t, 1, 1)
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return Snapshot{
		MTU:    1440,
		Offers: []Offer{{ReceiverGateway: 1, SenderGateway: 2, Origin: id, Network: "pods", CIDR: prefix("10.244.0.0/16"), Wire: prefix("240.1.0.0/16")}},
		Reachables: []Reachable{{Record: record, MTU: 1400, Networks: []Network{
			{"pods", v1alpha1.NetworkPod, prefix("10.244.0.0/16")}, {"nodes", v1alpha1.NetworkNode, prefix("100.64.0.0/20")},
		}}},
		Introductions: []Introduction{
			{Connection: "a-b", UID: "0-1", Record: record, Mode: v1alpha1.ModeRequire, MTU: 1300, Lease: time.Hour},
			{Connection: "a-c", UID: "0-2", Record: "altered on the way", Mode: v1alpha1.ModePrefer},
		},
		Reports: []Report{
			{UID: "1-1", State: "Accepted", PodCIDR: "10.244.0.0/16", RemappedPodCIDR: "100.65.0.0/16", ActivePath: PathDirect,
				DirectUp: true, DirectRTT: 20100, HubRTT: 80200, DirectLossPermille: 3, MTU: 1400, Since: since},
			{UID: "1-2", State: ReportDenied, Message: "the policy says no: set access.introductions", ActivePath: PathNone},
			{UID: "1-3", State: ReportInvalidRecord, ActivePath: PathHub},
			{UID: "1-4", State: "AwaitingApproval", ActivePath: PathNone},
			{UID: "1-5", State: "Ending", ActivePath: PathNone},
		},
		OffDirect: Leaving,
	}
}

// over returns the snapshot after a way over the wire, with one unknown field in
// each message.
func over(t *testing.T, s Snapshot) *channelv1.Snapshot {
	t.Helper()
	in := s.encode(1, 1)
	future := protowire.AppendString(protowire.AppendTag(nil, 50, protowire.BytesType), "of a newer release")
	for _, r := range in.GetReachables().GetReachables() {
		r.ProtoReflect().SetUnknown(future)
	}
	for _, i := range in.GetIntroductions().GetIntroductions() {
		i.ProtoReflect().SetUnknown(future)
	}
	for _, r := range in.GetReports().GetReports() {
		r.ProtoReflect().SetUnknown(future)
	}
	wire, err := proto.Marshal(in)
	require.NoError(t, err)
	out := &channelv1.Snapshot{}
	require.NoError(t, proto.Unmarshal(wire, out))
	return out
}

// What is said of third clusters comes over as it was said, a record included
// that is none.
func TestOthersRoundTrip(t *testing.T) {
	say := full(t)
	got, err := decode(over(t, say), sender, Snapshot{})
	require.NoError(t, err)
	require.Empty(t, got.leftOut)
	require.Equal(t, say, got.Snapshot)

	empty := Snapshot{Reachables: []Reachable{}, Introductions: []Introduction{}, Reports: []Report{}}
	got, err = decode(over(t, empty), sender, say)
	require.NoError(t, err)
	merged := say.merge(got.Snapshot)
	require.NotNil(t, merged.Reachables)
	require.Empty(t, merged.Reachables, "present and empty deletes")
	require.Empty(t, merged.Introductions)
	require.Empty(t, merged.Reports)
	require.Empty(t, merged.OffDirect, "it is said or it is not")

	got, err = decode(over(t, Snapshot{}), sender, say)
	require.NoError(t, err)
	merged = say.merge(got.Snapshot)
	require.Equal(t, say.Reachables, merged.Reachables, "absent keeps")
	require.Equal(t, say.Introductions, merged.Introductions)
	require.Equal(t, say.Reports, merged.Reports)
}

// A lease is in whole seconds, and a short one does not become none.
func TestLeaseIsRoundedUp(t *testing.T) {
	for lease, want := range map[time.Duration]uint64{
		0: 0, -time.Second: 0, time.Millisecond: 1, time.Second: 1, 1500 * time.Millisecond: 2, 1 << 62: uint64(maxLease / time.Second),
	} {
		require.Equal(t, want, Introduction{Lease: lease}.encode().GetLeaseSeconds(), "%s", lease)
	}
}

// A wish or a figure beyond all sense is bounded; it takes nothing else away.
func TestFiguresAreBounded(t *testing.T) {
	record, _ := recordOf(t, 1, 1)
	i, err := decodeIntroduction(&channelv1.Introduction{Connection: "a", Uid: "1", Record: record, Mode: channelv1.Introduction_MODE_PREFER, Mtu: 100, LeaseSeconds: 1<<64 - 1})
	require.NoError(t, err)
	require.EqualValues(t, 576, i.MTU)
	require.Equal(t, maxLease, i.Lease)
	i, err = decodeIntroduction(&channelv1.Introduction{Connection: "a", Uid: "1", Record: strings.Repeat("x", 1<<20), Mode: channelv1.Introduction_MODE_PREFER, Mtu: 1 << 31, LeaseSeconds: 1})
	require.NoError(t, err)
	require.Equal(t, time.Minute, i.Lease)
	require.EqualValues(t, 65535, i.MTU)
	require.Less(t, len(i.Record), 400)

	r, err := decodeReport(&channelv1.Report{
		Uid: "1", State: channelv1.Report_STATE_ACCEPTED, Message: strings.Repeat("\x1b[31m", 1000), PodCidr: "10.0.0.1/8", RemappedPodCidr: strings.Repeat("1", 100),
		Active: 77, DirectRtt: 1<<64 - 1, HubRtt: 1 << 63, DirectLossPermille: 1 << 31, Mtu: 1 << 31, Since: 1<<64 - 1,
	})
	require.NoError(t, err)
	require.Equal(t, Report{
		UID: "1", State: "Accepted", Message: r.Message, ActivePath: PathNone, DirectRTT: maxRTT, HubRTT: maxRTT,
		DirectLossPermille: 1000, MTU: 65535, Since: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}, r)
	require.Less(t, len(r.Message), 310)
	require.NotContains(t, r.Message, "\x1b")
	_, err = r.Since.MarshalJSON()
	require.NoError(t, err, "a status can hold it")
}

// One bad item beside a good one: it is left out and named, the good one is
// taken.
func TestBadItemIsLeftOut(t *testing.T) {
	good, bad := full(t), "weft1.x.y"
	other, id := recordOf(t, 2, 1)
	third := func(change func(*channelv1.Reachable)) *channelv1.Snapshot {
		in := over(t, good)
		r := &channelv1.Reachable{Record: other, Networks: []*channelv1.Network{pods("10.244.0.0/16")}}
		change(r)
		in.Reachables.Reachables = append([]*channelv1.Reachable{r}, in.Reachables.Reachables...)
		return in
	}
	introduced := func(change func(*channelv1.Introduction)) *channelv1.Snapshot {
		in := over(t, good)
		i := &channelv1.Introduction{Connection: "first", Uid: "9", Mode: channelv1.Introduction_MODE_PREFER}
		change(i)
		in.Introductions.Introductions = append([]*channelv1.Introduction{i}, in.Introductions.Introductions...)
		return in
	}
	reported := func(uid string, state channelv1.Report_State) *channelv1.Snapshot {
		in := over(t, good)
		in.Reports.Reports = append([]*channelv1.Report{{Uid: uid, State: state}}, in.Reports.Reports...)
		return in
	}
	tests := map[string]struct {
		in    *channelv1.Snapshot
		names string
	}{
		"no record":           {third(func(r *channelv1.Reachable) { r.Record = bad }), "cluster 1 of those reached through it"},
		"the sender itself":   {third(func(*channelv1.Reachable) {}), "it is the peer itself"},
		"loopback":            {third(func(r *channelv1.Reachable) { r.Networks = []*channelv1.Network{pods("127.0.0.0/8")} }), string(id) + ": network pods: 127.0.0.0/8"},
		"unknown kind":        {third(func(r *channelv1.Reachable) { r.Networks[0].Kind = 77 }), "kind 77"},
		"too many networks":   {third(func(r *channelv1.Reachable) { r.Networks = make([]*channelv1.Network, 17) }), "17 networks"},
		"tiny MTU":            {third(func(r *channelv1.Reachable) { r.Mtu = 100 }), string(id) + ": an MTU of 100 bytes"},
		"no UID":              {introduced(func(i *channelv1.Introduction) { i.Uid = "" }), `"first"`},
		"UID of terminals":    {introduced(func(i *channelv1.Introduction) { i.Uid = "\x1b[2J" }), `"first"`},
		"no connection":       {introduced(func(i *channelv1.Introduction) { i.Connection = "../../x" }), "../../x"},
		"unknown mode":        {introduced(func(i *channelv1.Introduction) { i.Mode = 9 }), "mode 9"},
		"no UID reported":     {reported("", channelv1.Report_STATE_ACCEPTED), "report 1"},
		"unknown state":       {reported("7", 99), "state 99"},
		"a state left out":    {reported("7", 0), "state 0"},
		"nothing but nothing": {third(func(r *channelv1.Reachable) { proto.Reset(r) }), "cluster 1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			from := sender
			if name == "the sender itself" {
				from = id
			}
			got, err := decode(test.in, from, Snapshot{})
			require.NoError(t, err)
			require.Len(t, got.leftOut, 1)
			require.Contains(t, got.leftOut[0], test.names)
			require.NotContains(t, got.leftOut[0], "\x1b")
			require.Equal(t, good, got.Snapshot)
		})
	}
}

// What was told well before stands in for what is told badly now; what is told
// twice counts once.
func TestLastGoodItemStands(t *testing.T) {
	good := full(t)
	in := over(t, good)
	in.Reachables.Reachables[0].Networks = []*channelv1.Network{pods("127.0.0.0/8")}
	in.Introductions.Introductions[1].Mode = 9
	in.Reports.Reports[0].State = 99
	in.Reports.Reports = append(in.Reports.Reports, &channelv1.Report{Uid: "1-2", State: channelv1.Report_STATE_ACCEPTED})
	got, err := decode(in, sender, good)
	require.NoError(t, err)
	require.Len(t, got.leftOut, 4)
	require.Contains(t, got.leftOut[3], "listed twice")
	require.Equal(t, good, got.Snapshot)
	require.Contains(t, summary(append(got.leftOut, "x", "y")), "; and 2 more")

	got, err = decode(in, sender, Snapshot{})
	require.NoError(t, err)
	require.Empty(t, got.Reachables)
	require.NotNil(t, got.Reachables)
}

// The clusters behind one peer cannot take all of our pools.
func TestClustersBehindAPeerAreBounded(t *testing.T) {
	in := &channelv1.Snapshot{Reachables: &channelv1.Reachables{}}
	for n := range 4 {
		record, _ := recordOf(t, n, 1)
		in.Reachables.Reachables = append(in.Reachables.Reachables, &channelv1.Reachable{Record: record, Networks: []*channelv1.Network{pods("10.0.0.0/8")}})
	}
	got, err := decode(in, sender, Snapshot{})
	require.NoError(t, err)
	require.Len(t, got.Reachables, 2)
	require.Contains(t, got.leftOut[0], "addresses together")
}

// Lists that are too long come from no honest peer: all is refused.
func TestTooManyOthers(t *testing.T) {
	for names, in := range map[string]*channelv1.Snapshot{
		"65 clusters are said to be reached": {Reachables: &channelv1.Reachables{Reachables: make([]*channelv1.Reachable, MaxReachables+1)}},
		"65 clusters are introduced":         {Introductions: &channelv1.Introductions{Introductions: make([]*channelv1.Introduction, MaxIntroductions+1)}},
		"100000 reports":                     {Reports: &channelv1.Reports{Reports: make([]*channelv1.Report, 100000)}},
		"its origin":                         offers(&channelv1.Offer{ReceiverGateway: 1, SenderGateway: 1, Network: "p", Origin: "X", Cidr: "10.0.0.0/16", Wire: "240.0.0.0/16"}),
	} {
		_, err := decode(in, sender, Snapshot{})
		require.ErrorContains(t, err, names)
	}
}

// The largest snapshot that an honest peer can say fits a message and is taken,
// in a time that holds nobody up.
func TestLargestSnapshotFits(t *testing.T) {
	say := Snapshot{MTU: 65535, Record: strings.Repeat("r", maxRecord)}
	long := strings.Repeat("n", 30)
	var most []Network
	for i := range MaxNetworks {
		most = append(most, Network{Name: long, Kind: v1alpha1.NetworkNode, CIDR: prefix(fmt.Sprintf("100.100.1%02d.128/25", i))})
	}
	say.Networks = most
	_, id := recordOf(t, 1, 1)
	for i := range MaxOffers {
		say.Offers = append(say.Offers, Offer{
			ReceiverGateway: 255, SenderGateway: 255, Origin: id, Network: long,
			CIDR: prefix(fmt.Sprintf("10.1%02d.1%02d.%d/25", i/200%100, i/2%100, i%2*128)), Wire: prefix(fmt.Sprintf("240.1%02d.1%02d.%d/25", i/200%100, i/2%100, i%2*128)),
		})
	}
	for i := range MaxReachables {
		record, _ := recordOf(t, i, identity.MaxGateways)
		say.Reachables = append(say.Reachables, Reachable{Record: record, Networks: most, MTU: 65535})
		say.Introductions = append(say.Introductions, Introduction{
			Connection: strings.Repeat("c", 253), UID: fmt.Sprintf("%064d", i), Record: strings.Repeat("r", maxRecord), Mode: v1alpha1.ModeRequire, MTU: 65535, Lease: maxLease,
		})
		say.Reports = append(say.Reports, Report{
			UID: fmt.Sprintf("%064d", i), State: ReportInvalidRecord, Message: strings.Repeat("m", 300), PodCIDR: "100.100.100.128/25", RemappedPodCIDR: "100.100.100.128/25",
			ActivePath: PathHub, DirectUp: true, DirectRTT: maxRTT, HubRTT: maxRTT, DirectLossPermille: 1000, MTU: 65535, Since: time.Unix(maxSince, 0).UTC(),
		})
	}
	in := say.encode(maxOrder-1, maxOrder-1)
	in.Record = nil // its signature is the peer's
	fastest := time.Hour
	for range 5 { // on a busy machine a single try says little
		began := time.Now()
		got, err := decode(in, sender, Snapshot{})
		fastest = min(fastest, time.Since(began))
		require.NoError(t, err)
		require.Empty(t, got.leftOut)
		require.Len(t, got.Reachables, MaxReachables)
		require.Equal(t, say.Introductions, got.Introductions)
		require.Equal(t, say.Reports, got.Reports)
	}
	require.Less(t, fastest, 500*time.Millisecond)
	for i := range in.GetReachables().GetReachables() {
		in.Reachables.Reachables[i].Record = strings.Repeat("r", maxRecord)
	}
	in.Record = &say.Record
	envelope := &channelv1.Envelope{Body: &channelv1.Envelope_Snapshot{Snapshot: in}}
	require.Less(t, proto.Size(envelope), maxMessage)
	require.Greater(t, proto.Size(envelope), maxMessage/2, "the bound is not far off")
}

// A peer that sends one giant after the other is read no faster than they may
// cost; its session ends as ever.
func TestGiantsArePaced(t *testing.T) {
	s := newSession(nil, nil, true)
	limiter := rate.NewLimiter(1000, 100)
	began := time.Now()
	for range 3 {
		require.True(t, s.pace(limiter, 100))
	}
	require.GreaterOrEqual(t, time.Since(began), 190*time.Millisecond)
	slow := rate.NewLimiter(bytesPerSecond, byteBurst)
	require.True(t, s.pace(slow, maxMessage))
	require.True(t, s.pace(slow, maxMessage), "two at once are no flood")
	s.end(io.EOF)
	require.False(t, s.pace(slow, maxMessage))
}

// Over a real channel: what is left out is told, and the rest is heard.
func TestLeftOutIsTold(t *testing.T) {
	honest, hostile, s := hostilePair(t)
	record, _ := recordOf(t, 1, 1)
	in := &channelv1.Snapshot{Epoch: 1, Serial: 1, Mtu: 1300, OffDirect: channelv1.Snapshot_OFF_DIRECT_FOLLOWING, Reachables: &channelv1.Reachables{Reachables: []*channelv1.Reachable{{Record: "weft1.a.b"}, {Record: record}}}}
	ack := send(t, s, in)
	require.Empty(t, ack.GetRefused())
	require.EqualValues(t, 1, ack.GetSerial())
	now := honest.Status(hostile.id)
	require.Contains(t, now.LeftOut, "cluster 1 of those reached through it")
	require.Equal(t, []Reachable{{Record: record, Networks: []Network{}}}, now.Said.Reachables)
	require.Equal(t, Following, now.Said.OffDirect)
	in.Serial, in.Reachables.Reachables = 2, in.Reachables.Reachables[1:]
	require.Empty(t, send(t, s, in).GetRefused())
	require.Empty(t, honest.Status(hostile.id).LeftOut)
}

// decode never panics on any message, and what it takes survives the way back.
func FuzzDecodeMessage(f *testing.F) {
	for _, s := range []Snapshot{full(&testing.T{}), {MTU: 1400, Reports: []Report{}}} {
		wire, err := proto.Marshal(s.encode(3, 4))
		require.NoError(f, err)
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		in := &channelv1.Snapshot{}
		if proto.Unmarshal(wire, in) != nil {
			return
		}
		out, err := decode(in, sender, Snapshot{})
		if err != nil {
			return
		}
		again, err := decode(out.encode(0, 0), sender, Snapshot{})
		require.NoError(t, err)
		require.Empty(t, again.leftOut)
		require.Equal(t, out.Snapshot, again.Snapshot)
	})
}
