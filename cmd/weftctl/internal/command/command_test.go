package command

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/install"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/services"
)

func run(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = Run(context.Background(), args, &o, &e)
	return code, o.String(), e.String()
}

// A wrong command line ends with 2 and says what to write instead.
func TestWrongCommandLines(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"unknown command":    {[]string{"instal"}, "instal"},
		"unknown flag":       {[]string{"status", "--verbose"}, "weftctl status --help"},
		"unknown format":     {[]string{"status", "-o", "xml"}, "choose json or yaml"},
		"missing name":       {[]string{"unpeer"}, "the name of a ForeignCluster"},
		"argument too many":  {[]string{"install", "a"}, "takes no arguments"},
		"peer without peer":  {[]string{"peer"}, "--peer-kubeconfig"},
		"unknown access":     {[]string{"record", "--pods", "Some"}, "All or None"},
		"bad wait":           {[]string{"install", "--wait", "long"}, "--wait"},
		"bad selector":       {[]string{"install", "--gateway-selector", "edge"}, "edge"},
		"bad peer access":    {[]string{"peer", "--peer-context", "b", "--peer-pods", "x"}, "--peer-pods x"},
		"bad exposure":       {[]string{"install", "--exposure", "Open"}, "HostPort, Static, None"},
		"bad cluster ID":     {[]string{"install", "--cluster-id", "B"}, "1 to 40 characters"},
		"bad introductions":  {[]string{"peer", "--peer-context", "b", "--introductions", "x"}, "--introductions x is not known: choose Allow, Ask or Deny"},
		"accept whom":        {[]string{"access", "--accept"}, "of which cluster?"},
		"grant whom":         {[]string{"access", "--use-as-hub"}, "of which cluster?"},
		"accept and grant":   {[]string{"access", "b", "--accept", "--pods", "All"}, "--accept goes without other grants"},
		"access of two":      {[]string{"access", "a", "b"}, "at most one name"},
		"unpeer two at once": {[]string{"unpeer", "a", "b"}, "got 2 arguments"},
		"dns what":           {[]string{"dns", "enabel"}, "takes enable, disable or check"},
		"dns of what":        {[]string{"dns", "check", "--configmap", "coredns"}, "not NAMESPACE/NAME"},
		"dns wait":           {[]string{"dns", "enable", "--wait", "-1s"}, "less than nothing"},
		"status of what":     {[]string{"status", "servises"}, "takes no arguments"},
		"services of whom":   {[]string{"status", "services", "web"}, "takes no arguments"},
		"services of what":   {[]string{"access", "b", "--export-services", "Some"}, `"Some" is no namespace here`},
		"peer only of whom":  {[]string{"unpeer", "a", "--peer-only"}, "--peer-kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := run(c.args...)
			require.Equal(t, exitUsage, code, errOut)
			require.Empty(t, out)
			require.Contains(t, errOut, c.want)
		})
	}
}

// A cluster that cannot be reached is no mistake of the command line: 1, with
// the cause and what to check.
func TestUnreachableCluster(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	code, _, errOut := run("status", "--kubeconfig", missing)
	require.Equal(t, exitProblem, code)
	require.Contains(t, errOut, "no usable kubeconfig")

	dead := filepath.Join(t.TempDir(), "dead")
	config := "apiVersion: v1\nkind: Config\ncurrent-context: x\n" +
		"clusters: [{name: x, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: x, context: {cluster: x}}]\n"
	require.NoError(t, os.WriteFile(dead, []byte(config), 0o600))
	code, _, errOut = run("status", "--kubeconfig", dead)
	require.Equal(t, exitProblem, code)
	require.Contains(t, errOut, "https://127.0.0.1:1 does not answer")
	code, _, errOut = run("status", "--kubeconfig", dead, "--context", "y")
	require.Equal(t, exitProblem, code)
	require.Contains(t, errOut, "--context")
	env := &environment{}
	for _, path := range []string{missing, dead} {
		_, err := kube.Connect(t.Context(), env.otherAccess(kube.Access{Kubeconfig: path}))
		require.ErrorContains(t, err, "--peer-kubeconfig")
		require.ErrorContains(t, err, "--peer-context")
		require.NotContains(t, err.Error(), " --context")
	}
}

