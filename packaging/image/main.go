// Command image writes an OCI image as an archive, without a container engine: a program that
// is linked statically, certificates of the web's authorities, and nothing else. The same
// inputs give the same bytes.
//
//	image -name tare-agent -version 1.2 -out tare-agent.tar amd64=PATH arm64=PATH
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	nonroot = 65532 // as in other images without a distribution
	certs   = "etc/ssl/certs/ca-certificates.crt"
)

// kinds are the images.
var kinds = map[string]struct {
	uid   int
	cmd   []string
	ports []string
	title string
}{
	// Capabilities of an image's process come with user 0 only; Kubernetes and Docker drop all but those that it is given.
	"tare-agent": {0, nil, []string{"9464/tcp"}, "Tare's agent: zero-code tracing by eBPF"},
	"tare":       {nonroot, []string{"collector"}, []string{"4317/tcp", "4318/tcp", "4680/tcp", "8888/tcp"}, "Tare: collector, store and page; agent and laboratory, for user 0"},
	// Those of deploy/kubernetes/thesis.
	"tare-thesis": {nonroot, nil, []string{"8080/tcp"}, "The service of Hoikka 2026 that Tare's laboratory measures"},
	"tare-hey":    {nonroot, nil, nil, "hey, a load generator for HTTP"},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	name := flags.String("name", "", "tare-agent, tare, tare-thesis or tare-hey")
	version := flags.String("version", "", "of the image")
	out := flags.String("out", "", "`file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if _, ok := kinds[*name]; !ok || *out == "" || flags.NArg() == 0 {
		return errors.New("usage: image -name NAME -version VERSION -out FILE ARCHITECTURE=PROGRAM…")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	b := builder{name: *name, version: *version, at: time.Unix(seconds, 0).UTC()}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, a := range flags.Args() {
		arch, program, ok := strings.Cut(a, "=")
		if !ok {
			return fmt.Errorf("%q is not ARCHITECTURE=PROGRAM", a)
		}
		img, err := b.image(arch, program)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform:    &v1.Platform{OS: "linux", Architecture: arch},
			Annotations: map[string]string{"org.opencontainers.image.ref.name": *version},
		}})
	}
	return b.write(index, *out)
}

type builder struct {
	name, version string
	at            time.Time
}

// image has a layer that changes with the authorities, and one that changes with the program.
func (b *builder) image(arch, program string) (v1.Image, error) {
	kind := kinds[b.name]
	text, err := os.ReadFile(filepath.Clean(program))
	if err != nil {
		return nil, err
	}
	authorities, err := authorities()
	if err != nil {
		return nil, err
	}
	base, err := b.layer([]entry{
		{name: "etc/passwd", mode: 0o644, text: []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/var/lib/tare:/sbin/nologin\n")},
		{name: "etc/group", mode: 0o644, text: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{name: certs, mode: 0o644, text: authorities},
		{name: "tmp/", mode: 0o1777},
		{name: "var/lib/tare/", mode: 0o755, uid: nonroot},
	})
	if err != nil {
		return nil, err
	}
	top, err := b.layer([]entry{{name: "usr/bin/" + b.name, mode: 0o755, text: text}})
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), base, top)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: b.at}
	for i := range config.History {
		config.History[i].Created = v1.Time{Time: b.at}
	}
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", kind.uid, kind.uid),
		Entrypoint:   []string{"/usr/bin/" + b.name},
		Cmd:          kind.cmd,
		WorkingDir:   "/",
		Env:          []string{"PATH=/usr/bin", "SSL_CERT_FILE=/" + certs, "XDG_STATE_HOME=/var/lib", "HOME=/var/lib/tare"},
		ExposedPorts: map[string]struct{}{},
		Labels: map[string]string{
			"org.opencontainers.image.title":    kind.title,
			"org.opencontainers.image.version":  b.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/tare-trace/tare",
			"org.opencontainers.image.created":  b.at.Format(time.RFC3339),
		},
	}
	for _, p := range kind.ports {
		config.Config.ExposedPorts[p] = struct{}{}
	}
	return mutate.ConfigFile(img, config)
}

// authorities are those that browsers trust without further conditions.
func authorities() ([]byte, error) {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a file of certificates cannot say it
		}
		if err := pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	if all.Len() == 0 {
		return nil, errors.New("the bundle has no authorities")
	}
	return all.Bytes(), nil
}

// entry is a file, or a directory, whose name ends in a slash.
type entry struct {
	name string
	mode int64
	uid  int
	text []byte
}

func (b *builder) layer(entries []entry) (v1.Layer, error) {
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	made := map[string]bool{".": true}
	for _, e := range entries {
		if err := b.add(w, e, made); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(all.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// add writes an entry, after the directories that it is in.
func (b *builder) add(w *tar.Writer, e entry, made map[string]bool) error {
	dir := path.Dir(strings.TrimSuffix(e.name, "/"))
	if !made[dir] {
		if err := b.add(w, entry{name: dir + "/", mode: 0o755}, made); err != nil {
			return err
		}
	}
	h := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.uid, Gid: e.uid, Size: int64(len(e.text)), ModTime: b.at, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if strings.HasSuffix(e.name, "/") {
		h.Typeflag = tar.TypeDir
		made[strings.TrimSuffix(e.name, "/")] = true
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(e.text)
	return err
}

// write writes the image in OCI's layout, as one file.
func (b *builder) write(index v1.ImageIndex, to string) (err error) {
	dir, err := os.MkdirTemp("", "tare-image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	var names []string
	if err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, p)
		}
		return err
	}); err != nil {
		return err
	}
	slices.Sort(names)
	out, err := os.Create(filepath.Clean(to))
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	made := map[string]bool{".": true}
	for _, p := range names {
		text, err := os.ReadFile(filepath.Clean(p))
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		if err := b.add(w, entry{name: filepath.ToSlash(name), mode: 0o644, text: text}, made); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), out.Close())
}
