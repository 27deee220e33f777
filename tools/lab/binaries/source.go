// Package binaries builds what a lab cluster runs: the Kubernetes components
// and CoreDNS from a nested Go module, into a cache of the user's, and the
// images of those that run as pods.
package binaries

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
)

// module is the folder of the nested module, relative to the repository.
const module = "tools/lab/kubernetes"

// FindRepository looks for the repository above the program and above the working folder.
func FindRepository() (string, error) {
	var starts []string
	if program, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(program))
	}
	if folder, err := os.Getwd(); err == nil {
		starts = append(starts, folder)
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, module, "go.mod")); err == nil {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("the sources of Kubernetes' build are not found; run lab inside the repository")
}

var kubernetesVersion = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)$`)

// Version of Kubernetes, from the one place that says it: the nested module's go.mod.
type Version struct{ Git, Major, Minor string }

// parseVersion reads the version out of the text of a go.mod.
func parseVersion(gomod []byte) (Version, error) {
	m := kubernetesVersion.FindSubmatch(gomod)
	if m == nil {
		return Version{}, fmt.Errorf("%s/go.mod does not require k8s.io/kubernetes at a release", module)
	}
	return Version{Git: string(m[1]), Major: string(m[2]), Minor: string(m[3])}, nil
}

// linkFlags strip the programs and set the version, without which nodes report v0.0.0-master.
func (v Version) linkFlags() string {
	flags := "-s -w"
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, value := range [][2]string{{"gitVersion", v.Git}, {"gitMajor", v.Major}, {"gitMinor", v.Minor}, {"gitTreeState", "clean"}} {
			flags += fmt.Sprintf(" -X %s.%s=%s", pkg, value[0], value[1])
		}
	}
	return flags
}

// fingerprint is a hash over the files that decide what is built.
func fingerprint(repository string) (string, error) {
	var paths []string
	for _, pattern := range []string{module + "/go.*", module + "/*/*.go", "tools/lab/pause/*.go"} {
		matches, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			return "", err
		}
		paths = append(paths, matches...)
	}
	sort.Strings(paths)
	hash := sha256.New()
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read sources of Kubernetes' build: %w", err)
		}
		relative, _ := filepath.Rel(repository, path)
		fmt.Fprintf(hash, "%s %d\n", relative, len(data))
		hash.Write(data)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
