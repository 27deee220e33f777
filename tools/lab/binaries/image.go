package binaries

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeImage writes a Docker archive of an image whose one file is a static program.
func writeImage(archive, reference, program, path string) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return fmt.Errorf("name image %s: %w", reference, err)
	}
	layer, err := programLayer(program, path)
	if err != nil {
		return fmt.Errorf("make image %s: %w", reference, err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return fmt.Errorf("make image %s: %w", reference, err)
	}
	image, err = mutate.ConfigFile(image, configured(image, path))
	if err != nil {
		return fmt.Errorf("make image %s: %w", reference, err)
	}
	temporary := archive + ".new"
	if err := tarball.WriteToFile(temporary, tag, image); err != nil {
		return fmt.Errorf("write image %s: %w", reference, err)
	}
	if err := os.Rename(temporary, archive); err != nil {
		return fmt.Errorf("write image %s: %w", reference, err)
	}
	return nil
}

func configured(image v1.Image, path string) *v1.ConfigFile {
	config, err := image.ConfigFile()
	if err != nil {
		config = &v1.ConfigFile{}
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{path}
	return config
}

// programLayer is a layer with the program and a folder for temporary files.
func programLayer(program, path string) (v1.Layer, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, header := range []*tar.Header{
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777},
		{Name: path[1:], Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(data))},
	} {
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := w.Write(data); err != nil {
				return nil, err
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil })
}
