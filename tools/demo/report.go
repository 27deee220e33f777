package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/weft-fabric/weft/tools/demo/measure"
)

// report is out/demo.json, one flat object.
type report struct {
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"`
	// PeerSeconds until c is connected with both providers, HubSeconds until those
	// reach each other through it.
	PeerSeconds float64 `json:"peer_seconds"`
	HubSeconds  float64 `json:"hub_seconds"`

	PairsTested int `json:"pairs_tested"`
	// PairsOK: TCP, UDP, ICMP and the large datagrams all came back unchanged.
	PairsOK int `json:"pairs_ok"`
	// SourcesOK: pairs whose server saw the client's address in local view each
	// time.
	SourcesOK int `json:"sources_ok"`
	ChecksRun int `json:"checks_run"`
	ChecksOK  int `json:"checks_ok"`

	LargeDatagramBytes int   `json:"large_datagram_bytes"`
	TransferBytes      int64 `json:"transfer_bytes"`
	TransfersVerified  int   `json:"transfers_verified"`

	// Between a and c, which are peered directly.
	Pings   int     `json:"pings"`
	RTT     float64 `json:"rtt_ms"`
	BareRTT float64 `json:"bare_wireguard_rtt_ms"`

	Runs           int     `json:"throughput_runs"`
	MTU            int     `json:"mtu"`
	Throughput     float64 `json:"mbit_s"`
	BareThroughput float64 `json:"bare_wireguard_mbit_s"`
	Ratio          float64 `json:"ratio"`

	// Between a and b: through c, then directly. Packets are those that the pods
	// sent in a stage, Transit those that c forwarded meanwhile.
	HubRTT        float64 `json:"hub_rtt_ms"`
	HubPackets    uint64  `json:"hub_packets"`
	HubTransit    uint64  `json:"hub_transit_packets"`
	DirectRTT     float64 `json:"direct_rtt_ms"`
	DirectPackets uint64  `json:"direct_packets"`
	DirectTransit uint64  `json:"direct_transit_packets"`

	// ConnectSeconds from `kubectl apply` to Connected, and DeleteSeconds of the
	// connection.
	ConnectSeconds float64 `json:"connect_seconds"`
	DeleteSeconds  float64 `json:"delete_seconds"`
	// LeastRate of a flow of numbered packets over a stage, in packets a second.
	LeastRate float64 `json:"least_packets_per_second"`
	// SwitchLost of the numbered packets over the switch to the direct link,
	// RestoreLost over the return to it, RemovalLost over its end.
	SwitchLost  uint64 `json:"switch_lost_packets"`
	RestoreLost uint64 `json:"restore_lost_packets"`
	RemovalLost uint64 `json:"removal_lost_packets"`
	// Failover is the longest silence of the numbered packets over the silent cut.
	Failover     float64 `json:"failover_ms"`
	FailoverLost uint64  `json:"failover_lost_packets"`
	// Connections that were open all the time, those of them that carried every
	// byte, and the longest silence that one had.
	Connections int     `json:"tcp_connections"`
	TCPComplete int     `json:"tcp_complete"`
	TCPResets   int     `json:"tcp_resets"`
	TCPBytes    int64   `json:"tcp_bytes_verified"`
	TCPSilence  float64 `json:"tcp_longest_silence_ms"`

	// A service of b. DNSOK: nslookup in pods of a and c gave its address, also while
	// b was cut off, and that there is no such name once it was not exported.
	DNSOK bool `json:"dns_ok"`
	// ServiceCalls are new connections to the name, of which ServiceAnswered were
	// answered. OK: all were, and each backend was used; SourceOK: the servers saw
	// the callers' own addresses, translated, each time.
	ServiceCalls    int  `json:"service_calls"`
	ServiceAnswered int  `json:"service_calls_answered"`
	ServiceCallsOK  bool `json:"service_calls_ok"`
	ServiceSourceOK bool `json:"service_source_ok"`
	// EndpointPropagation is the worst of all changes, from the EndpointSlice in b to
	// those in a and c.
	EndpointChanges     int     `json:"endpoint_changes"`
	EndpointPropagation float64 `json:"endpoint_propagation_ms"`
	// WithdrawSeconds from the cut until the endpoints have left, ReturnSeconds from
	// the healing until they are back, ForgetSeconds from the deletion of the export
	// until the name is gone everywhere.
	WithdrawSeconds float64 `json:"service_withdraw_seconds"`
	ReturnSeconds   float64 `json:"service_return_seconds"`
	ForgetSeconds   float64 `json:"service_forget_seconds"`
}

func (r *report) called(c measure.CallReport) {
	r.ServiceCalls += c.Calls
	r.ServiceAnswered += c.Answered
	r.ServiceCallsOK = r.ServiceCallsOK && c.OK()
	r.ServiceSourceOK = r.ServiceSourceOK && c.SourceOK()
}

func (r *report) followed(took time.Duration) {
	r.EndpointChanges++
	r.EndpointPropagation = max(r.EndpointPropagation, milliseconds(took))
}

func (r *report) count(result measure.PairResult) {
	r.PairsTested++
	if result.OK() {
		r.PairsOK++
	}
	if result.SourcesOK() {
		r.SourcesOK++
	}
	for _, check := range result.Checks {
		r.ChecksRun++
		if check.OK && check.SourceOK {
			r.ChecksOK++
			r.LargeDatagramBytes = max(r.LargeDatagramBytes, check.Bytes)
		}
	}
}

func (r *report) write(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// table prints what was seen, and a line of verdict for each criterion.
func (d *demo) table() {
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nFROM\tTO\tADDRESSED AS\tSEEN AS\tTCP\tUDP\tICMP\tLARGE UDP")
	for _, p := range d.pairs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s", p.From, p.To, p.Target, p.Source)
		for _, check := range p.Checks[:min(3, len(p.Checks))] {
			fmt.Fprintf(w, "\t%s", mark(check))
		}
		large := "ok"
		for _, check := range p.Checks[min(3, len(p.Checks)):] {
			if m := mark(check); m != "ok" {
				large = m
			}
		}
		fmt.Fprintf(w, "\t%s\n", large)
	}
	_ = w.Flush()
	fmt.Fprintln(w, "\nVERDICT\tCRITERION\tSEEN\tWANTED")
	for _, c := range d.criteria() {
		verdict := "ok"
		if !c.met {
			verdict = "FAILED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", verdict, c.name, c.seen, c.wanted)
	}
	_ = w.Flush()
	fmt.Fprintf(d.out, "\n%.0f s in all; %s\n", d.report.Seconds, d.lab.Out("demo.json"))
}

func mark(c measure.Check) string {
	switch {
	case !c.OK:
		return "FAILED"
	case !c.SourceOK:
		return fmt.Sprintf("FROM %s", c.Source)
	default:
		return "ok"
	}
}
