package stream

import (
	"math/bits"
	"time"
)

// maxGaps bounds the list of gaps in a report.
const maxGaps = 32

// Received is what arrived of a flow.
type Received struct {
	Flow uint32 `json:"flow"`
	// Distinct numbers that arrived.
	Distinct   uint64 `json:"distinct"`
	Duplicated uint64 `json:"duplicated"`
	// Reordered packets arrived after one with a higher number.
	Reordered uint64 `json:"reordered"`
	// Highest number that arrived; -1 if none did.
	Highest int64 `json:"highest"`
	// MissingBelowHighest numbers; the sender's count tells of those above.
	MissingBelowHighest uint64 `json:"missingBelowHighest"`
	// Gaps are runs of missing numbers below Highest, the first 32 of them.
	Gaps []Gap `json:"gaps,omitempty"`
	// LongestSilenceMicroseconds between two arrivals, and when it ended.
	LongestSilenceMicroseconds int64     `json:"longestSilenceMicroseconds"`
	LongestSilenceEnd          time.Time `json:"longestSilenceEnd,omitzero"`
	First                      time.Time `json:"first,omitzero"`
	Last                       time.Time `json:"last,omitzero"`
	// SocketDropped datagrams of all flows that the receiving socket's buffer
	// had no room for: a loss of the receiver, not of the network.
	SocketDropped uint32 `json:"socketDropped"`
}

// Gap is a run of missing numbers, both ends included.
type Gap struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// account is the state of one flow: a bit per number that arrived.
type account struct {
	seen    []uint64
	report  Received
	highest int64
}

func newAccount(flow uint32) *account {
	return &account{report: Received{Flow: flow}, highest: -1}
}

// add counts packet number, which arrived at now.
func (a *account) add(number uint64, now time.Time) {
	if a.report.First.IsZero() {
		a.report.First = now
	} else if silence := now.Sub(a.report.Last).Microseconds(); silence > a.report.LongestSilenceMicroseconds {
		a.report.LongestSilenceMicroseconds, a.report.LongestSilenceEnd = silence, now
	}
	a.report.Last = now

	word, bit := number/64, uint64(1)<<(number%64)
	for uint64(len(a.seen)) <= word {
		a.seen = append(a.seen, 0)
	}
	if a.seen[word]&bit != 0 {
		a.report.Duplicated++
		return
	}
	a.seen[word] |= bit
	a.report.Distinct++
	if int64(number) < a.highest {
		a.report.Reordered++
	}
	a.highest = max(a.highest, int64(number))
}

// summary returns the report with its gaps.
func (a *account) summary() Received {
	out := a.report
	out.Highest = a.highest
	out.MissingBelowHighest = uint64(a.highest+1) - out.Distinct
	out.Gaps = a.gaps()
	return out
}

func (a *account) gaps() []Gap {
	var gaps []Gap
	open := false
	for number := uint64(0); int64(number) < a.highest && len(gaps) <= maxGaps; number++ {
		word := a.seen[number/64]
		if number%64 == 0 && bits.OnesCount64(word) == 64 {
			open = false
			number += 63
			continue
		}
		if word&(1<<(number%64)) != 0 {
			open = false
			continue
		}
		if !open {
			gaps = append(gaps, Gap{From: number, To: number})
			open = true
		}
		gaps[len(gaps)-1].To = number
	}
	return gaps[:min(len(gaps), maxGaps)]
}
