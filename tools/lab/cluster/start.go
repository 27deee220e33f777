package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/tools/lab/binaries"
	"github.com/weft-fabric/weft/tools/lab/kubeapi"
	"github.com/weft-fabric/weft/tools/lab/layout"
	"github.com/weft-fabric/weft/tools/lab/machine"
	"github.com/weft-fabric/weft/tools/lab/pki"
	"github.com/weft-fabric/weft/tools/lab/render"
)

// Bounds of a start, generous because machines may be busy.
const (
	apiServerTimeout = 3 * time.Minute
	nodesTimeout     = 3 * time.Minute
	dnsTimeout       = 2 * time.Minute
)

// startCluster brings one cluster to Ready nodes and an answering DNS.
func (l *Lab) startCluster(ctx context.Context, c layout.Cluster, set binaries.Set) error {
	programs := render.Programs{Kube: set.Kube}
	var err error
	if programs.Etcd, err = exec.LookPath("etcd"); err != nil {
		return err
	}
	if programs.Containerd, err = exec.LookPath("containerd"); err != nil {
		return err
	}
	authority, err := l.writeFiles(c)
	if err != nil {
		return err
	}
	nodes := c.NodeList()
	group, groupCtx := errgroup.WithContext(ctx)
	for _, n := range nodes {
		if err := l.startNode(ctx, n); err != nil {
			return err
		}
		if err := l.node(n.Name).Put(ctx, render.Containerd(programs)); err != nil {
			return err
		}
		group.Go(func() error { return l.ensureImages(groupCtx, n, set) })
	}
	group.Go(func() error { return l.startControlPlane(groupCtx, c, programs, set, authority) })
	if err := group.Wait(); err != nil {
		return err
	}
	for _, n := range nodes {
		for _, d := range render.NodeDaemons(n, programs, l.Folders.Node(n.Name)) {
			if err := l.node(n.Name).Put(ctx, d); err != nil {
				return err
			}
		}
	}
	return l.waitReady(ctx, c, authority)
}

