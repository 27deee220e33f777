package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/dataplane/plan"
)

const (
	endpointsFile = "endpoints.json"
	// silence after which an endpoint counts as dead: WireGuard renews a session
	// that carries traffic every 120 s and drops it after 180 s (REJECT_AFTER_TIME).
	silence = 180 * time.Second
	// patience with an endpoint that was just set; a handshake is retried every 5 s.
	patience = 12 * time.Second
	// yieldFor is how long a new peer that we yield to is left to dial us, longer
	// than its first packet takes.
	yieldFor = time.Second
	// A peer that we yield to and that does not answer is dialed and left to dial us
	// in turns: both ends may have lost their WireGuard at once, and with it the
	// order in which they dialed. A turn holds one retry of whoever has it, which
	// comes 5.3 s after the last one (REKEY_TIMEOUT and its jitter), and what is
	// still on its way. A peer that was just added is dialed at once, so the answer
	// is soon there.
	firstTurn = 2 * time.Second
	dialTurn  = 6 * time.Second
	yieldTurn = 7 * time.Second
	// resolveTimeout bounds all look-ups of one pass together.
	resolveTimeout = 3 * time.Second
	// maxEndpointBytes bounds the file: 255 clusters of 7 gateways fit well.
	maxEndpointBytes = 1 << 20
)

// endpointBook knows where peers were last heard of, on disk, and which endpoint
// was tried last, in memory.
type endpointBook struct {
	path string
	// heard: device -> public key -> endpoint of the last handshake.
	heard map[string]map[string]netip.AddrPort
	tries map[peerName]try
}

type peerName struct {
	device string
	key    wgtypes.Key
}

type try struct {
	since time.Time
	wait  time.Duration // what the peer has to answer, or to dial us
	next  int           // index of the next candidate
	// back is where to dial again if no candidate resolves.
	back netip.AddrPort
}

// nowhere is the endpoint of a peer that is left to dial us after it had one:
// nobody hears what is sent there (RFC 863), and where the peer dials from takes
// its place. WireGuard cannot take an endpoint away, other than with the peer.
func nowhere() netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 9) }

// newEndpointBook reads the file; without one, or with a broken one, nothing is
// known, and peers are dialed as configured.
func newEndpointBook(path string) *endpointBook {
	book := &endpointBook{path: path, heard: map[string]map[string]netip.AddrPort{}, tries: map[peerName]try{}}
	if info, err := os.Stat(path); err != nil || info.Size() > maxEndpointBytes {
		return book
	}
	if content, err := os.ReadFile(path); err == nil && json.Unmarshal(content, &book.heard) != nil {
		book.heard = map[string]map[string]netip.AddrPort{}
	}
	return book
}

func (b *endpointBook) forget() {
	b.heard = map[string]map[string]netip.AddrPort{}
	b.tries = map[peerName]try{}
}

// candidates in order: where the peer was last heard of, then as configured.
func (b *endpointBook) candidates(device string, peer plan.Peer) []string {
	var candidates []string
	if heard, ok := b.heard[device][wgtypes.Key(peer.PublicKey).String()]; ok {
		candidates = append(candidates, heard.String())
	}
	for _, endpoint := range peer.Endpoints {
		if len(candidates) == 0 || endpoint != candidates[0] {
			candidates = append(candidates, endpoint)
		}
	}
	return candidates
}

// first returns the endpoint for a peer that has none; invalid if none is known,
// or if the peer is left to dial us for now.
func (b *endpointBook) first(device string, peer plan.Peer, resolver *resolver, now time.Time) (netip.AddrPort, error) {
	name := peerName{device, peer.PublicKey}
	if b.yields(name, peer, now) {
		return netip.AddrPort{}, nil
	}
	delete(b.tries, name)
	wait := patience
	if peer.Yields {
		wait = firstTurn
	}
	return b.advance(name, b.candidates(device, peer), resolver, now, wait)
}

// yields reports whether a peer that was never heard of still has its time to
// dial us.
func (b *endpointBook) yields(name peerName, peer plan.Peer, now time.Time) bool {
	if _, heard := b.heard[name.device][name.key.String()]; heard || !peer.Yields {
		return false
	}
	if _, known := b.tries[name]; !known {
		b.tries[name] = try{since: now, wait: yieldFor}
	}
	return now.Sub(b.tries[name].since) < yieldFor
}

