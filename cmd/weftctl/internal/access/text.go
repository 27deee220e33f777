package access

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
)

// Text writes the listing for people.
func (l Listing) Text(w io.Writer) {
	if len(l.Clusters) == 0 {
		fmt.Fprintf(w, "%s knows no other cluster, so none may do anything here.\n", l.ClusterID)
	}
	for i, c := range l.Clusters {
		if i > 0 {
			fmt.Fprintln(w)
		}
		c.text(w, l.ClusterID)
	}
}

func (c Cluster) text(w io.Writer, own v1alpha1.ClusterID) {
	fmt.Fprintf(w, "%s: %s\n", c.Name, c.describe())
	line := func(what, clause string) { fmt.Fprintf(w, "  %-14s %s\n", what, clause) }
	line("identity", string(c.Identity))
	if c.AwaitingApproval {
		line("waits", fmt.Sprintf("for approval, before %s peers with it directly: weftctl access %s --accept", own, c.Name))
	}
	line("pods", peering.PodsGrant(c.Name, own, c.Pods))
	export, imports := peering.ServicesGrant(c.Name, own, c.Services)
	line("exports", export)
	line("imports", imports)
	line("transit", c.transit(own))
	line("hub", peering.HubGrant(c.Name, own, c.UseAsHub))
	line("introductions", peering.IntroductionsGrant(c.Name, own, c.Introductions))
	line("introduced", peering.IntroducedGrant(c.Name, own, c.Introduced))
	if c.Introduces != "" {
		line("introduces", c.Introduces)
	}
	for _, standing := range c.Standing {
		line("introduced by", describeStanding(standing))
	}
}

func (c Cluster) transit(own v1alpha1.ClusterID) string {
	clause := fmt.Sprintf("%s exchanges no traffic with others through %s", c.Name, own)
	if len(c.Transit.With) > 0 {
		clause = peering.TransitGrant(c.Name, own, c.Transit.With)
	}
	if len(c.Transit.Idle) > 0 {
		clause += fmt.Sprintf("; without effect, since %s does not peer with them directly: %s", own, strings.Join(c.Transit.Idle, ", "))
	}
	return clause
}

// describe says who the cluster is and why there is an object of it.
func (c Cluster) describe() string {
	id := "its cluster ID is not known yet"
	if c.ClusterID != "" {
		id = "cluster ID " + string(c.ClusterID)
	}
	return id + ", " + c.Origin.String()
}

// String says who made the object.
func (o Origin) String() string {
	var whys []string
	if len(o.ReachedThrough) > 0 {
		whys = append(whys, "it is reached through "+strings.Join(o.ReachedThrough, ", "))
	}
	if len(o.IntroducedBy) > 0 {
		whys = append(whys, "it was introduced by "+strings.Join(o.IntroducedBy, ", "))
	}
	if len(whys) == 0 {
		return "made by an admin"
	}
	return "made by weft-controller since " + strings.Join(whys, " and ")
}

func describeStanding(s v1alpha1.IntroductionStatus) string {
	state := map[v1alpha1.IntroductionState]string{
		v1alpha1.IntroductionAccepted:         "accepted",
		v1alpha1.IntroductionAwaitingApproval: "waits for approval",
		v1alpha1.IntroductionEnding:           "ending",
	}[s.State]
	if state == "" {
		state = string(s.State)
	}
	text := fmt.Sprintf("%s, connection %s, mode %s: %s", s.Introducer, s.Connection, s.Mode, state)
	if s.Expires != nil {
		text += ", until " + s.Expires.UTC().Format(time.RFC3339) + " unless it is renewed"
	}
	return text
}

// Text writes for people what was accepted.
func (a Accepted) Text(w io.Writer) {
	switch {
	case a.Changed:
		fmt.Fprintf(w, "%s (identity %s) is accepted; `weftctl status` says when the direct link is up.\n", a.Name, a.Identity)
	case len(a.IntroducedBy) > 0:
		fmt.Fprintf(w, "%s is accepted already.\n", a.Name)
	default:
		fmt.Fprintf(w, "%s waits for no approval: nobody has introduced it.\n", a.Name)
	}
}
