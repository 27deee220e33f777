package testbed

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Names of the image archives' pods.
const (
	WeftImage    = "weft.dev/weft:dev"
	TrafficImage = "weft.dev/traffic:dev"
)

// Lab runs the programs that a build made.
type Lab struct {
	// Root of the repository: programs are in bin/, archives in out/.
	Root string
	// Progress of slow programs goes there.
	Progress io.Writer
}

// LabOptions of `lab up`.
type LabOptions struct {
	Clusters, Nodes int
	// PodCIDRs by cluster, where it is not the default.
	PodCIDRs map[string]string
	// NAT names the clusters whose nodes sit behind a source NAT.
	NAT []string
}

// Span is the way between two clusters of the lab.
type Span struct {
	A, B string
	RTT  time.Duration
}

// Triangle is a consumer c far from two providers that are near each other.
func Triangle() []Span {
	return []Span{
		{"a", "c", 40 * time.Millisecond},
		{"b", "c", 40 * time.Millisecond},
		{"a", "b", 20 * time.Millisecond},
	}
}

// FindRoot walks up from the working directory to the repository.
func FindRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the repository: no go.mod above the working directory; run this inside the repository")
		}
	}
}

// Program is the path of a built program.
func (l Lab) Program(name string) string { return filepath.Join(l.Root, "bin", name) }

// Out is a path under out/.
func (l Lab) Out(elements ...string) string {
	return filepath.Join(append([]string{l.Root, "out"}, elements...)...)
}

// Check says what a build has not made yet.
func (l Lab) Check() error {
	for _, path := range []string{
		l.Program("lab"), l.Program("weftctl"), l.Program("traffic"), l.Out("weft.tar"), l.Out("traffic.tar"),
	} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("find %s: not built; run `make images` first", path)
		}
	}
	return nil
}

// Up starts the lab, or completes one that runs.
func (l Lab) Up(ctx context.Context, o LabOptions) error {
	args := []string{"up", "--clusters", strconv.Itoa(o.Clusters), "--nodes", strconv.Itoa(o.Nodes)}
	for _, cluster := range slices.Sorted(maps.Keys(o.PodCIDRs)) {
		args = append(args, "--pod-cidr", cluster+"="+o.PodCIDRs[cluster])
	}
	for _, cluster := range o.NAT {
		args = append(args, "--nat", cluster)
	}
	return follow(ctx, l.Progress, l.Program("lab"), args...)
}

// Down removes the lab and everything that it made.
func (l Lab) Down(ctx context.Context) error {
	return follow(ctx, l.Progress, l.Program("lab"), "down")
}

// Link sets the round-trip time between two clusters; 0 means a plain cable.
func (l Lab) Link(ctx context.Context, a, b string, rtt time.Duration) error {
	value := "0"
	if rtt > 0 {
		value = rtt.String()
	}
	_, err := output(ctx, nil, l.Program("lab"), "link", a, b, "--up", "--rtt", value)
	return err
}

// Cut drops everything between two clusters silently, until Heal or Link.
func (l Lab) Cut(ctx context.Context, a, b string) error {
	_, err := output(ctx, nil, l.Program("lab"), "link", a, b, "--down")
	return err
}

// Heal ends a Cut; the round-trip time is what it was.
func (l Lab) Heal(ctx context.Context, a, b string) error {
	_, err := output(ctx, nil, l.Program("lab"), "link", a, b, "--up")
	return err
}

// OpenAll returns clients of clusters of the lab.
func (l Lab) OpenAll(ctx context.Context, names ...string) ([]*Cluster, error) {
	clusters := make([]*Cluster, len(names))
	for i, name := range names {
		var err error
		if clusters[i], err = l.Open(ctx, name); err != nil {
			return nil, err
		}
	}
	return clusters, nil
}

// LoadImages loads both images into every node.
func (l Lab) LoadImages(ctx context.Context) error {
	for _, archive := range []string{"weft.tar", "traffic.tar"} {
		if _, err := output(ctx, nil, l.Program("lab"), "load-image", l.Out(archive)); err != nil {
			return err
		}
	}
	return nil
}

// Exec runs a program in the network and mount namespaces of a node and
// returns its standard output.
func (l Lab) Exec(ctx context.Context, node string, input []byte, args ...string) ([]byte, error) {
	return output(ctx, input, l.Program("lab"), append([]string{"exec", node, "--"}, args...)...)
}

// StopAPIServer and StartAPIServer make an outage of a cluster's API server.
func (l Lab) StopAPIServer(ctx context.Context, cluster string) error {
	_, err := output(ctx, nil, l.Program("lab"), "apiserver", cluster, "--down")
	return err
}

// StartAPIServer ends the outage; the server is ready when it returns.
func (l Lab) StartAPIServer(ctx context.Context, cluster string) error {
	_, err := output(ctx, nil, l.Program("lab"), "apiserver", cluster, "--up")
	return err
}
