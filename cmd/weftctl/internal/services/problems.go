package services

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/report"
)

// Reasons of weft-controller's own, beside the standard ones
// (package controlplane/services).
const (
	reasonInvalidPorts         = "InvalidPorts"
	reasonHeadlessNotSupported = "HeadlessNotSupported"
	reasonFamilyNotSupported   = "IPFamilyNotSupported"
	reasonHostNetwork          = "HostNetworkNotSupported"
	reasonNotOurs              = "NotManagedByWeft"
	reasonNamespaceMissing     = "NamespaceMissing"
	reasonServicesRefused      = "Refused"
)

// problems lists what is wrong, causes before consequences.
func problems(in Input, r Report) []report.Problem {
	found := []report.Problem{}
	if !in.Served {
		return append(found, report.Problem{
			Object: "API " + mcsv1beta1.GroupVersion.String(), What: "the API server does not serve it, so no service is shared between clusters",
			Do: "weftctl install; if something else has installed these CRDs, upgrade them to a release that serves this version",
		})
	}
	for i := range in.Clusters {
		found = append(found, clusterProblems(&in.Clusters[i], r)...)
	}
	for i := range in.Exports {
		found = append(found, exportProblems(&in.Exports[i], in.Clusters)...)
	}
	for i := range in.Imports {
		at := slices.IndexFunc(r.Services, func(s Service) bool { return s.Namespace == in.Imports[i].Namespace && s.Name == in.Imports[i].Name })
		if problem, ok := importProblem(&in.Imports[i], &r.Services[at]); ok {
			found = append(found, problem)
		}
	}
	return found
}

// clusterProblems tells once of a cluster what is so of all its services.
func clusterProblems(fcl *v1alpha1.ForeignCluster, r Report) []report.Problem {
	var found []report.Problem
	object, services, withheld := "cluster "+fcl.Name, 0, 0
	for _, s := range r.Services {
		for _, c := range s.Clusters {
			if c.Identity == fcl.Spec.Identity && c.Reachable == NotReached && c.Withheld > 0 {
				services++
				withheld += c.Withheld
			}
		}
	}
	if services > 0 {
		found = append(found, report.Problem{
			Object: object, What: fmt.Sprintf("it is not reached, so its %d endpoints are left out of %d services until it is", withheld, services), Do: "weftctl status",
		})
	}
	c := meta.FindStatusCondition(fcl.Status.Conditions, v1alpha1.ConditionServices)
	if c == nil || c.Status != metav1.ConditionFalse {
		return found
	}
	advice := logs()
	switch c.Reason {
	case reasonNamespaceMissing:
		advice = fmt.Sprintf("kubectl create namespace NAME; or say which namespaces count: weftctl access %s --import-services NAME,NAME", fcl.Name)
	case reasonServicesRefused:
		advice = "change these exports in " + fcl.Name + ", or upgrade Weft here if it is the newer one there"
	}
	return append(found, report.Problem{Object: object, What: c.Message, Do: advice})
}

func exportProblems(e *mcsv1beta1.ServiceExport, clusters []v1alpha1.ForeignCluster) []report.Problem {
	object := fmt.Sprintf("ServiceExport %s/%s", e.Namespace, e.Name)
	condition := func(kind mcsv1beta1.ServiceExportConditionType) *metav1.Condition {
		return meta.FindStatusCondition(e.Status.Conditions, string(kind))
	}
	valid, ready, conflict := condition(mcsv1beta1.ServiceExportConditionValid), condition(mcsv1beta1.ServiceExportConditionReady), condition(mcsv1beta1.ServiceExportConditionConflict)
	switch {
	case !e.DeletionTimestamp.IsZero():
		return nil
	case valid == nil:
		return []report.Problem{{Object: object, What: "weft-controller has not looked at it yet", Do: logs()}}
	case valid.Status != metav1.ConditionTrue:
		return []report.Problem{{Object: object, What: valid.Message, Do: exportAdvice(e, valid.Reason, clusters)}}
	}
	var found []report.Problem
	if ready != nil && ready.Status != metav1.ConditionTrue {
		found = append(found, report.Problem{Object: object, What: ready.Message, Do: exportAdvice(e, ready.Reason, clusters)})
	}
	if conflict != nil && conflict.Status == metav1.ConditionTrue {
		found = append(found, report.Problem{
			Object: object, What: "the clusters' exports differ, and the oldest counts: " + conflict.Message,
			Do: fmt.Sprintf("make Service %s/%s the same in all these clusters, or delete the ServiceExport where it is another service", e.Namespace, e.Name),
		})
	}
	return found
}

