package binaries

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

func TestVersionComesFromTheNestedModule(t *testing.T) {
	repository, err := FindRepository()
	require.NoError(t, err)
	gomod, err := os.ReadFile(filepath.Join(repository, module, "go.mod"))
	require.NoError(t, err)
	version, err := parseVersion(gomod)
	require.NoError(t, err)
	require.Equal(t, version.Git, "v"+version.Major+"."+version.Minor+version.Git[len(version.Major+version.Minor)+2:])
	require.Equal(t, "1", version.Major)
}

func TestVersionIsAReleaseAndSetInBothPackages(t *testing.T) {
	version, err := parseVersion([]byte("require (\n\tk8s.io/kubernetes v1.40.7\n)\n"))
	require.NoError(t, err)
	require.Equal(t, Version{Git: "v1.40.7", Major: "1", Minor: "40"}, version)
	require.Contains(t, version.linkFlags(), "-X k8s.io/component-base/version.gitVersion=v1.40.7")
	require.Contains(t, version.linkFlags(), "-X k8s.io/client-go/pkg/version.gitMinor=40")
	_, err = parseVersion([]byte("require k8s.io/client-go v0.1.2\n"))
	require.ErrorContains(t, err, "does not require k8s.io/kubernetes")
}

func TestImageHoldsTheProgramAndStartsIt(t *testing.T) {
	folder := t.TempDir()
	program, archive := filepath.Join(folder, "p"), filepath.Join(folder, "p.tar")
	require.NoError(t, os.WriteFile(program, []byte("program"), 0o755))
	require.NoError(t, writeImage(archive, "weft.dev/test:dev", program, "/program"))

	image, err := tarball.ImageFromPath(archive, nil)
	require.NoError(t, err)
	config, err := image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, []string{"/program"}, config.Config.Entrypoint)
	layers, err := image.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	files := map[string]string{}
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		files[header.Name] = string(data)
	}
	require.Equal(t, map[string]string{"tmp/": "", "program": "program"}, files)
}
