package install

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
)

// withdrawLimit bounds the end of the connections: the controller gives the
// providers 20 s.
const withdrawLimit = 25 * time.Second

// withdrawAll deletes every ForeignClusterConnection while the providers can
// still be told. It returns those that had to be dropped by force.
func withdrawAll(ctx context.Context, c client.Client, force bool, progress wait.Progress) ([]string, error) {
	var list v1alpha1.ForeignClusterConnectionList
	if err := c.List(ctx, &list); kube.Missing(err) {
		return nil, nil
	} else if err != nil {
		return nil, kube.Explain(err, "list", "ForeignClusterConnections")
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	end := func(name string, progress wait.Progress) error { return withdraw(ctx, c, name, progress) }
	return endAll(names, force, progress, end, func(name string) error {
		connection := &v1alpha1.ForeignClusterConnection{}
		connection.Name = name
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := c.Patch(ctx, connection, patch); err != nil && !kube.Missing(err) {
			return kube.Explain(err, "drop the finalizer of", "ForeignClusterConnection "+name)
		}
		return nil
	})
}

// withdraw deletes a connection and waits until the controller has let it go.
func withdraw(ctx context.Context, c client.Client, name string, progress wait.Progress) error {
	connection := &v1alpha1.ForeignClusterConnection{}
	connection.Name = name
	if err := c.Delete(ctx, connection); err != nil && !kube.Missing(err) {
		return kube.Explain(err, "delete", "ForeignClusterConnection "+name)
	}
	err := wait.Until(ctx, withdrawLimit, progress, func(ctx context.Context) (string, error) {
		err := c.Get(ctx, client.ObjectKey{Name: name}, connection)
		if kube.Missing(err) {
			return "", nil
		}
		return "weft-controller withdraws connection " + name, kube.Explain(err, "read", "ForeignClusterConnection "+name)
	})
	timeout := &wait.TimeoutError{}
	if errors.As(err, &timeout) {
		return fmt.Errorf("ForeignClusterConnection %s is marked for deletion, but weft-controller has not released it in %s: see that it runs (`kubectl -n %s get pods`), or repeat with --force to drop its finalizer",
			name, withdrawLimit, v1alpha1.SystemNamespace)
	}
	return err
}

// partAll ends every peering: first those that admins made, hubs and
// introducers among them, so that nobody makes the others anew; then those that
// weft-controller made, as far as it has not deleted them itself. It returns
// the peers that had to be dropped by force.
func partAll(ctx context.Context, c client.Client, force bool, progress wait.Progress) ([]string, error) {
	var dropped []string
	for _, which := range []func(*v1alpha1.ForeignClusterSpec) bool{(*v1alpha1.ForeignClusterSpec).MadeByAdmin, everyone} {
		names, err := foreignClusters(ctx, c, which)
		if err != nil {
			return dropped, err
		}
		part := func(name string, progress wait.Progress) error {
			err := peering.Part(ctx, c, name, false, progress)
			if errors.Is(err, peering.ErrGone) {
				return nil
			}
			return err
		}
		more, err := endAll(names, force, progress, part, func(name string) error { return peering.DropFinalizer(ctx, c, name) })
		if dropped = append(dropped, more...); err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}

func everyone(*v1alpha1.ForeignClusterSpec) bool { return true }

func foreignClusters(ctx context.Context, c client.Reader, which func(*v1alpha1.ForeignClusterSpec) bool) ([]string, error) {
	var list v1alpha1.ForeignClusterList
	if err := c.List(ctx, &list); kube.Missing(err) {
		return nil, nil
	} else if err != nil {
		return nil, kube.Explain(err, "list", "ForeignClusters")
	}
	var names []string
	for i := range list.Items {
		if which(&list.Items[i].Spec) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, nil
}

// endAll ends all at the same time. With force, what does not end is dropped,
// and the names of these returned.
func endAll(names []string, force bool, progress wait.Progress, end func(string, wait.Progress) error, drop func(string) error) ([]string, error) {
	var lock sync.Mutex
	locked := func(line string) {
		lock.Lock()
		defer lock.Unlock()
		progress(line)
	}
	var all sync.WaitGroup
	failures := make([]error, len(names))
	for i, name := range names {
		all.Go(func() { failures[i] = end(name, locked) })
	}
	all.Wait()
	var dropped []string
	for i, failure := range failures {
		if failure == nil {
			continue
		}
		if !force {
			return nil, failure
		}
		if err := drop(names[i]); err != nil {
			return dropped, err
		}
		dropped = append(dropped, names[i])
	}
	return dropped, nil
}
