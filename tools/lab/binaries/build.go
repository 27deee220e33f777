package binaries

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/tools/lab/pki"
	"github.com/weft-fabric/weft/tools/lab/render"
)

// Set is what was built.
type Set struct {
	Version      Version
	Folder       string
	Kube         string
	PauseImage   string // archives
	CoreDNSImage string
}

// Ensure builds what is missing or older than its sources, telling progress to
// say. Two labs that build at the same time wait for each other.
func Ensure(ctx context.Context, say func(format string, args ...any)) (Set, error) {
	repository, err := FindRepository()
	if err != nil {
		return Set{}, err
	}
	gomod, err := os.ReadFile(filepath.Join(repository, module, "go.mod"))
	if err != nil {
		return Set{}, fmt.Errorf("read the version of Kubernetes: %w", err)
	}
	version, err := parseVersion(gomod)
	if err != nil {
		return Set{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Set{}, fmt.Errorf("find the cache folder (set XDG_CACHE_HOME): %w", err)
	}
	set := Set{Version: version, Folder: filepath.Join(cache, "weft", "kubernetes", version.Git)}
	set.Kube = filepath.Join(set.Folder, "kube")
	set.PauseImage = filepath.Join(set.Folder, "pause.tar")
	set.CoreDNSImage = filepath.Join(set.Folder, "coredns.tar")
	if err := os.MkdirAll(set.Folder, 0o755); err != nil {
		return Set{}, fmt.Errorf("make the cache folder: %w", err)
	}
	unlock, err := lock(filepath.Join(set.Folder, "lock"))
	if err != nil {
		return Set{}, err
	}
	defer unlock()
	return set, set.build(ctx, repository, say)
}

func lock(path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the build: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock the build: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

func (s Set) build(ctx context.Context, repository string, say func(string, ...any)) error {
	want, err := fingerprint(repository)
	if err != nil {
		return err
	}
	stamp := filepath.Join(s.Folder, "stamp")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want && s.complete() {
		return nil
	}
	say("building Kubernetes %s into %s (once; 10 to 15 minutes on 2 cores if nothing is cached)", s.Version.Git, s.Folder)
	nested := filepath.Join(repository, module)
	for _, step := range []struct{ dir, pkg, out, flags string }{
		{nested, "./kube", "kube", s.Version.linkFlags()},
		{nested, "./coredns", "coredns", "-s -w"},
		{repository, "./tools/lab/pause", "pause", "-s -w"},
	} {
		if err := compile(ctx, step.dir, step.pkg, filepath.Join(s.Folder, step.out), step.flags, say); err != nil {
			return err
		}
	}
	if err := writeImage(s.PauseImage, render.PauseImage, filepath.Join(s.Folder, "pause"), "/pause"); err != nil {
		return err
	}
	if err := writeImage(s.CoreDNSImage, render.CoreDNSImage, filepath.Join(s.Folder, "coredns"), "/coredns"); err != nil {
		return err
	}
	return pki.WriteFile(stamp, []byte(want), 0o644)
}

func (s Set) complete() bool {
	for _, path := range []string{s.Kube, s.PauseImage, s.CoreDNSImage} {
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	return true
}

// compile runs go build and reports how many packages it has compiled.
func compile(ctx context.Context, dir, pkg, out, linkFlags string, say func(string, ...any)) error {
	begin := time.Now()
	say("  %s: finding its packages (the first time, Go downloads their modules)", filepath.Base(out))
	list := exec.CommandContext(ctx, "go", "list", "-deps", pkg)
	list.Dir, list.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	deps, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the packages of %s: %w", pkg, describe(err))
	}
	total := strings.Count(string(deps), "\n")

	temporary := out + ".new"
	build := exec.CommandContext(ctx, "go", "build", "-v", "-ldflags", linkFlags, "-o", temporary, pkg)
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.StderrPipe()
	if err != nil {
		return err
	}
	if err := build.Start(); err != nil {
		return fmt.Errorf("run go build (is Go installed and in PATH?): %w", err)
	}
	tail := progress(output, filepath.Base(out), total, begin, say)
	if err := build.Wait(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, tail)
	}
	if err := os.Rename(temporary, out); err != nil {
		return fmt.Errorf("put %s in place: %w", out, err)
	}
	say("  %s built in %s", filepath.Base(out), time.Since(begin).Round(time.Second))
	return nil
}

// progress reads go build -v, which names each package that is not in the
// build cache, and returns the last lines for an error message.
func progress(output io.Reader, name string, total int, begin time.Time, say func(string, ...any)) string {
	var tail []string
	compiled, last := 0, time.Now()
	scanner := bufio.NewScanner(output)
	for scanner.Scan() {
		compiled++
		if tail = append(tail, scanner.Text()); len(tail) > 20 {
			tail = tail[1:]
		}
		if time.Since(last) > 10*time.Second {
			last = time.Now()
			say("  %s: %d of at most %d packages compiled, %s", name, compiled, total, time.Since(begin).Round(time.Second))
		}
	}
	return strings.Join(tail, "\n")
}

// describe adds what a failed command said.
func describe(err error) error {
	if exit, ok := err.(*exec.ExitError); ok {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
