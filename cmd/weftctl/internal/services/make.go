package services

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns/corefile"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
)

// What weft-controller writes on its objects (package controlplane/services).
const (
	labelManagedBy      = "app.kubernetes.io/managed-by"
	managedByWeft       = "weft"
	labelSourceIdentity = "net.weft.dev/source-identity"
	annotationExport    = "net.weft.dev/export"
	reasonLinksDown     = "LinksDown"
)

// Make turns the input into a report. It is pure.
func Make(in Input) Report {
	r := Report{ClusterID: in.Config.Spec.ClusterID, Services: []Service{}, Peers: []Peer{}, DNS: in.DNS}
	services := map[types.NamespacedName]*Service{}
	at := func(object client.Object) *Service {
		name := client.ObjectKeyFromObject(object)
		if services[name] == nil {
			services[name] = &Service{Namespace: name.Namespace, Name: name.Name, Clusters: []Cluster{}}
		}
		return services[name]
	}
	for i := range in.Exports {
		at(&in.Exports[i]).Export = makeExport(&in.Exports[i])
	}
	for i := range in.Imports {
		s := at(&in.Imports[i])
		s.Import, s.Clusters = makeImport(&in.Imports[i]), in.clustersOf(&in.Imports[i])
	}
	for _, name := range slices.SortedFunc(maps.Keys(services), compareNames) {
		r.Services = append(r.Services, *services[name])
	}
	for i := range in.Clusters {
		fcl := &in.Clusters[i]
		r.Peers = append(r.Peers, Peer{
			Name: fcl.Name, Reachable: reachOf(fcl, false), Policy: peering.Grants{}.Over(fcl.Spec.Access).Services, Says: said(fcl),
		})
	}
	slices.SortFunc(r.Peers, func(a, b Peer) int { return cmp.Compare(a.Name, b.Name) })
	r.Problems = problems(in, r)
	r.Healthy = len(r.Problems) == 0
	return r
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func makeExport(e *mcsv1beta1.ServiceExport) *Export {
	is := func(kind mcsv1beta1.ServiceExportConditionType) bool {
		return meta.IsStatusConditionTrue(e.Status.Conditions, string(kind))
	}
	out := &Export{
		Valid: is(mcsv1beta1.ServiceExportConditionValid), Ready: is(mcsv1beta1.ServiceExportConditionReady),
		Conflict: is(mcsv1beta1.ServiceExportConditionConflict),
	}
	if c := meta.FindStatusCondition(e.Status.Conditions, string(mcsv1beta1.ServiceExportConditionReady)); c != nil {
		out.Message = c.Message
	}
	return out
}

func makeImport(i *mcsv1beta1.ServiceImport) *Import {
	out := &Import{
		ByWeft: i.Labels[labelManagedBy] == managedByWeft,
		Ready:  meta.IsStatusConditionTrue(i.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady)),
		Host:   fmt.Sprintf("%s.%s.svc.%s", i.Name, i.Namespace, corefile.Zone),
		Type:   string(i.Spec.Type), IPs: append([]string{}, i.Spec.IPs...), Ports: []Port{},
	}
	for _, p := range i.Spec.Ports {
		out.Ports = append(out.Ports, Port{Name: p.Name, Protocol: p.Protocol, Port: p.Port})
	}
	return out
}

// clustersOf counts the endpoints of an import by the cluster that they are of.
func (in *Input) clustersOf(i *mcsv1beta1.ServiceImport) []Cluster {
	bySource := map[string][]*discoveryv1.EndpointSlice{}
	for _, status := range i.Status.Clusters {
		bySource[status.Cluster] = nil
	}
	for n := range in.Slices {
		slice := &in.Slices[n]
		if slice.Namespace == i.Namespace && slice.Labels[mcsv1beta1.LabelServiceName] == i.Name {
			source := slice.Labels[mcsv1beta1.LabelSourceCluster]
			bySource[source] = append(bySource[source], slice)
		}
	}
	out := []Cluster{}
	for _, name := range slices.Sorted(maps.Keys(bySource)) {
		out = append(out, in.makeCluster(name, bySource[name]))
	}
	return out
}

// makeCluster counts an address once, however many ports it listens at.
func (in *Input) makeCluster(name string, list []*discoveryv1.EndpointSlice) Cluster {
	c := Cluster{Name: name, Reachable: Unmeasured}
	ready := map[string]bool{}
	withheld := map[string]bool{}
	for _, slice := range list {
		c.Identity = v1alpha1.Identity(slice.Labels[labelSourceIdentity])
		for _, e := range slice.Endpoints {
			for _, address := range e.Addresses {
				ready[address] = ready[address] || e.Conditions.Ready == nil || *e.Conditions.Ready
			}
		}
		noteWithheld(slice.Annotations[annotationExport], withheld)
	}
	c.Endpoints, c.Withheld = len(ready), len(withheld)
	for _, is := range ready {
		if is {
			c.Ready++
		}
	}
	c.Own = c.Identity == in.Config.Status.Identity && c.Identity != "" || c.Identity == "" && name == string(in.Config.Spec.ClusterID)
	if c.Own {
		c.Reachable = Reached
	}
	for i := range in.Clusters {
		if fcl := &in.Clusters[i]; !c.Own && (c.Identity == fcl.Spec.Identity || c.Identity == "" && name == fcl.Name) {
			c.Reachable = reachOf(fcl, c.Withheld > 0)
		}
	}
	return c
}

// noteWithheld adds the endpoints that weft-controller notes on a slice instead
// of in it.
func noteWithheld(export string, into map[string]bool) {
	var noted struct {
		Backends []struct {
			Endpoints []struct {
				Address string `json:"address"`
			} `json:"endpoints"`
		} `json:"backends"`
	}
	if export == "" || json.Unmarshal([]byte(export), &noted) != nil {
		return
	}
	for _, group := range noted.Backends {
		for _, e := range group.Endpoints {
			into[e.Address] = true
		}
	}
}

// reachOf reads it off a ForeignCluster. Endpoints that are withheld say as well
// that probes are not answered, until one is.
func reachOf(fcl *v1alpha1.ForeignCluster, withheld bool) Reach {
	c := meta.FindStatusCondition(fcl.Status.Conditions, v1alpha1.ConditionConnected)
	switch {
	case c != nil && c.Status == metav1.ConditionTrue:
		return Reached
	case withheld, c != nil && c.Status == metav1.ConditionFalse && (c.Reason == reasonLinksDown || c.Reason == v1alpha1.ReasonPeerLeft):
		return NotReached
	}
	return Unmeasured
}

func said(fcl *v1alpha1.ForeignCluster) string {
	if c := meta.FindStatusCondition(fcl.Status.Conditions, v1alpha1.ConditionServices); c != nil {
		return c.Message
	}
	return ""
}
