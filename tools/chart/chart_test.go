package chart

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const version = "v1.37.2"

func TestRenderOrdersObjectsForOneByOneApply(t *testing.T) {
	m, err := Render(map[string]any{"fabric": map[string]any{"clusterID": "a"}}, version)
	require.NoError(t, err)
	require.Len(t, m.CRDs, 8)
	for _, object := range m.Objects {
		require.GreaterOrEqual(t, rank(object.GetKind()), 0, "kind %s has no place in the install order", object.GetKind())
	}
	require.Equal(t, "Namespace", m.Objects[0].GetKind())
	require.Equal(t, "FabricConfig", m.Objects[len(m.Objects)-1].GetKind())
}

func TestRenderFillsFabricConfigWordForWord(t *testing.T) {
	spec := map[string]any{
		"clusterID": "a", "gateways": map[string]any{"exposure": "None", "selector": map[string]any{"edge": "true"}},
		"ports": map[string]any{"metrics": int64(9999)},
	}
	m, err := Render(map[string]any{"fabric": spec, "image": map[string]any{"reference": "registry.example/weft:1"}}, version)
	require.NoError(t, err)
	require.JSONEq(t, toJSON(t, spec), toJSON(t, find(t, m, "FabricConfig", "default").Object["spec"]))

	agent := daemonSet(t, m, "weft-agent")
	container := agent.Spec.Template.Spec.Containers[0]
	require.Equal(t, "registry.example/weft:1", container.Image)
	require.Equal(t, 9999, container.ReadinessProbe.HTTPGet.Port.IntValue(), "the probe follows the configured port")
	require.True(t, agent.Spec.Template.Spec.HostNetwork)
	require.Equal(t, appsv1.OnDeleteDaemonSetStrategyType, daemonSet(t, m, "weft-wireguard").Spec.UpdateStrategy.Type)
}

func TestRenderWithoutClusterIDMakesNoFabricConfig(t *testing.T) {
	m, err := Render(nil, version)
	require.NoError(t, err)
	for _, object := range m.Objects {
		require.NotEqual(t, "FabricConfig", object.GetKind())
	}
}

func TestRenderRefusesUnknownValuesAndOldClusters(t *testing.T) {
	_, err := Render(map[string]any{"agent": map[string]any{"loglevel": "debug"}}, version)
	require.ErrorContains(t, err, "loglevel")
	_, err = Render(nil, "v1.29.4")
	require.ErrorContains(t, err, "1.29.4")
	require.ErrorContains(t, err, "1.30")
}

// Every container is accounted for: the controller runs without any privilege,
// and nobody may read Secrets beyond the two by name.
func TestRenderGrantsTheLeast(t *testing.T) {
	m, err := Render(nil, version)
	require.NoError(t, err)
	var controller appsv1.Deployment
	convert(t, find(t, m, "Deployment", "weft-controller"), &controller)
	pod := controller.Spec.Template.Spec
	require.False(t, pod.HostNetwork)
	require.Empty(t, pod.Volumes)
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	security := pod.Containers[0].SecurityContext
	require.False(t, *security.AllowPrivilegeEscalation)
	require.True(t, *security.ReadOnlyRootFilesystem)
	require.Equal(t, []corev1.Capability{"ALL"}, security.Capabilities.Drop)

	named := map[string]bool{"weft-identity": true, "weft-overlay": true}
	for _, object := range m.Objects {
		if !strings.HasSuffix(object.GetKind(), "Role") {
			continue
		}
		var role rbacv1.ClusterRole // Role has the same rules
		convert(t, object, &role)
		for _, rule := range role.Rules {
			require.NotContains(t, rule.Verbs, "*")
			require.NotContains(t, rule.Resources, "*")
			checkSecretRule(t, object, rule, named)
		}
	}
}

