package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/weft-fabric/weft/tools/demo/measure"
)

// report is out/demo.json, one flat object.
type report struct {
	Time        time.Time `json:"time"`
	Seconds     float64   `json:"seconds"`
	PeerSeconds float64   `json:"peer_seconds"`

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

	Pings   int     `json:"pings"`
	RTT     float64 `json:"rtt_ms"`
	BareRTT float64 `json:"bare_wireguard_rtt_ms"`

	Runs           int     `json:"throughput_runs"`
	MTU            int     `json:"mtu"`
	Throughput     float64 `json:"mbit_s"`
	BareThroughput float64 `json:"bare_wireguard_mbit_s"`
	Ratio          float64 `json:"ratio"`
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

// table prints what was seen.
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
	r := d.report
	fmt.Fprintf(w, "\nMEASURED\tFABRIC\tBARE WIREGUARD\t\n")
	fmt.Fprintf(w, "round trip, median of %d\t%.3f ms\t%.3f ms\t\n", r.Pings, r.RTT, r.BareRTT)
	fmt.Fprintf(w, "TCP, median of %d runs\t%.0f Mbit/s\t%.0f Mbit/s\t%.2f of bare\n", r.Runs, r.Throughput, r.BareThroughput, r.Ratio)
	_ = w.Flush()
	fmt.Fprintf(d.out, "\n%d of %d pairs, %d with the right source; %d transfers of %d bytes verified; %.0f s in all; %s\n",
		r.PairsOK, r.PairsTested, r.SourcesOK, r.TransfersVerified, r.TransferBytes, r.Seconds, d.lab.Out("demo.json"))
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

// verdict says what was promised and not met.
func (d *demo) verdict() error {
	r := d.report
	const look = "see `weftctl status` and the agents' counters (port 9813, /metrics)"
	var unmet []error
	unless := func(ok bool, format string, args ...any) {
		if !ok {
			unmet = append(unmet, fmt.Errorf(format, args...))
		}
	}
	unless(r.PairsTested >= 2*d.nodes*d.nodes, "%d pairs were tried, %d expected", r.PairsTested, 2*d.nodes*d.nodes)
	unless(r.PairsOK == r.PairsTested, "%d of %d pairs failed; %s", r.PairsTested-r.PairsOK, r.PairsTested, look)
	unless(r.SourcesOK == r.PairsTested, "%d of %d pairs were seen from a wrong source; %s", r.PairsTested-r.SourcesOK, r.PairsTested, look)
	unless(r.TransfersVerified == 2, "%d of 2 transfers were verified", r.TransfersVerified)
	unless(r.Ratio >= d.leastRatio, "throughput is %.2f of bare WireGuard's, at least %.2f expected; run it on an idle machine, then profile weft-wireguard", r.Ratio, d.leastRatio)
	return errors.Join(unmet...)
}