// next returns another endpoint for a peer that does not answer at its present
// one; invalid if it should be left alone.
func (b *endpointBook) next(device string, peer plan.Peer, state wgtypes.Peer, resolver *resolver, now time.Time) (netip.AddrPort, error) {
	name := peerName{device, peer.PublicKey}
	if handshake := handshakeOf(state); !handshake.IsZero() && now.Sub(handshake) < silence {
		delete(b.tries, name)
		return netip.AddrPort{}, nil
	}
	last, tried := b.tries[name]
	if !tried {
		// First seen like this by this process: give the present one its time.
		last = try{since: now, wait: patience}
		if peer.Yields {
			last.wait = dialTurn
		}
		b.tries[name] = last
	}
	if now.Sub(last.since) < last.wait {
		return netip.AddrPort{}, nil
	}
	wait := patience
	if peer.Yields {
		if current := endpointOf(state); current.IsValid() {
			b.tries[name] = try{since: now, wait: yieldTurn, next: last.next, back: current}
			return nowhere(), nil
		}
		wait = dialTurn
	}
	endpoint, err := b.advance(name, b.candidates(device, peer), resolver, now, wait)
	if !endpoint.IsValid() {
		endpoint = last.back
	}
	if endpoint == endpointOf(state) {
		return netip.AddrPort{}, err
	}
	return endpoint, err
}

// advance resolves the next candidate that can be resolved, and gives it so long.
func (b *endpointBook) advance(name peerName, candidates []string, resolver *resolver, now time.Time, wait time.Duration) (netip.AddrPort, error) {
	start := b.tries[name].next
	var failures []error
	for i := range candidates {
		index := (start + i) % len(candidates)
		b.tries[name] = try{since: now, wait: wait, next: index + 1}
		endpoint, err := resolver.resolve(candidates[index])
		if err == nil {
			return endpoint, errors.Join(failures...)
		}
		failures = append(failures, err)
	}
	return netip.AddrPort{}, errors.Join(failures...)
}

// remember notes where peers were heard of; it says whether that is news.
func (b *endpointBook) remember(device string, peers []wgtypes.Peer, now time.Time) bool {
	changed := false
	for _, peer := range peers {
		endpoint := endpointOf(peer)
		handshake := handshakeOf(peer)
		key := peer.PublicKey.String()
		if !endpoint.IsValid() || handshake.IsZero() || now.Sub(handshake) > silence || b.heard[device][key] == endpoint {
			continue
		}
		if b.heard[device] == nil {
			b.heard[device] = map[string]netip.AddrPort{}
		}
		b.heard[device][key] = endpoint
		changed = true
	}
	return changed
}

// keepOnly forgets peers that are not planned; it says whether there were any.
func (b *endpointBook) keepOnly(lanes []plan.Lane) bool {
	planned := map[string]map[string]bool{}
	for _, lane := range lanes {
		planned[lane.Device] = map[string]bool{}
		for _, peer := range lane.Peers {
			planned[lane.Device][wgtypes.Key(peer.PublicKey).String()] = true
		}
	}
	changed := false
	for device, peers := range b.heard {
		for key := range peers {
			if !planned[device][key] {
				delete(peers, key)
				changed = true
			}
		}
		if len(peers) == 0 {
			delete(b.heard, device)
		}
	}
	for name := range b.tries {
		if !planned[name.device][name.key.String()] {
			delete(b.tries, name)
		}
	}
	return changed
}

