package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/tare-trace/tare/packaging/internal/built"
)

// untar unpacks files and directories into a directory.
func untar(t *testing.T, in io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o755) //nolint:gosec // others run what is there
		} else if err = os.MkdirAll(filepath.Dir(name), 0o755); err == nil { //nolint:gosec // others run what is there
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, text, h.FileInfo().Mode())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The same inputs give the same archive; unpacked, the image has what it needs, and nothing else, to run its program.
func TestImage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	program := built.Agent(t, "../..")
	var archives [2][]byte
	for i := range archives {
		file := filepath.Join(dir, "image.tar")
		// Both architectures, of which the other one is not run.
		if err := run([]string{"-name", "tare-agent", "-version", "1", "-out", file, runtime.GOARCH + "=" + program, "other=" + program}); err != nil {
			t.Fatal(err)
		}
		var err error
		if archives[i], err = os.ReadFile(file); err != nil { //nolint:gosec // the test's own
			t.Fatal(err)
		}
	}
	if string(archives[0]) != string(archives[1]) {
		t.Error("two images of one program differ")
	}
	oci := filepath.Join(dir, "oci")
	untar(t, strings.NewReader(string(archives[0])), oci)
	index, err := layout.ImageIndexFromPath(oci)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := index.IndexManifest()
	if err != nil || len(manifests.Manifests) != 2 {
		t.Fatalf("%v: %+v", err, manifests)
	}
	at := slices.IndexFunc(manifests.Manifests, func(d v1.Descriptor) bool { return d.Platform.Architecture == runtime.GOARCH })
	img, err := index.Image(manifests.Manifests[at].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil || config.Config.User != "0:0" || len(config.History) != 2 {
		t.Errorf("%v: %+v", err, config)
	}
	root := filepath.Join(dir, "root")
	flat := mutate.Extract(img)
	untar(t, flat, root)
	if err := flat.Close(); err != nil {
		t.Error(err)
	}
	if pem, err := os.ReadFile(filepath.Join(root, certs)); err != nil || strings.Count(string(pem), "BEGIN CERTIFICATE") < 50 { //nolint:gosec // the test's own
		t.Errorf("%v: %d bytes of certificates", err, len(pem))
	}
	if os.Geteuid() != 0 {
		t.Skip("not root: chroot is not tried")
	}
	said, err := exec.Command("chroot", append([]string{root}, append(config.Config.Entrypoint, "version")...)...).CombinedOutput() //nolint:gosec // the test's own
	if err != nil || !strings.Contains(string(said), "tare-agent") {
		t.Errorf("%v: %s", err, said)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	for _, args := range [][]string{nil, {"-name", "other", "-out", "x", "amd64=y"}, {"-name", "tare", "-out", t.TempDir() + "/x", "amd64=/nowhere"}, {"-name", "tare", "-out", "x", "amd64"}} {
		if err := run(args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
