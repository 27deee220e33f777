package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sort"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is a file of the build host and its absolute path in the image.
type File struct {
	Source string
	Target string
}

// Build returns an image of one layer that holds the files, owned by root and
// executable by everybody.
func Build(files []File, entrypoint string) (v1.Image, error) {
	content, err := layerTar(files)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read image configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Env = []string{"PATH=/usr/local/bin:/bin:/"}
	if entrypoint != "" {
		config.Config.Entrypoint = []string{entrypoint}
	}
	return mutate.ConfigFile(img, config)
}

// layerTar returns a tar archive of the files and the directories that lead to
// them, in a fixed order and without times.
func layerTar(files []File) ([]byte, error) {
	sorted := append([]File(nil), files...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].Target < sorted[j].Target })
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	made := map[string]bool{"/": true}
	for _, f := range sorted {
		if err := addParents(w, path.Dir(f.Target), made); err != nil {
			return nil, fmt.Errorf("add directory of %s: %w", f.Target, err)
		}
		data, err := os.ReadFile(f.Source)
		if err != nil {
			return nil, fmt.Errorf("%w; build it first with `make build`", err)
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Target[1:], Mode: 0o755, Size: int64(len(data))}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("add %s: %w", f.Target, err)
		}
		if _, err := w.Write(data); err != nil {
			return nil, fmt.Errorf("add %s: %w", f.Target, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("finish layer: %w", err)
	}
	return buffer.Bytes(), nil
}

func addParents(w *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := addParents(w, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755})
}

// Write stores the image as a `docker save` archive under its tag. The archive
// appears whole or not at all.
func Write(output, tag string, img v1.Image) error {
	reference, err := name.NewTag(tag, name.StrictValidation)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return err
	}
	partial := output + ".partial"
	if err := tarball.WriteToFile(partial, reference, img); err != nil {
		_ = os.Remove(partial)
		return err
	}
	return os.Rename(partial, output)
}
