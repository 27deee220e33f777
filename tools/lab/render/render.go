// Package render turns the plan of a lab into configuration files, manifests
// and command lines. It reads and writes nothing.
package render

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"net/netip"
	"text/template"

	"github.com/weft-fabric/weft/tools/lab/layout"
)

// Names of the images that the lab makes itself.
const (
	PauseImage   = "weft.dev/lab-pause:dev"
	CoreDNSImage = "weft.dev/lab-coredns:dev"
)

//go:embed files
var files embed.FS

// file fills in one of the embedded templates.
func file(name string, data any) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").ParseFS(files, "files/"+name)
	if err != nil {
		return nil, fmt.Errorf("read template %s: %w", name, err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("fill in template %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// Node is what the files of one node depend on.
type Node struct {
	Cluster   layout.Cluster
	Node      layout.Node
	ProxyMode string
	PKI       string // folder that holds ca.crt
	Folder    string // the node's folder
	MTU       int
}

func (n Node) PauseImage() string     { return PauseImage }
func (n Node) DNSAddress() netip.Addr { return n.Cluster.ServiceAddress(10) }
func (n Node) ResolvConf() string     { return n.Folder + "/resolv.conf" }
func (n Node) Kubeconfig() string     { return n.Folder + "/kube-proxy.kubeconfig" }

// File is a file to be written into the node's folder.
type File struct {
	Name string
	Data []byte
}

// Files renders the node's configuration files. CNI configuration goes into
// etc/, which is the upper layer of the node's /etc.
func (n Node) Files() ([]File, error) {
	list := []File{
		// No server: the lab resolves cluster names only.
		{Name: "resolv.conf", Data: []byte("search cluster.local\n")},
		{Name: "etc/hostname", Data: []byte(n.Node.Name + "\n")},
		{Name: "etc/hosts", Data: fmt.Appendf(nil, "127.0.0.1 localhost\n::1 localhost\n%s %s\n", n.Node.Address, n.Node.Name)},
		// Debian's configuration file has many defaults of its own.
		{Name: "etc/containerd/config.toml"}, {Name: "kubelet.yaml"}, {Name: "kube-proxy.yaml"},
		{Name: "etc/cni/net.d/10-lab.conflist"}, {Name: "masquerade.nft"},
	}
	templates := map[string]string{
		"etc/containerd/config.toml": "containerd.toml", "kubelet.yaml": "kubelet.yaml", "kube-proxy.yaml": "kube-proxy.yaml",
		"etc/cni/net.d/10-lab.conflist": "cni.json", "masquerade.nft": "masquerade.nft",
	}
	for i := range list {
		if name := templates[list[i].Name]; name != "" {
			data, err := file(name, n)
			if err != nil {
				return nil, err
			}
			list[i].Data = data
		}
	}
	return list, nil
}

// NAT renders the nftables rules of a router whose cluster sits behind a source NAT.
func NAT(c layout.Cluster) ([]byte, error) { return file("nat.nft", c) }

// Manifests is what every cluster holds after its start.
type Manifests struct {
	Cluster layout.Cluster
	Version string // of Kubernetes
}

func (m Manifests) Nodes() []layout.Node   { return m.Cluster.NodeList() }
func (m Manifests) DNSAddress() netip.Addr { return m.Cluster.ServiceAddress(10) }
func (m Manifests) CoreDNSImage() string   { return CoreDNSImage }

// Render returns YAML documents.
func (m Manifests) Render() ([]byte, error) { return file("manifests.yaml", m) }

// Kubeconfig describes one user's access to one cluster.
type Kubeconfig struct {
	Name, Server, User  string
	CAPEM, CertPEM, Key []byte
}

// Render returns the file.
func (k Kubeconfig) Render() ([]byte, error) {
	encode := base64.StdEncoding.EncodeToString
	return file("kubeconfig.yaml", map[string]string{
		"Name": k.Name, "Server": k.Server, "User": k.User,
		"CA": encode(k.CAPEM), "Cert": encode(k.CertPEM), "Key": encode(k.Key),
	})
}
