package services

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

// Input is what a report is made from.
type Input struct {
	Config v1alpha1.FabricConfig
	// Served: the API server knows the kinds of multi-cluster services.
	Served   bool
	Exports  []mcsv1beta1.ServiceExport
	Imports  []mcsv1beta1.ServiceImport
	Slices   []discoveryv1.EndpointSlice
	Clusters []v1alpha1.ForeignCluster
	DNS      dns.Standing
}

// Collect reads the input from the API server.
func Collect(ctx context.Context, c client.Reader) (Input, error) {
	var in Input
	config, err := kube.FabricConfig(ctx, c)
	if err != nil {
		return in, err
	}
	in.Config = *config
	var clusters v1alpha1.ForeignClusterList
	if err := c.List(ctx, &clusters); err != nil {
		return in, kube.Explain(err, "list", "ForeignClusters")
	}
	var slices discoveryv1.EndpointSliceList
	err = c.List(ctx, &slices, client.MatchingLabels{discoveryv1.LabelManagedBy: managedByWeft}, client.HasLabels{mcsv1beta1.LabelServiceName})
	if err != nil {
		return in, kube.Explain(err, "list", "EndpointSlices")
	}
	in.Clusters, in.Slices, in.DNS = clusters.Items, slices.Items, dns.Look(ctx, c)
	return in, in.collectKinds(ctx, c)
}

// collectKinds reads what there may be no CRDs of.
func (in *Input) collectKinds(ctx context.Context, c client.Reader) error {
	var exports mcsv1beta1.ServiceExportList
	var imports mcsv1beta1.ServiceImportList
	for _, read := range []struct {
		what string
		list client.ObjectList
	}{{"ServiceExports", &exports}, {"ServiceImports", &imports}} {
		err := c.List(ctx, read.list)
		if kube.Missing(err) {
			return nil
		}
		if err != nil {
			return kube.Explain(err, "list", read.what)
		}
	}
	in.Served, in.Exports, in.Imports = true, exports.Items, imports.Items
	return nil
}
