package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"strings"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/weft-fabric/weft/tools/demo/testbed"
	"github.com/weft-fabric/weft/tools/traffic/barewireguard"
)

// Addresses, port and device of bare WireGuard, apart from the fabric's.
const (
	bareDevice = "bare0"
	barePort   = 51999
)

var bareAddresses = [2]netip.Prefix{netip.MustParsePrefix("10.99.0.1/30"), netip.MustParsePrefix("10.99.0.2/30")}

// Bare is a WireGuard tunnel between two nodes without the fabric, with a
// traffic server at each end.
type Bare struct {
	// Ends are the nodes, with their addresses in the tunnel.
	Ends [2]testbed.Host

	running []*bareProcess
}

type bareProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  *strings.Builder
}

// StartBare sets the tunnel up between two nodes; mtu is the fabric lane's, so
// that both carry segments of one size.
func StartBare(ctx context.Context, a, b testbed.Host, mtu int) (*Bare, error) {
	bare := &Bare{Ends: [2]testbed.Host{a, b}}
	var keys [2]wgtypes.Key
	var underlay [2]netip.Addr
	for i, end := range bare.Ends {
		var err error
		if keys[i], err = wgtypes.GeneratePrivateKey(); err != nil {
			return nil, fmt.Errorf("make a key for bare WireGuard: %w", err)
		}
		if underlay[i], err = end.Cluster.NodeAddress(ctx, end.Node); err != nil {
			return nil, err
		}
		bare.Ends[i].Address = bareAddresses[i].Addr()
	}
	for i, end := range bare.Ends {
		config := barewireguard.Config{
			Device: bareDevice, MTU: mtu, PrivateKey: keys[i].String(), ListenPort: barePort, Address: bareAddresses[i],
			PeerKey: keys[1-i].PublicKey().String(), PeerEndpoint: netip.AddrPortFrom(underlay[1-i], barePort),
		}
		line, err := json.Marshal(config)
		if err != nil {
			bare.Close()
			return nil, fmt.Errorf("write the configuration of %s: %w", config, err)
		}
		// The servers are processes of their own, as they are in pods.
		err = bare.start(ctx, end, append(line, '\n'), "bare-wireguard")
		if err == nil {
			err = bare.start(ctx, end, nil, "serve", "--attached", "--address", end.Address.String())
		}
		if err != nil {
			bare.Close()
			return nil, err
		}
	}
	return bare, nil
}

// start runs the traffic program on a node and waits until it says that it is
// ready. Its input is kept open: the program ends with it.
func (b *Bare) start(ctx context.Context, end testbed.Host, input []byte, args ...string) error {
	p := &bareProcess{cmd: end.Command(ctx, args...), said: &strings.Builder{}}
	p.cmd.Stderr = p.said
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start %s on %s: %w", args[0], end, err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start %s on %s: %w", args[0], end, err)
	}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s on %s: %w", args[0], end, err)
	}
	b.running = append(b.running, p)
	if _, err := stdin.Write(input); err != nil {
		return fmt.Errorf("configure %s on %s: %w", args[0], end, err)
	}
	var ready struct {
		Ready bool   `json:"ready"`
		Error string `json:"error"`
	}
	if err := json.NewDecoder(stdout).Decode(&ready); err != nil || !ready.Ready {
		return fmt.Errorf("start %s on %s: %s%s", args[0], end, ready.Error, p.said)
	}
	return nil
}

// Way between the two ends.
func (b *Bare) Way() Way { return Way{From: b.Ends[0], Target: b.Ends[1].Address} }

// Close ends both processes, and with them the devices.
func (b *Bare) Close() {
	for _, p := range b.running {
		_ = p.stdin.Close()
		_ = p.cmd.Wait()
	}
	b.running = nil
}
