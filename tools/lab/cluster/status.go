package cluster

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/weft-fabric/weft/tools/lab/layout"
	"github.com/weft-fabric/weft/tools/lab/pki"
)

// Status prints what runs. It returns an error if anything does not.
func (l *Lab) Status(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	w := tabwriter.NewWriter(l.out, 0, 0, 2, ' ', 0)
	broken := 0
	fmt.Fprintln(w, "CLUSTER\tPOD CIDR\tSERVICE CIDR\tNAT\tAPI SERVER\tNODES READY")
	for _, c := range l.Spec.Clusters {
		state := l.clusterState(ctx, c)
		if state != fmt.Sprintf("%d of %d", c.Nodes, c.Nodes) {
			broken++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%t\thttps://127.0.0.1:%d\t%s\n", c.Name, c.PodCIDR, c.ServiceCIDR, c.NAT, c.ForwarderPort(), state)
	}
	fmt.Fprintln(w, "\nNODE\tADDRESS\tPOD CIDR\tNAMESPACE\tDAEMONS")
	for _, c := range l.Spec.Clusters {
		for _, n := range c.NodeList() {
			state, ok := l.nodeState(ctx, n)
			if !ok {
				broken++
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", n.Name, n.Address, n.PodCIDR, n.Namespace, state)
		}
	}
	if len(l.Spec.Links) > 0 {
		fmt.Fprintln(w, "\nLINK\tSTATE")
	}
	for _, name := range l.LinkNames() {
		fmt.Fprintf(w, "%s\t%s\n", name, l.Spec.Links[name])
	}
	_ = w.Flush()
	if broken > 0 {
		return fmt.Errorf("%d parts of the lab do not run; lab up repairs it, logs are below %s", broken, l.Folders.Root)
	}
	return nil
}

func (l *Lab) clusterState(ctx context.Context, c layout.Cluster) string {
	authority, err := pki.Open(l.Folders.PKI(c.Name))
	if err != nil {
		return err.Error()
	}
	client, err := l.client(c, authority)
	if err != nil {
		return "not started"
	}
	nodes, err := client.Nodes(ctx)
	if err != nil {
		return "API server does not answer"
	}
	ready := 0
	for _, n := range nodes {
		if n.Ready().Status == "True" {
			ready++
		}
	}
	return fmt.Sprintf("%d of %d", ready, c.Nodes)
}

// nodeState summarizes the daemons of a node.
func (l *Lab) nodeState(ctx context.Context, n layout.Node) (string, bool) {
	list, err := l.node(n.Name).List(ctx)
	if err != nil {
		return "node does not run", false
	}
	text, ok := "", true
	for _, d := range list {
		switch {
		case d.Stopped:
			text += d.Name + " stopped; "
			ok = false
		case d.PID == 0:
			text += fmt.Sprintf("%s ended (%s), log %s; ", d.Name, d.LastExit, d.Log)
			ok = false
		}
	}
	if ok {
		text = fmt.Sprintf("%d running", len(list))
	}
	return text, ok
}

// APIServer stops or starts a cluster's API server, for outage tests.
func (l *Lab) APIServer(ctx context.Context, cluster string, up bool) error {
	c, err := l.Spec.Find(cluster)
	if err != nil {
		return err
	}
	node := l.node(c.NodeList()[0].Name)
	if !up {
		return node.Stop(ctx, "kube-apiserver")
	}
	if err := node.Start(ctx, "kube-apiserver"); err != nil {
		return err
	}
	authority, err := pki.Open(l.Folders.PKI(c.Name))
	if err != nil {
		return err
	}
	client, err := l.client(c, authority)
	if err != nil {
		return err
	}
	if err := waitFor(ctx, apiServerTimeout, 200*time.Millisecond, client.Ready); err != nil {
		return fmt.Errorf("wait for the API server of cluster %s: %w", cluster, err)
	}
	return nil
}
