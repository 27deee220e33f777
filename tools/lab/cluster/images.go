package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/tools/lab/binaries"
	"github.com/weft-fabric/weft/tools/lab/layout"
	"github.com/weft-fabric/weft/tools/lab/render"
)

// ensureImages loads the lab's own images into a node that has not got them.
func (l *Lab) ensureImages(ctx context.Context, n layout.Node, set binaries.Set) error {
	var have []byte
	err := waitFor(ctx, time.Minute, 100*time.Millisecond, func(ctx context.Context) (err error) {
		have, err = l.ctr(ctx, n, nil, "images", "list", "-q")
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for containerd of node %s: %w; its log is %s/containerd.log", n.Name, err, l.Folders.NodeLogs(n.Name))
	}
	for reference, archive := range map[string]string{render.PauseImage: set.PauseImage, render.CoreDNSImage: set.CoreDNSImage} {
		if bytes.Contains(have, []byte(reference+"\n")) {
			continue
		}
		if err := l.importImage(ctx, n, archive); err != nil {
			return err
		}
	}
	return nil
}

// LoadImage loads an OCI or Docker archive into all nodes of the named
// clusters, or of all clusters if none is named.
func (l *Lab) LoadImage(ctx context.Context, archive string, clusters []string) error {
	for _, name := range clusters {
		if _, err := l.Spec.Find(name); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range l.Spec.Clusters {
		if len(clusters) > 0 && !contains(clusters, c.Name) {
			continue
		}
		for _, n := range c.NodeList() {
			group.Go(func() error {
				if err := l.importImage(ctx, n, archive); err != nil {
					return err
				}
				l.say("node %s: %s loaded", n.Name, archive)
				return nil
			})
		}
	}
	return group.Wait()
}

func contains(list []string, value string) bool {
	for _, v := range list {
		if v == value {
			return true
		}
	}
	return false
}

func (l *Lab) importImage(ctx context.Context, n layout.Node, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("open image archive: %w", err)
	}
	defer file.Close()
	// From standard input, because the node does not see every folder of the machine.
	said, err := l.ctr(ctx, n, file, "images", "import", "-")
	if err == nil && len(said) == 0 {
		err = errors.New("it holds no image")
	}
	if err != nil {
		return fmt.Errorf("load %s into node %s (is it an OCI or Docker archive?): %w", archive, n.Name, err)
	}
	return nil
}

func (l *Lab) ctr(ctx context.Context, n layout.Node, in io.Reader, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "ctr", append([]string{"--namespace", "k8s.io"}, args...)...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = in, &stdout, &stderr
	if err := l.run(n, command, nil); err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}
