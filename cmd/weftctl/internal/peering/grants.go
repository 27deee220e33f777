package peering

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// EveryNeighbor stands for all in a list of transit neighbors.
const EveryNeighbor = "*"

// Grants are what the other cluster shall be allowed to do. A field that is not
// said leaves alone what is granted already.
type Grants struct {
	Pods v1alpha1.PodAccess // empty: not said
	// Transit neighbors by local name; nil: not said, empty: none.
	Transit       []string
	UseAsHub      *bool
	Introductions v1alpha1.IntroductionPolicy // empty: not said
	Introduced    v1alpha1.PodAccess          // empty: not said
	// ExportServices to the other cluster and ImportServices from it; empty: not
	// said. Selected goes with namespaces.
	ExportServices, ImportServices     v1alpha1.ServicePolicy
	ExportNamespaces, ImportNamespaces []string
}

// Any reports whether anything is said.
func (g Grants) Any() bool { return len(g.patch()) > 0 }

// fresh is what a new peer may do unless it is said otherwise.
func fresh() v1alpha1.AccessSpec {
	return v1alpha1.AccessSpec{
		Pods: v1alpha1.PodAccessAll, Introductions: v1alpha1.IntroductionDeny, Introduced: v1alpha1.PodAccessNone,
		Services: v1alpha1.ServicesSpec{Export: v1alpha1.ServicesAll, Import: v1alpha1.ServicesAll},
	}
}

// Over returns the access with what is said put over it. A field that an object
// leaves out means the least.
func (g Grants) Over(access v1alpha1.AccessSpec) v1alpha1.AccessSpec {
	access.Pods = cmp.Or(g.Pods, access.Pods, v1alpha1.PodAccessNone)
	access.Introductions = cmp.Or(g.Introductions, access.Introductions, v1alpha1.IntroductionDeny)
	access.Introduced = cmp.Or(g.Introduced, access.Introduced, v1alpha1.PodAccessNone)
	access.Services.Export = cmp.Or(g.ExportServices, access.Services.Export, v1alpha1.ServicesNone)
	access.Services.Import = cmp.Or(g.ImportServices, access.Services.Import, v1alpha1.ServicesNone)
	if g.ExportServices != "" {
		access.Services.ExportNamespaces = append([]string(nil), g.ExportNamespaces...)
	}
	if g.ImportServices != "" {
		access.Services.ImportNamespaces = append([]string(nil), g.ImportNamespaces...)
	}
	if g.Transit != nil {
		access.Transit.Neighbors = append([]string(nil), g.Transit...) // nil if none
	}
	if g.UseAsHub != nil {
		access.Transit.UseAsHub = *g.UseAsHub
	}
	return access
}

// everything says all of the access, so that nothing is as it was.
func everything(access v1alpha1.AccessSpec) Grants {
	return Grants{
		Pods: access.Pods, Transit: append([]string{}, access.Transit.Neighbors...), UseAsHub: &access.Transit.UseAsHub,
		Introductions: access.Introductions, Introduced: access.Introduced,
		ExportServices: access.Services.Export, ImportServices: access.Services.Import,
		ExportNamespaces: access.Services.ExportNamespaces, ImportNamespaces: access.Services.ImportNamespaces,
	}
}

// patch is the JSON merge patch (RFC 7386) of spec.access that makes it so, and
// nothing else. A list is replaced as a whole, so what is not named is revoked,
// whoever granted it.
func (g Grants) patch() map[string]any {
	access, transit, services := map[string]any{}, map[string]any{}, map[string]any{}
	if g.Pods != "" {
		access["pods"] = g.Pods
	}
	if g.Introductions != "" {
		access["introductions"] = g.Introductions
	}
	if g.Introduced != "" {
		access["introduced"] = g.Introduced
	}
	// Null removes namespaces that belong to a policy that is not there any more.
	if g.ExportServices != "" {
		services["export"], services["exportNamespaces"] = g.ExportServices, append([]string(nil), g.ExportNamespaces...)
	}
	if g.ImportServices != "" {
		services["import"], services["importNamespaces"] = g.ImportServices, append([]string(nil), g.ImportNamespaces...)
	}
	if len(services) > 0 {
		access["services"] = services
	}
	if g.Transit != nil {
		transit["neighbors"] = append([]string(nil), g.Transit...) // null if none, which removes the list
	}
	if g.UseAsHub != nil {
		transit["useAsHub"] = *g.UseAsHub
	}
	if len(transit) > 0 {
		access["transit"] = transit
	}
	return access
}

// PodsGrant is the clause that says which flows the peer may open to cluster own.
func PodsGrant(peer string, own v1alpha1.ClusterID, access v1alpha1.PodAccess) string {
	if access == v1alpha1.PodAccessAll {
		return fmt.Sprintf("%s may open flows to all pods of %s", peer, own)
	}
	return fmt.Sprintf("%s may open no flows to %s, only answer those of %s", peer, own, own)
}