// writeFiles writes certificates, kubeconfigs and configuration of the cluster.
func (l *Lab) writeFiles(c layout.Cluster) (*pki.Authority, error) {
	authority, err := pki.Open(l.Folders.PKI(c.Name))
	if err != nil {
		return nil, err
	}
	first := c.NodeList()[0]
	certificates := map[string]pki.Request{
		"apiserver": {User: "kube-apiserver",
			Names:     []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost", first.Name},
			Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1"), first.Address, c.ServiceAddress(1)}},
		"apiserver-kubelet-client": {User: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
		"admin":                    {User: "lab-admin", Groups: []string{"system:masters"}},
		"controller-manager":       {User: "system:kube-controller-manager"},
		"scheduler":                {User: "system:kube-scheduler"},
		"kube-proxy":               {User: "system:kube-proxy"},
	}
	for _, n := range c.NodeList() {
		certificates["kubelet-"+n.Name] = pki.Request{User: "system:node:" + n.Name, Groups: []string{"system:nodes"}}
	}
	for name, request := range certificates {
		if err := authority.Ensure(name, request); err != nil {
			return nil, err
		}
	}
	if err := authority.EnsureKeyPair("service-account"); err != nil {
		return nil, err
	}
	return authority, l.writeConfigs(c, authority)
}

func (l *Lab) writeConfigs(c layout.Cluster, authority *pki.Authority) error {
	loopback := fmt.Sprintf("https://127.0.0.1:%d", c.ForwarderPort())
	errs := []error{writeKubeconfig(authority, l.Folders.Kubeconfig(c.Name), c.Name, loopback, "admin")}
	for _, n := range c.NodeList() {
		for _, dir := range []string{"logs", "etc/containerd", "etc/cni/net.d"} {
			errs = append(errs, os.MkdirAll(l.Folders.NodeFile(n.Name, dir), 0o755))
		}
		kubeconfigs := map[string]string{"kubelet": "kubelet-" + n.Name, "kube-proxy": "kube-proxy"}
		if n.ControlPlane() {
			kubeconfigs["controller-manager"], kubeconfigs["scheduler"] = "controller-manager", "scheduler"
		}
		for file, certificate := range kubeconfigs {
			path := l.Folders.NodeFile(n.Name, file+".kubeconfig")
			errs = append(errs, writeKubeconfig(authority, path, c.Name, c.APIServerURL(), certificate))
		}
		files, err := render.Node{Cluster: c, Node: n, ProxyMode: l.Spec.ProxyMode, PKI: l.Folders.PKI(c.Name),
			Folder: l.Folders.Node(n.Name), MTU: machine.MTU}.Files()
		errs = append(errs, err)
		for _, f := range files {
			errs = append(errs, pki.WriteFile(l.Folders.NodeFile(n.Name, f.Name), f.Data, 0o644))
		}
	}
	return errors.Join(errs...)
}

func writeKubeconfig(authority *pki.Authority, path, cluster, server, certificate string) error {
	k := render.Kubeconfig{Name: cluster, Server: server, User: cluster + "-" + certificate}
	for file, data := range map[string]*[]byte{"ca.crt": &k.CAPEM, certificate + ".crt": &k.CertPEM, certificate + ".key": &k.Key} {
		var err error
		if *data, err = os.ReadFile(authority.Path(file)); err != nil {
			return fmt.Errorf("read certificates: %w", err)
		}
	}
	data, err := k.Render()
	if err != nil {
		return err
	}
	return pki.WriteFile(path, data, 0o600)
}

// startNode starts process 1 of a node, if it does not live.
func (l *Lab) startNode(ctx context.Context, n layout.Node) error {
	rules, err := os.ReadFile(l.Folders.NodeFile(n.Name, "masquerade.nft"))
	if err != nil {
		return fmt.Errorf("read rules of node %s: %w", n.Name, err)
	}
	if err := nft(n.Namespace, rules); err != nil {
		return err
	}
	if _, err := l.node(n.Name).List(ctx); err == nil {
		return nil
	}
	if err := l.spawn(n.Namespace, "node-launch", "--node="+n.Name, "--folder="+l.Folders.Node(n.Name)); err != nil {
		return err
	}
	if err := l.waitSupervisor(ctx, l.Folders.NodeSocket(n.Name), l.Folders.NodeLogs(n.Name)); err != nil {
		return fmt.Errorf("node %s: %w, also %s/spawn.log", n.Name, err, l.Folders.CoreLogs())
	}
	return nil
}

func (l *Lab) startControlPlane(ctx context.Context, c layout.Cluster, programs render.Programs, set binaries.Set, authority *pki.Authority) error {
	first := c.NodeList()[0]
	for _, d := range render.ControlPlane(c, programs, l.Folders.PKI(c.Name), l.Folders.Node(first.Name)) {
		if err := l.node(first.Name).Put(ctx, d); err != nil {
			return err
		}
	}
	if err := l.core().Put(ctx, render.Forwarder(c, l.Folders.Program())); err != nil {
		return err
	}
	client, err := l.client(c, authority)
	if err != nil {
		return err
	}
	if err := waitFor(ctx, apiServerTimeout, 200*time.Millisecond, client.Ready); err != nil {
		return fmt.Errorf("wait for the API server: %w; logs are %s and %s",
			err, filepath.Join(l.Folders.NodeLogs(first.Name), "kube-apiserver.log"), l.Folders.CoreLogs())
	}
	l.say("cluster %s: API server ready", c.Name)
	manifests, err := render.Manifests{Cluster: c, Version: set.Version.Git}.Render()
	if err != nil {
		return err
	}
	// Namespaces and priority classes appear a moment after the server is ready.
	return waitFor(ctx, time.Minute, 300*time.Millisecond, func(ctx context.Context) error { return client.Apply(ctx, manifests) })
}

func (l *Lab) client(c layout.Cluster, authority *pki.Authority) (*kubeapi.Client, error) {
	var files [3][]byte
	for i, name := range []string{"ca.crt", "admin.crt", "admin.key"} {
		var err error
		if files[i], err = os.ReadFile(authority.Path(name)); err != nil {
			return nil, fmt.Errorf("read certificates of cluster %s: %w", c.Name, err)
		}
	}
	return kubeapi.New(fmt.Sprintf("https://127.0.0.1:%d", c.ForwarderPort()), files[0], files[1], files[2])
}

func (l *Lab) waitReady(ctx context.Context, c layout.Cluster, authority *pki.Authority) error {
	client, err := l.client(c, authority)
	if err != nil {
		return err
	}
	err = waitFor(ctx, nodesTimeout, 300*time.Millisecond, func(ctx context.Context) error {
		nodes, err := client.Nodes(ctx)
		if err != nil {
			return err
		}
		return notReady(c, nodes)
	})
	if err != nil {
		return fmt.Errorf("wait for the nodes: %w; logs are %s/*/logs/{kubelet,containerd}.log", err, filepath.Join(l.Folders.Root, "nodes"))
	}
	l.say("cluster %s: %d nodes ready", c.Name, c.Nodes)
	err = waitFor(ctx, dnsTimeout, 300*time.Millisecond, func(ctx context.Context) error {
		available, err := client.DeploymentAvailable(ctx, "kube-system", "coredns")
		if err == nil && !available {
			err = errors.New("no replica is available")
		}
		if err != nil {
			return err
		}
		return resolve(ctx, c)
	})
	if err != nil {
		return fmt.Errorf("wait for CoreDNS: %w; look at: lab kubectl %s -n kube-system describe pods", err, c.Name)
	}
	l.say("cluster %s: CoreDNS answers", c.Name)
	return nil
}

// notReady names the nodes that are missing or not Ready.
func notReady(c layout.Cluster, nodes []kubeapi.Node) error {
	ready := map[string]bool{}
	messages := map[string]string{}
	for _, n := range nodes {
		condition := n.Ready()
		ready[n.Metadata.Name] = condition.Status == "True"
		messages[n.Metadata.Name] = condition.Message
	}
	var missing []string
	for _, n := range c.NodeList() {
		if !ready[n.Name] {
			missing = append(missing, fmt.Sprintf("%s (%s)", n.Name, messages[n.Name]))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("not ready: %s", strings.Join(missing, ", "))
	}
	return nil
}
