package introduction

import (
	"fmt"
	"time"

	apiidentity "github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// introducer is a cluster that may introduce others to this one.
type introducer struct {
	name      string
	identity  v1alpha1.Identity
	policy    v1alpha1.IntroductionPolicy
	connected bool
	// list is what it says now, nil: nothing since this process began.
	list []channel.Introduction
	// early: this process has not listened for long enough to miss it.
	early bool
}

// heard reports whether what the introducer says is of now.
func (i *introducer) heard() bool { return i.connected && i.list != nil }

// reference is how spec.introducedBy names an introduction.
func reference(introducer, connection string) string { return introducer + "/" + connection }

// decision is what becomes of one introduction.
type decision struct {
	from *introducer
	in   channel.Introduction
	// record of the introduced cluster, nil if it is not valid.
	record *apiidentity.Record
	// ask: an admin has to agree, unless somebody has already.
	ask bool
	// refusal is a state of a channel.Report, and message why; empty if it is
	// admitted.
	refusal, message string
}

// admit decides on an introduction by the introducer's policy.
func admit(from *introducer, in channel.Introduction, self v1alpha1.Identity, parse parser) decision {
	d := decision{from: from, in: in, ask: from.policy != v1alpha1.IntroductionAllow}
	record, err := parse(in.Record)
	switch {
	case err != nil:
		d.refusal, d.message = channel.ReportInvalidRecord, err.Error()
	case record.Identity() == self:
		d.refusal, d.message = channel.ReportInvalidRecord, "it is the record of the cluster that it was handed to"
	case record.Identity() == from.identity:
		d.refusal, d.message = channel.ReportInvalidRecord, "it is the record of the cluster that introduces"
	case from.policy != v1alpha1.IntroductionAllow && from.policy != v1alpha1.IntroductionAsk:
		d.refusal, d.message = channel.ReportDenied, fmt.Sprintf("access.introductions of ForeignCluster %s is Deny there: its admin can allow them (weftctl access %s --introductions Allow, or Ask)", from.name, from.name)
	}
	if d.refusal != channel.ReportInvalidRecord {
		d.record = record
	}
	return d
}

// withdrawn reports whether an introduction that stands has ended. Silence is
// no end, except of a lease.
func withdrawn(e *v1alpha1.IntroductionStatus, from *introducer, now time.Time) bool {
	switch {
	case from == nil:
		return true // unpeered
	case from.policy != v1alpha1.IntroductionAllow && from.policy != v1alpha1.IntroductionAsk:
		return true // revoked by the local admin
	case from.list != nil && !lists(from.list, e.UID):
		return true
	}
	return e.State != v1alpha1.IntroductionEnding && e.Expires != nil && !from.heard() && !from.early && !now.Before(e.Expires.Time)
}

func lists(list []channel.Introduction, uid string) bool {
	for i := range list {
		if list[i].UID == uid {
			return true
		}
	}
	return false
}

// parser reads and verifies a record.
type parser func(token string) (*apiidentity.Record, error)

// parsed remembers the records that were read, because signatures are dear.
type parsed struct{ last, now map[string]result }

type result struct {
	record *apiidentity.Record
	err    error
}

// turn begins another round: what it does not ask for is forgotten after it.
func (p *parsed) turn() { p.last, p.now = p.now, map[string]result{} }

func (p *parsed) parse(token string) (*apiidentity.Record, error) {
	r, known := p.now[token]
	if !known {
		if r, known = p.last[token]; !known {
			r.record, r.err = apiidentity.ParseRecord(token)
		}
		p.now[token] = r
	}
	return r.record, r.err
}
