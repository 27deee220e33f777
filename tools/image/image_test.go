package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// Two builds, with the files named in a different order and touched in
// between, give the same bytes; the archive reads back with the right content.
func TestArchiveIsReproducible(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	require.NoError(t, os.WriteFile(one, []byte("first"), 0o600))
	require.NoError(t, os.WriteFile(two, []byte("second"), 0o755))
	first, second := filepath.Join(dir, "a", "first.tar"), filepath.Join(dir, "b", "second.tar")

	require.NoError(t, run("weft.dev/weft:dev", first, "", []string{one + "=/usr/local/bin/one", two + "=/two"}))
	require.NoError(t, os.Chtimes(one, time.Unix(1, 0), time.Unix(1, 0)))
	require.NoError(t, run("weft.dev/weft:dev", second, "", []string{two + "=/two", one + "=/usr/local/bin/one"}))

	a, err := os.ReadFile(first)
	require.NoError(t, err)
	b, err := os.ReadFile(second)
	require.NoError(t, err)
	require.Equal(t, a, b)

	img, err := tarball.ImageFromPath(first, nil)
	require.NoError(t, err)
	content := mutate.Extract(img)
	defer content.Close()
	require.Equal(t, map[string]string{
		"two": "second", "usr": "", "usr/local": "", "usr/local/bin": "", "usr/local/bin/one": "first",
	}, readTar(t, content))
}

func TestArchiveNamesTheMissingBinary(t *testing.T) {
	err := run("weft.dev/weft:dev", filepath.Join(t.TempDir(), "x.tar"), "", []string{"/nonexistent/weft-agent=/usr/local/bin/weft-agent"})
	require.ErrorContains(t, err, "/nonexistent/weft-agent")
	require.ErrorContains(t, err, "make build")
	require.ErrorContains(t, run("weft.dev/weft:dev", "x.tar", "", []string{"bin/a"}), "SOURCE=TARGET")
}

func readTar(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	files := map[string]string{}
	for tr := tar.NewReader(r); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		require.Equal(t, int64(0o755), header.Mode&0o777)
		data, err := io.ReadAll(tr)
		require.NoError(t, err)
		files[header.Name] = string(data)
	}
}