func (b *endpointBook) save() error {
	content, err := json.MarshalIndent(b.heard, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(b.path, append(content, '\n')); err != nil {
		return fmt.Errorf("keep roamed endpoints: %w", err)
	}
	return nil
}

// maintainEndpoints looks at all peers once.
func (e *Executor) maintainEndpoints(ctx context.Context) error {
	if len(e.current.Lanes) == 0 {
		return nil
	}
	client, err := wgctrl.New()
	if err != nil {
		return fmt.Errorf("reach WireGuard: %w", err)
	}
	defer client.Close()
	resolver := newResolver(ctx)
	defer resolver.close()
	var failures []error
	changed := e.endpoints.keepOnly(e.current.Lanes)
	for _, lane := range e.current.Lanes {
		device, err := client.Device(lane.Device)
		if err != nil {
			failures = append(failures, fmt.Errorf("read lane %s: %w", lane.Device, err))
			continue
		}
		now := time.Now()
		changed = e.endpoints.remember(lane.Device, device.Peers, now) || changed
		failures = append(failures, e.redirectSilent(ctx, client, lane, device, resolver, now))
	}
	if changed {
		failures = append(failures, e.endpoints.save())
	}
	return errors.Join(failures...)
}

// redirectSilent sends peers that do not answer to their next endpoint.
func (e *Executor) redirectSilent(ctx context.Context, client *wgctrl.Client, lane plan.Lane, device *wgtypes.Device, resolver *resolver, now time.Time) error {
	states := map[wgtypes.Key]wgtypes.Peer{}
	for _, peer := range device.Peers {
		states[peer.PublicKey] = peer
	}
	var failures []error
	for _, peer := range lane.Peers {
		state, exists := states[peer.PublicKey]
		if !exists {
			continue // the next Apply adds it
		}
		endpoint, err := e.endpoints.next(lane.Device, peer, state, resolver, now)
		failures = append(failures, err)
		if !endpoint.IsValid() {
			continue
		}
		// It may have dialed us while names were looked up.
		state, err = stateOf(client, lane.Device, state.PublicKey)
		if err != nil || !handshakeOf(state).IsZero() && now.Sub(handshakeOf(state)) < silence {
			failures = append(failures, err)
			continue
		}
		changes := redirection(peer, state, endpoint)
		if err := client.ConfigureDevice(lane.Device, wgtypes.Config{Peers: changes}); err != nil {
			failures = append(failures, fmt.Errorf("set endpoint of peer %s: %w", state.PublicKey, err))
			continue
		}
		level := slog.LevelInfo
		if peer.Yields { // every few seconds, for as long as it does not answer
			level = slog.LevelDebug
		}
		e.log.Log(ctx, level, "peer does not answer, trying another endpoint", "device", lane.Device, "peer", state.PublicKey, "endpoint", endpoint)
	}
	return errors.Join(failures...)
}

// redirection gives a peer without a session another endpoint. One that is new and
// has never had an endpoint has used up its attempt to dial, and would not make
// another for 5 s (REKEY_TIMEOUT): it is made anew, so it dials at once.
func redirection(peer plan.Peer, state wgtypes.Peer, endpoint netip.AddrPort) []wgtypes.PeerConfig {
	change := wgtypes.PeerConfig{PublicKey: peer.PublicKey, UpdateOnly: true, Endpoint: net.UDPAddrFromAddrPort(endpoint)}
	if state.Endpoint != nil || !handshakeOf(state).IsZero() {
		return []wgtypes.PeerConfig{change}
	}
	fresh := peerChanges([]plan.Peer{peer}, nil)[0]
	fresh.Endpoint = change.Endpoint
	return []wgtypes.PeerConfig{{PublicKey: peer.PublicKey, Remove: true}, fresh}
}

// stateOf reads a peer of a lane as it is now.
func stateOf(client *wgctrl.Client, lane string, key wgtypes.Key) (wgtypes.Peer, error) {
	device, err := client.Device(lane)
	if err != nil {
		return wgtypes.Peer{}, fmt.Errorf("read lane %s: %w", lane, err)
	}
	for _, peer := range device.Peers {
		if peer.PublicKey == key {
			return peer, nil
		}
	}
	return wgtypes.Peer{PublicKey: key}, nil
}

// resolver turns host:port into an address, all look-ups within one bound.
type resolver struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func newResolver(ctx context.Context) *resolver {
	r := &resolver{}
	r.ctx, r.cancel = context.WithTimeout(ctx, resolveTimeout)
	return r
}

func (r *resolver) close() { r.cancel() }

// resolve prefers IPv4, which the lane's MTU is made for.
func (r *resolver) resolve(endpoint string) (netip.AddrPort, error) {
	if address, err := netip.ParseAddrPort(endpoint); err == nil {
		return address, nil
	}
	host, service, err := net.SplitHostPort(endpoint)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("endpoint %q is not host:port: %w", endpoint, err)
	}
	port, err := net.DefaultResolver.LookupPort(r.ctx, "udp", service)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("endpoint %q has no valid port: %w", endpoint, err)
	}
	addresses, err := net.DefaultResolver.LookupNetIP(r.ctx, "ip", host)
	var chosen netip.Addr
	if err == nil {
		chosen, err = chooseAddress(addresses)
	}
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("endpoint %q does not resolve, check the name or give an address: %w", endpoint, err)
	}
	return netip.AddrPortFrom(chosen, uint16(port)), nil
}

// chooseAddress returns the first IPv4 address of a name, else its first IPv6
// one. The name is a peer's: where its answer leads must be a place that an
// address in its record could name as well.
func chooseAddress(addresses []netip.Addr) (netip.Addr, error) {
	var chosen netip.Addr
	refused := errNoAddress
	for _, address := range addresses {
		address = address.Unmap()
		if err := identity.ValidateEndpoint(address.String()); err != nil {
			refused = err
			continue
		}
		if address.Is4() {
			return address, nil
		}
		if !chosen.IsValid() {
			chosen = address
		}
	}
	if !chosen.IsValid() {
		return netip.Addr{}, refused
	}
	return chosen, nil
}
