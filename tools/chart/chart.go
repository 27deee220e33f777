// Package chart holds Weft's Helm chart, the one source of its manifests, and
// renders it without Helm's command or a release.
package chart

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/apis/crds"
	"github.com/weft-fabric/weft/apis/crds/multicluster"
)

// The prefix all: takes in _helpers.tpl too.
//
//go:embed all:weft
var files embed.FS

// Load returns the chart. Its CRDs are those of apis/crds, which exist only
// there; Helm installs only those that the cluster does not have.
func Load() (*helmchart.Chart, error) {
	sources, err := fs.Sub(files, "weft")
	if err != nil {
		return nil, fmt.Errorf("open embedded chart: %w", err)
	}
	buffered, err := read(nil, sources, "")
	if err != nil {
		return nil, fmt.Errorf("read embedded chart: %w", err)
	}
	if buffered, err = read(buffered, crds.Files, "crds/"); err != nil {
		return nil, fmt.Errorf("read embedded CRDs: %w", err)
	}
	if buffered, err = read(buffered, multicluster.Files, "crds/"); err != nil {
		return nil, fmt.Errorf("read embedded CRDs: %w", err)
	}
	loaded, err := loader.LoadFiles(buffered)
	if err != nil {
		return nil, fmt.Errorf("load embedded chart: %w", err)
	}
	return loaded, nil
}

func read(into []*loader.BufferedFile, from fs.FS, prefix string) ([]*loader.BufferedFile, error) {
	err := fs.WalkDir(from, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".go") {
			return err
		}
		data, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		into = append(into, &loader.BufferedFile{Name: prefix + path, Data: data})
		return nil
	})
	return into, err
}

// Version returns the version of the chart and of the programs that it
// installs.
func Version() (string, error) {
	data, err := files.ReadFile("weft/Chart.yaml")
	if err != nil {
		return "", fmt.Errorf("read embedded chart: %w", err)
	}
	var metadata helmchart.Metadata
	if err := yaml.Unmarshal(data, &metadata); err != nil {
		return "", fmt.Errorf("read embedded chart: %w", err)
	}
	return metadata.AppVersion, nil
}