// exportAdvice for a reason of the conditions Valid and Ready.
func exportAdvice(e *mcsv1beta1.ServiceExport, reason string, clusters []v1alpha1.ForeignCluster) string {
	withdraw := fmt.Sprintf("kubectl -n %s delete serviceexport %s", e.Namespace, e.Name)
	switch reason {
	case string(mcsv1beta1.ServiceExportReasonNoService):
		return fmt.Sprintf("create Service %s/%s; or %s", e.Namespace, e.Name, withdraw)
	case string(mcsv1beta1.ServiceExportReasonInvalidServiceType):
		return "export the Service that has the endpoints; and " + withdraw
	case reasonInvalidPorts, reasonHeadlessNotSupported, reasonFamilyNotSupported:
		return fmt.Sprintf("change the Service: kubectl -n %s edit service %s; or %s", e.Namespace, e.Name, withdraw)
	case reasonHostNetwork:
		return "run the Service's pods without hostNetwork; or " + withdraw
	case string(mcsv1beta1.ServiceExportReasonPending):
		if len(clusters) == 0 {
			return "join another cluster: weftctl peer"
		}
		return "weftctl access PEER --export-services All, or name its namespace there"
	case string(mcsv1beta1.ServiceExportReasonFailed):
		return "export less, or see that the peer runs the same release"
	}
	return logs()
}

// importProblem of what Weft made; another implementation's is its own.
func importProblem(i *mcsv1beta1.ServiceImport, s *Service) (report.Problem, bool) {
	object := fmt.Sprintf("ServiceImport %s/%s", i.Namespace, i.Name)
	if !s.Import.ByWeft {
		what := "another program made it, so Weft leaves it alone"
		return report.Problem{Object: object, What: what, Do: fmt.Sprintf("if that program is gone: kubectl -n %s delete serviceimport %s", i.Namespace, i.Name)}, s.Export != nil
	}
	ready := meta.FindStatusCondition(i.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady))
	switch {
	case !i.DeletionTimestamp.IsZero():
		return report.Problem{}, false
	case ready == nil:
		return report.Problem{Object: object, What: "weft-controller has not completed it yet", Do: logs()}, true
	case ready.Status != metav1.ConditionTrue:
		return report.Problem{Object: object, What: ready.Message, Do: importAdvice(i, ready.Reason)}, true
	}
	return withoutEndpoints(object, i, s)
}

func importAdvice(i *mcsv1beta1.ServiceImport, reason string) string {
	switch reason {
	case reasonNotOurs:
		return fmt.Sprintf("kubectl -n %s delete service NAME, the one that it names", i.Namespace)
	case reasonHeadlessNotSupported:
		return "give the Service a cluster IP in the cluster that exports it"
	case string(mcsv1beta1.ServiceImportReasonPending):
		return fmt.Sprintf("if it stays so, the cluster may have no Service IPs left: kubectl -n %s get events", i.Namespace)
	}
	return logs()
}

// withoutEndpoints reports a service at which nobody answers. What is withheld is
// told of its cluster.
func withoutEndpoints(object string, i *mcsv1beta1.ServiceImport, s *Service) (report.Problem, bool) {
	var names []string
	for _, c := range s.Clusters {
		if c.Ready > 0 {
			return report.Problem{}, false
		}
		if c.Withheld == 0 {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return report.Problem{}, false
	}
	return report.Problem{
		Object: object, What: "no endpoint is ready in " + strings.Join(names, ", "),
		Do: fmt.Sprintf("see there whether its pods are ready, and whether their addresses lie in an exported network: kubectl -n %s get endpointslices,serviceexports; weftctl status services",
			i.Namespace),
	}, true
}

func logs() string {
	return fmt.Sprintf("kubectl -n %s logs deployment/weft-controller", v1alpha1.SystemNamespace)
}
