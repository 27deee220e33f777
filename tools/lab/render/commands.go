package render

import (
	"fmt"

	"github.com/weft-fabric/weft/tools/lab/layout"
	"github.com/weft-fabric/weft/tools/lab/supervise"
)

// Programs are the absolute paths of what a node runs.
type Programs struct{ Kube, Etcd, Containerd string }

// ControlPlane lists the daemons of the cluster's first node, in the order of their start.
func ControlPlane(c layout.Cluster, p Programs, pki, nodeFolder string) []supervise.Daemon {
	address := c.NodeList()[0].Address
	kubeconfig := func(component string) string { return "--kubeconfig=" + nodeFolder + "/" + component + ".kubeconfig" }
	return []supervise.Daemon{
		{Name: "etcd", Args: []string{p.Etcd,
			"--name=" + c.Name, "--data-dir=/var/lib/etcd",
			"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
			"--initial-cluster=" + c.Name + "=http://127.0.0.1:2380",
			"--auto-compaction-retention=30m", "--log-level=warn", "--logger=zap",
		}},
		{Name: "kube-apiserver", Args: []string{p.Kube, "kube-apiserver",
			"--advertise-address=" + address.String(), "--secure-port=6443",
			"--etcd-servers=http://127.0.0.1:2379",
			"--service-cluster-ip-range=" + c.ServiceCIDR.String(),
			"--tls-cert-file=" + pki + "/apiserver.crt", "--tls-private-key-file=" + pki + "/apiserver.key",
			"--client-ca-file=" + pki + "/ca.crt",
			"--kubelet-client-certificate=" + pki + "/apiserver-kubelet-client.crt",
			"--kubelet-client-key=" + pki + "/apiserver-kubelet-client.key",
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + pki + "/service-account.pub",
			"--service-account-signing-key-file=" + pki + "/service-account.key",
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true", "--profiling=false",
		}},
		{Name: "kube-controller-manager", Args: []string{p.Kube, "kube-controller-manager",
			kubeconfig("controller-manager"), "--bind-address=127.0.0.1", "--leader-elect=false",
			"--use-service-account-credentials=true", "--allocate-node-cidrs=false",
			"--cluster-cidr=" + c.PodCIDR.String(), "--service-cluster-ip-range=" + c.ServiceCIDR.String(),
			"--root-ca-file=" + pki + "/ca.crt",
			"--service-account-private-key-file=" + pki + "/service-account.key",
			"--cluster-signing-cert-file=" + pki + "/ca.crt", "--cluster-signing-key-file=" + pki + "/ca.key",
			"--profiling=false",
		}},
		{Name: "kube-scheduler", Args: []string{p.Kube, "kube-scheduler",
			kubeconfig("scheduler"), "--bind-address=127.0.0.1", "--leader-elect=false", "--profiling=false",
		}},
	}
}

// Containerd is the container runtime of a node.
func Containerd(p Programs) supervise.Daemon {
	return supervise.Daemon{Name: "containerd", Args: []string{p.Containerd, "--config=/etc/containerd/config.toml", "--log-level=info"}}
}

// NodeDaemons are the kubelet and kube-proxy of a node.
func NodeDaemons(n layout.Node, p Programs, nodeFolder string) []supervise.Daemon {
	return []supervise.Daemon{
		{Name: "kubelet", Args: []string{p.Kube, "kubelet",
			"--config=" + nodeFolder + "/kubelet.yaml", "--kubeconfig=" + nodeFolder + "/kubelet.kubeconfig",
			"--hostname-override=" + n.Name, "--node-ip=" + n.Address.String(),
			"--cert-dir=/var/lib/kubelet/pki", "--root-dir=/var/lib/kubelet", "--v=1",
		}},
		{Name: "kube-proxy", Args: []string{p.Kube, "kube-proxy",
			"--config=" + nodeFolder + "/kube-proxy.yaml",
		}},
	}
}

// Forwarder listens on loopback for the cluster's API server.
func Forwarder(c layout.Cluster, program string) supervise.Daemon {
	node := c.NodeList()[0]
	return supervise.Daemon{Name: "forward-" + c.Name, Args: []string{program, "forward",
		fmt.Sprintf("--listen=127.0.0.1:%d", c.ForwarderPort()),
		"--namespace=" + node.Namespace, fmt.Sprintf("--to=%s:6443", node.Address),
	}}
}

// WAN emulates the line between two clusters' routers.
func WAN(a, b layout.Cluster, link layout.Link, program string) supervise.Daemon {
	return supervise.Daemon{
		Name: layout.WANDaemon(layout.LinkName(a.Name, b.Name), link.Generation),
		Args: []string{program, "wan",
			"--namespace-a=" + a.RouterNamespace(), "--device-a=" + layout.TUNDevice(b.Name, link.Generation),
			"--namespace-b=" + b.RouterNamespace(), "--device-b=" + layout.TUNDevice(a.Name, link.Generation),
			fmt.Sprintf("--delay=%s", link.RTT/2),
		},
	}
}
