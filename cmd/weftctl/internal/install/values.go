// Package install puts Weft into a cluster and takes it out again.
package install

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Request is what the user asked for. Zero fields leave alone what the
// cluster's FabricConfig says already, or the chart's default.
type Request struct {
	ClusterID       string
	PodCIDRs        []string
	GatewaySelector map[string]string
	Exposure        string
	Endpoints       []string
	Image           string
	// ValuesFiles and Set are Helm values; Set wins over everything else.
	ValuesFiles []string
	Set         []string
}

var clusterIDPattern = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)

// Check says what is wrong with the request itself, before any cluster is asked.
func (r Request) Check() error {
	if r.ClusterID != "" && !clusterIDPattern.MatchString(r.ClusterID) {
		return badClusterID(r.ClusterID)
	}
	switch v1alpha1.Exposure(r.Exposure) {
	case "", v1alpha1.ExposureHostPort, v1alpha1.ExposureStatic, v1alpha1.ExposureNone:
		return nil
	}
	return fmt.Errorf("--exposure %s is not known: choose one of %s", r.Exposure, Exposures())
}

func badClusterID(id string) error {
	return fmt.Errorf("cluster ID %q must be 1 to 40 characters: a lower-case letter, then lower-case letters, digits and hyphens, not ending in a hyphen", id)
}

// Values returns the chart's values for the request, on top of what an
// earlier install or an editor left in existing (nil if there is none).
func Values(existing *v1alpha1.FabricConfigSpec, request Request) (map[string]any, error) {
	values := map[string]any{}
	if existing != nil {
		spec, err := toMap(existing)
		if err != nil {
			return nil, fmt.Errorf("read the existing FabricConfig: %w", err)
		}
		values["fabric"] = spec
	}
	for _, file := range request.ValuesFiles {
		loaded, err := readValues(file)
		if err != nil {
			return nil, err
		}
		values = chartutil.CoalesceTables(loaded, values)
	}
	if err := request.overlay(values); err != nil {
		return nil, err
	}
	for _, assignment := range request.Set {
		if err := strvals.ParseInto(assignment, values); err != nil {
			return nil, fmt.Errorf("read --set %s: %w; write KEY=VALUE, such as agent.logLevel=debug", assignment, err)
		}
	}
	return values, checkClusterID(existing, values)
}

// overlay puts the request's own flags into values.
func (r Request) overlay(values map[string]any) error {
	fabric, gateways := child(values, "fabric"), child(child(values, "fabric"), "gateways")
	if r.ClusterID != "" {
		fabric["clusterID"] = r.ClusterID
	}
	if len(r.PodCIDRs) > 0 {
		networks, err := podNetwork(fabric["networks"], r.PodCIDRs)
		if err != nil {
			return err
		}
		fabric["networks"] = networks
	}
	if len(r.GatewaySelector) > 0 {
		selector := map[string]any{}
		for key, value := range r.GatewaySelector {
			selector[key] = value
		}
		gateways["selector"] = selector
	}
	if len(r.Endpoints) > 0 {
		endpoints := make([]any, 0, len(r.Endpoints))
		for _, endpoint := range r.Endpoints {
			if err := identity.ValidateEndpoint(endpoint); err != nil {
				return fmt.Errorf("read --endpoint: %w; give an address or a host name that peers can reach, without port", err)
			}
			endpoints = append(endpoints, endpoint)
		}
		gateways["endpoints"] = endpoints
		gateways["exposure"] = string(v1alpha1.ExposureStatic)
	}
	if r.Exposure != "" {
		gateways["exposure"] = r.Exposure
	}
	if gateways["exposure"] == string(v1alpha1.ExposureStatic) && gateways["endpoints"] == nil {
		return fmt.Errorf("exposure Static publishes given addresses and there are none: add --endpoint ADDRESS")
	}
	if len(gateways) == 0 {
		delete(fabric, "gateways")
	}
	if r.Image != "" {
		child(values, "image")["reference"] = r.Image
	}
	return nil
}

// podNetwork replaces the network "pods" among the networks by the CIDRs.
func podNetwork(networks any, cidrs []string) ([]any, error) {
	list := make([]any, 0, len(cidrs))
	for _, text := range cidrs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix != prefix.Masked() {
			return nil, fmt.Errorf("--pod-cidr %s is not a CIDR without host bits: write it like 10.244.0.0/16", text)
		}
		list = append(list, text)
	}
	kept := []any{}
	previous, _ := networks.([]any)
	for _, entry := range previous {
		if network, ok := entry.(map[string]any); ok && network["name"] != v1alpha1.PodNetworkName {
			kept = append(kept, network)
		}
	}
	return append(kept, map[string]any{
		"name": v1alpha1.PodNetworkName, "kind": string(v1alpha1.NetworkPod), "cidrs": list,
	}), nil
}

func checkClusterID(existing *v1alpha1.FabricConfigSpec, values map[string]any) error {
	id, _ := child(values, "fabric")["clusterID"].(string)
	switch {
	case id == "":
		return fmt.Errorf("the cluster needs a name that its peers know it by: give --cluster-id ID")
	case !clusterIDPattern.MatchString(id):
		return badClusterID(id)
	case existing != nil && string(existing.ClusterID) != id:
		return fmt.Errorf("this cluster is %q already and peers know it as that: leave --cluster-id away, or run `weftctl uninstall` first to rename it to %q", existing.ClusterID, id)
	}
	return nil
}

func readValues(file string) (map[string]any, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read --values: %w", err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(data, &values); err != nil {
		return nil, fmt.Errorf("read --values %s: %w", file, err)
	}
	return values, nil
}

// child returns the map under key, which it makes if there is none.
func child(parent map[string]any, key string) map[string]any {
	if m, ok := parent[key].(map[string]any); ok {
		return m
	}
	m := map[string]any{}
	parent[key] = m
	return m
}

func toMap(v any) (map[string]any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	m := map[string]any{}
	return m, json.Unmarshal(data, &m)
}

// Exposures are the values of --exposure, for its help.
func Exposures() string {
	return strings.Join([]string{string(v1alpha1.ExposureHostPort), string(v1alpha1.ExposureStatic), string(v1alpha1.ExposureNone)}, ", ")
}
