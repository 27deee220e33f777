package dns

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns/corefile"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
)

// Options of Enable and Disable.
type Options struct {
	// ConfigMap is "namespace/name" of CoreDNS's; empty: the one that is found.
	ConfigMap string
	// Force gives up what somebody has changed in Weft's block.
	Force bool
	// Wait bounds the wait for the cluster's DNS to answer for the zone; zero: none.
	Wait time.Duration
}

// Change is what was done.
type Change struct {
	ConfigMap string `json:"configMap"`
	// Server is the address of weft-dns that the block forwards to.
	Server netip.Addr `json:"server,omitzero"`
	// Changed: the Corefile was written.
	Changed bool `json:"changed"`
	// Answers: the cluster's DNS answers for the zone.
	Answers bool `json:"answers"`
	// Enabled tells what was asked for.
	Enabled bool `json:"enabled"`
}

// Enable writes the block and waits until the cluster's DNS answers.
func Enable(ctx context.Context, c client.Client, ask Asker, o Options, progress wait.Progress) (Change, error) {
	change := Change{Enabled: true}
	address, err := server(ctx, c)
	if err != nil {
		return change, err
	}
	change.Server = address
	written, err := edit(ctx, c, o.ConfigMap, func(m *corev1.ConfigMap, f *corefile.File) (string, error) {
		text, err := f.Enable(address, o.Force)
		if err == nil && text != m.Data[corefileKey] && m.Labels[addonMode] == "Reconcile" {
			return "", managedError(f, address)
		}
		return text, err
	})
	if err != nil {
		return change, err
	}
	change.ConfigMap, change.Changed = fullName(written.configMap), written.changed
	if written.changed {
		progress(fmt.Sprintf("%s forwards %s to %s", change.ConfigMap, corefile.Zone, address))
	}
	if o.Wait == 0 {
		return change, nil
	}
	change.Answers, err = true, awaitAnswers(ctx, c, ask, o.Wait, written, progress)
	return change, err
}

// Disable takes the block out.
func Disable(ctx context.Context, c client.Client, o Options) (Change, error) {
	written, err := edit(ctx, c, o.ConfigMap, func(_ *corev1.ConfigMap, f *corefile.File) (string, error) { return f.Disable(o.Force) })
	if err != nil {
		return Change{}, err
	}
	return Change{ConfigMap: fullName(written.configMap), Changed: written.changed}, nil
}

// edited is a ConfigMap after an edit.
type edited struct {
	configMap *corev1.ConfigMap
	file      *corefile.File
	changed   bool
}

// edit changes the Corefile, again on what is there by then if somebody else has
// written in between. What is as it should be is not written.
func edit(ctx context.Context, c client.Client, named string, change func(*corev1.ConfigMap, *corefile.File) (string, error)) (edited, error) {
	var e edited
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var err error
		if e.configMap, err = find(ctx, c, named); err != nil {
			return err
		}
		if e.file, err = corefile.Parse(e.configMap.Data[corefileKey]); err != nil {
			return inConfigMap(err, e.configMap)
		}
		text, err := change(e.configMap, e.file)
		if err != nil {
			return inConfigMap(err, e.configMap)
		}
		if e.changed = text != e.configMap.Data[corefileKey]; !e.changed {
			return nil
		}
		e.configMap.Data[corefileKey] = text
		err = c.Update(ctx, e.configMap, client.FieldOwner(kube.FieldManager))
		return kube.Explain(err, "write", "ConfigMap "+fullName(e.configMap))
	})
	return e, err
}

// inConfigMap says where the Corefile is that an error speaks of.
func inConfigMap(err error, m *corev1.ConfigMap) error {
	return fmt.Errorf("ConfigMap %s: %w", fullName(m), err)
}

// managedError says what to do where the provider of the cluster would take the
// block out again.
func managedError(f *corefile.File, address netip.Addr) error {
	block, err := f.Block(address)
	if err != nil {
		return err
	}
	return fmt.Errorf("the cluster's provider manages it (label %s=Reconcile) and would undo any change: add this block by the means that the provider has for server blocks of your own, "+
		"such as a key weft.server in ConfigMap coredns-custom, then run `weftctl dns check`:\n%s", addonMode, block)
}