// The dry run prints YAML that holds every object and what the flags say.
func TestDryRunPrintsManifests(t *testing.T) {
	code, out, errOut := run("install", "--dry-run", "--cluster-id", "edge", "--exposure", "None", "--image", "registry.example/weft:1")
	require.Equal(t, exitOK, code, errOut)
	kinds := map[string]int{}
	for _, text := range bytes.Split([]byte(out), []byte("---\n"))[1:] {
		object := unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(text, &object.Object))
		kinds[object.GetKind()]++
		if object.GetKind() == "FabricConfig" {
			require.Equal(t, map[string]any{"clusterID": "edge", "gateways": map[string]any{"exposure": "None"}}, object.Object["spec"])
		}
	}
	require.Equal(t, 8, kinds["CustomResourceDefinition"])
	require.Equal(t, 2, kinds["DaemonSet"])
	require.Equal(t, 1, kinds["FabricConfig"])
	require.Contains(t, out, "registry.example/weft:1")
}

func TestChartIsWrittenAndNamed(t *testing.T) {
	folder := t.TempDir()
	code, out, errOut := run("chart", "--directory", folder, "-o", "json")
	require.Equal(t, exitOK, code, errOut)
	var result struct{ File string }
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.FileExists(t, result.File)

	code, out, errOut = run("version", "-o", "yaml")
	require.Equal(t, exitOK, code, errOut)
	require.Regexp(t, `^version: \d+\.\d+\.\d+\n$`, out)
}

// sweep removes what it is told to, leaves folders of others, and is content
// when there is nothing.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	state, shared, empty := filepath.Join(root, "weft"), filepath.Join(root, "shared"), filepath.Join(root, "empty")
	for _, folder := range []string{state, shared, empty} {
		require.NoError(t, os.Mkdir(folder, 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(state, "weft0.key"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(shared, "other.sock"), nil, 0o600))
	for range 2 {
		code, _, errOut := run("sweep", state, "--if-empty", shared, "--if-empty", empty)
		require.Equal(t, exitOK, code, errOut)
		require.NoDirExists(t, state)
		require.NoDirExists(t, empty)
		require.DirExists(t, shared)
	}
}

// An uninstall ends with what is left to do on the peers: a reinstall makes a
// new identity.
func TestUninstallEndsWithThePeers(t *testing.T) {
	for _, left := range []install.Leftovers{{}, {Nodes: []string{"n"}, Peers: []string{"b"}, Folders: []string{"/run/weft"}, DNS: "x", CRDs: []string{"y"}}} {
		var out bytes.Buffer
		printLeftovers(&out, left)
		require.Equal(t, left.DNS != "", strings.Contains(out.String(), "may still forward to weft-dns: x."))
		require.Equal(t, len(left.CRDs) > 0, strings.Contains(out.String(), "their CRD y with them;"))
		require.Regexp(t, "identity is gone with it: each former peer has to run `weftctl unpeer NAME`.*\\.\n$", out.String())
	}
}

// Peering ends with the next steps, said once for both sides.
func TestPeerEndsWithTheNextSteps(t *testing.T) {
	var out bytes.Buffer
	printPeered(&out, []peering.Outcome{{ClusterID: "berlin", Peer: "milan", Connected: true}, {ClusterID: "milan", Peer: "berlin", Connected: true}})
	require.Contains(t, out.String(), "berlin: milan is connected.\n")
	require.Regexp(t, "\n`weftctl status` .*, `weftctl access` .*\\.\n$", out.String())
	require.Equal(t, 1, strings.Count(out.String(), "`weftctl access`"))
}

// A service that is wrong is printed, and the exit code says so.
func TestStatusServices(t *testing.T) {
	scheme, err := kube.Scheme()
	require.NoError(t, err)
	config := &v1alpha1.FabricConfig{}
	config.Name = v1alpha1.FabricConfigName
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(config).Build()
	var out bytes.Buffer
	env := &environment{out: &out, err: &out, format: "json"}
	require.NoError(t, env.runStatusServices(t.Context(), c))

	export := &mcsv1beta1.ServiceExport{}
	export.Namespace, export.Name = "shop", "web"
	require.NoError(t, c.Create(t.Context(), export))
	out.Reset()
	require.ErrorIs(t, env.runStatusServices(t.Context(), c), errProblem)
	var made services.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &made))
	require.Equal(t, "web", made.Services[0].Name)
	require.Equal(t, "ServiceExport shop/web", made.Problems[0].Object)
}