// Of the controller's own kinds it may do what it does and no more. It makes
// ForeignClusters, so a policy keeps it off those of admins; connections are
// users' alone.
func TestRenderGrantsTheControllerItsKinds(t *testing.T) {
	m, err := Render(nil, version)
	require.NoError(t, err)
	var role rbacv1.ClusterRole
	convert(t, find(t, m, "ClusterRole", "weft-controller"), &role)
	verbs := map[string][]string{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			verbs[resource] = append(verbs[resource], rule.Verbs...)
		}
	}
	require.ElementsMatch(t, []string{"get", "list", "watch", "update", "patch", "create", "delete"}, verbs["foreignclusters"])
	require.ElementsMatch(t, []string{"get", "list", "watch", "update", "patch"}, verbs["foreignclusterconnections"])
	for _, resource := range []string{"foreignclusters/status", "foreignclusterconnections/status"} {
		require.ElementsMatch(t, []string{"get", "update", "patch"}, verbs[resource])
	}
	var agent rbacv1.ClusterRole
	convert(t, find(t, m, "ClusterRole", "weft-agent"), &agent)
	for _, rule := range agent.Rules {
		require.NotContains(t, rule.Resources, "foreignclusters")
		require.NotContains(t, rule.Resources, "foreignclusterconnections")
	}

	var policy admissionv1.ValidatingAdmissionPolicy
	convert(t, find(t, m, "ValidatingAdmissionPolicy", "weft-foreigncluster-maker"), &policy)
	require.Equal(t, admissionv1.Fail, *policy.Spec.FailurePolicy)
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	convert(t, find(t, m, "ValidatingAdmissionPolicyBinding", "weft-foreigncluster-maker"), &binding)
	require.Equal(t, policy.Name, binding.Spec.PolicyName)
	require.Equal(t, []admissionv1.ValidationAction{admissionv1.Deny}, binding.Spec.ValidationActions)
}

// The controller may write Services and EndpointSlices anywhere, because imports
// are in users' namespaces; a policy keeps it to those that it made.
func TestRenderKeepsTheControllerOffUsersServices(t *testing.T) {
	m, err := Render(nil, version)
	require.NoError(t, err)
	var policy admissionv1.ValidatingAdmissionPolicy
	convert(t, find(t, m, "ValidatingAdmissionPolicy", "weft-derived"), &policy)
	require.Equal(t, admissionv1.Fail, *policy.Spec.FailurePolicy)
	var covered []string
	for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
		require.ElementsMatch(t, []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete}, rule.Operations)
		covered = append(covered, rule.Resources...)
	}
	require.ElementsMatch(t, []string{"services", "endpointslices", "serviceimports"}, covered)
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	convert(t, find(t, m, "ValidatingAdmissionPolicyBinding", "weft-derived"), &binding)
	require.Equal(t, policy.Name, binding.Spec.PolicyName)
}

func checkSecretRule(t *testing.T, object *unstructured.Unstructured, rule rbacv1.PolicyRule, named map[string]bool) {
	t.Helper()
	for _, resource := range rule.Resources {
		if resource != "secrets" || (len(rule.Verbs) == 1 && rule.Verbs[0] == "create") {
			continue
		}
		require.Equal(t, "weft-system", object.GetNamespace())
		require.NotEmpty(t, rule.ResourceNames)
		for _, name := range rule.ResourceNames {
			require.True(t, named[name], "%s %s may read Secret %s", object.GetKind(), object.GetName(), name)
			require.False(t, object.GetName() == "weft-agent" && name == "weft-identity", "agents never see the identity key")
		}
	}
}

func find(t *testing.T, m Manifests, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range m.Objects {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	t.Fatalf("the chart renders no %s %s", kind, name)
	return nil
}

func daemonSet(t *testing.T, m Manifests, name string) appsv1.DaemonSet {
	t.Helper()
	var set appsv1.DaemonSet
	convert(t, find(t, m, "DaemonSet", name), &set)
	return set
}

func convert(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, object.GetKind() != "Role"))
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
