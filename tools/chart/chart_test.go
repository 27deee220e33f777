package chart

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

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

// Every container is accounted for: the controller and weft-dns run without any
// privilege, and nobody may read Secrets beyond the two by name.
func TestRenderGrantsTheLeast(t *testing.T) {
	m, err := Render(nil, version)
	require.NoError(t, err)
	for _, name := range []string{"weft-controller", "weft-dns"} {
		deployment := deployment(t, m, name)
		pod := deployment.Spec.Template.Spec
		require.Equal(t, name, pod.ServiceAccountName)
		require.False(t, pod.HostNetwork)
		require.Empty(t, pod.Volumes)
		require.True(t, *pod.SecurityContext.RunAsNonRoot)
		security := pod.Containers[0].SecurityContext
		require.False(t, *security.AllowPrivilegeEscalation)
		require.True(t, *security.ReadOnlyRootFilesystem)
		require.Equal(t, []corev1.Capability{"ALL"}, security.Capabilities.Drop)
	}

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
	require.Len(t, policy.Spec.Validations, 2)
	require.Contains(t, policy.Spec.Validations[1].Expression, "kubernetes.io/service-name", "no endpoints for others' Services")
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	convert(t, find(t, m, "ValidatingAdmissionPolicyBinding", "weft-derived"), &binding)
	require.Equal(t, policy.Name, binding.Spec.PolicyName)
}

// weft-dns reads one kind and nothing else.
func TestRenderLetsDNSReadImportsAlone(t *testing.T) {
	m, err := Render(nil, version)
	require.NoError(t, err)
	var role rbacv1.ClusterRole
	convert(t, find(t, m, "ClusterRole", "weft-dns"), &role)
	require.Equal(t, []rbacv1.PolicyRule{{
		APIGroups: []string{"multicluster.x-k8s.io"}, Resources: []string{"serviceimports"}, Verbs: []string{"get", "list", "watch"},
	}}, role.Rules)
	bound := 0
	for _, object := range m.Objects {
		if !strings.HasSuffix(object.GetKind(), "RoleBinding") {
			continue
		}
		var binding rbacv1.ClusterRoleBinding // RoleBinding has the same fields
		convert(t, object, &binding)
		for _, subject := range binding.Subjects {
			if subject.Name == "weft-dns" {
				require.Equal(t, rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "weft-dns"}, binding.RoleRef)
				bound++
			}
		}
	}
	require.Equal(t, 1, bound)
}

// silence is the longest time until a probe has failed because nobody answers.
func silence(probe *corev1.Probe) time.Duration {
	failures, timeout := probe.FailureThreshold, probe.TimeoutSeconds
	if failures == 0 {
		failures = 3
	}
	if timeout == 0 {
		timeout = 1
	}
	return time.Duration(failures*max(probe.PeriodSeconds, timeout)+probe.PeriodSeconds) * time.Second
}

// The Service leads to the pods' ports, on both transports; the pods may share a
// node but prefer not to, and have the time that they take to end.
func TestRenderServesDNS(t *testing.T) {
	m, err := Render(nil, version)
	require.NoError(t, err)
	dns := deployment(t, m, "weft-dns")
	require.EqualValues(t, 2, *dns.Spec.Replicas)
	pod := dns.Spec.Template.Spec
	require.Equal(t, corev1.DNSClusterFirst, pod.DNSPolicy)
	require.GreaterOrEqual(t, *pod.TerminationGracePeriodSeconds, int64(10))
	require.Equal(t, corev1.ScheduleAnyway, pod.TopologySpreadConstraints[0].WhenUnsatisfiable)
	require.Equal(t, dns.Spec.Selector, pod.TopologySpreadConstraints[0].LabelSelector)
	container := pod.Containers[0]
	require.Equal(t, "/usr/local/bin/weft-dns", container.Command[0])
	ports := map[string]corev1.ContainerPort{}
	for _, port := range container.Ports {
		ports[port.Name] = port
	}
	for path, probe := range map[string]*corev1.Probe{"/readyz": container.ReadinessProbe, "/healthz": container.LivenessProbe} {
		require.Equal(t, path, probe.HTTPGet.Path)
		require.EqualValues(t, 8081, ports[probe.HTTPGet.Port.String()].ContainerPort)
	}
	require.LessOrEqual(t, silence(container.ReadinessProbe), 4*time.Second, "until a hung one is asked no more")
	require.LessOrEqual(t, silence(container.LivenessProbe), 25*time.Second, "until a hung one is restarted")
	require.EqualValues(t, 1, *container.LivenessProbe.TerminationGracePeriodSeconds)

	var service corev1.Service
	convert(t, find(t, m, "Service", "weft-dns"), &service)
	require.Equal(t, dns.Spec.Selector.MatchLabels, service.Spec.Selector)
	require.Empty(t, service.Spec.ClusterIP, "the cluster chooses it")
	var protocols []corev1.Protocol
	for _, port := range service.Spec.Ports {
		require.EqualValues(t, 53, port.Port)
		require.Equal(t, ports[port.Name].ContainerPort, port.TargetPort.IntVal)
		require.Equal(t, ports[port.Name].Protocol, port.Protocol)
		protocols = append(protocols, port.Protocol)
	}
	require.ElementsMatch(t, []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP}, protocols)

	m, err = Render(map[string]any{"dns": map[string]any{"replicas": int64(1), "logLevel": "debug"}}, version)
	require.NoError(t, err)
	dns = deployment(t, m, "weft-dns")
	require.EqualValues(t, 1, *dns.Spec.Replicas)
	require.Contains(t, dns.Spec.Template.Spec.Containers[0].Command, "--log-level=debug")
	_, err = Render(map[string]any{"dns": map[string]any{"replicas": int64(0)}}, version)
	require.ErrorContains(t, err, "replicas")
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

func deployment(t *testing.T, m Manifests, name string) appsv1.Deployment {
	t.Helper()
	var d appsv1.Deployment
	convert(t, find(t, m, "Deployment", name), &d)
	return d
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