// ServicesGrant are the clauses that say which exported services the peer is told
// of, and which of its count in cluster own.
func ServicesGrant(peer string, own v1alpha1.ClusterID, services v1alpha1.ServicesSpec) (export, imports string) {
	switch services.Export {
	case v1alpha1.ServicesAll:
		export = fmt.Sprintf("%s is told of all services that %s exports", peer, own)
	case v1alpha1.ServicesSelected:
		export = fmt.Sprintf("%s is told of the services that %s exports in %s", peer, own, namespaces(services.ExportNamespaces))
	default:
		export = fmt.Sprintf("%s is told of no service of %s", peer, own)
	}
	switch services.Import {
	case v1alpha1.ServicesAll:
		imports = fmt.Sprintf("all services that %s exports are imported in %s", peer, own)
	case v1alpha1.ServicesSelected:
		imports = fmt.Sprintf("services that %s exports in %s are imported in %s", peer, namespaces(services.ImportNamespaces), own)
	default:
		imports = fmt.Sprintf("no service of %s is imported in %s", peer, own)
	}
	return export, imports
}

func namespaces(names []string) string {
	switch len(names) {
	case 0:
		return "no namespace"
	case 1:
		return "namespace " + names[0]
	}
	return "namespaces " + strings.Join(names, ", ")
}

// TransitGrant is the clause that says with whom the peer may exchange traffic
// through cluster own; neighbors is not empty.
func TransitGrant(peer string, own v1alpha1.ClusterID, neighbors []string) string {
	with := strings.Join(neighbors, ", ")
	if slices.Contains(neighbors, EveryNeighbor) {
		with = "every other peer of " + string(own)
	}
	return fmt.Sprintf("%s may exchange traffic with %s through %s", peer, with, own)
}

// HubGrant is the clause that says whether cluster own uses the peer as a hub.
func HubGrant(peer string, own v1alpha1.ClusterID, use bool) string {
	if use {
		return fmt.Sprintf("%s reaches other clusters through %s, which can read and forge what passes through it", own, peer)
	}
	return fmt.Sprintf("%s reaches no other cluster through %s", own, peer)
}

// IntroductionsGrant is the clause that says what becomes of clusters that the
// peer introduces.
func IntroductionsGrant(peer string, own v1alpha1.ClusterID, policy v1alpha1.IntroductionPolicy) string {
	switch policy {
	case v1alpha1.IntroductionAllow:
		return fmt.Sprintf("%s peers directly with the clusters that %s introduces", own, peer)
	case v1alpha1.IntroductionAsk:
		return fmt.Sprintf("%s peers directly with a cluster that %s introduces once it is accepted (`weftctl access NAME --accept`)", own, peer)
	}
	return fmt.Sprintf("%s refuses the clusters that %s introduces", own, peer)
}

// IntroducedGrant is the clause that says what clusters may do that are known
// through the peer alone.
func IntroducedGrant(peer string, own v1alpha1.ClusterID, access v1alpha1.PodAccess) string {
	if access == v1alpha1.PodAccessAll {
		return fmt.Sprintf("clusters that %s knows through %s alone may open flows to all pods of %s", own, peer, own)
	}
	return fmt.Sprintf("clusters that %s knows through %s alone may open no flows to %s", own, peer, own)
}

// Granted are the clauses that say what the peer may do. Beside pods, only what
// is granted is spoken of.
func Granted(o Outcome) []string {
	said := []string{PodsGrant(o.Peer, o.ClusterID, o.Granted.Pods)}
	export, imports := ServicesGrant(o.Peer, o.ClusterID, o.Granted.Services)
	if o.Granted.Services.Export != v1alpha1.ServicesNone {
		said = append(said, export)
	}
	if o.Granted.Services.Import != v1alpha1.ServicesNone {
		said = append(said, imports)
	}
	if neighbors := o.Granted.Transit.Neighbors; len(neighbors) > 0 {
		said = append(said, TransitGrant(o.Peer, o.ClusterID, neighbors))
	}
	if o.Granted.Transit.UseAsHub {
		said = append(said, HubGrant(o.Peer, o.ClusterID, true))
	}
	if policy := o.Granted.Introductions; policy == v1alpha1.IntroductionAllow || policy == v1alpha1.IntroductionAsk {
		said = append(said, IntroductionsGrant(o.Peer, o.ClusterID, policy))
	}
	if o.Granted.Introduced == v1alpha1.PodAccessAll {
		said = append(said, IntroducedGrant(o.Peer, o.ClusterID, o.Granted.Introduced))
	}
	return said
}
