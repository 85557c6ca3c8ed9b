package workloads

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"text/template"
)

// builder makes the specs of one chain.
type builder struct {
	dir     string
	opts    Options
	host    string // address of services under test
	outside string // address of what they depend on, as another host would be
	ports   map[string]int
}

func newBuilder(dir string, opts Options) *builder {
	b := &builder{dir: dir, opts: opts, host: "127.0.0.1", outside: "127.0.0.1", ports: map[string]int{}}
	if opts.Network != nil {
		b.host, b.outside = opts.Network.Host, opts.Network.Gateway
	}
	return b
}

// service is the spec of a service under test, but for how it is started.
func (b *builder) service(name string) spec { return b.on(b.opts.Network, name) }

// on is the same in another network.
func (b *builder) on(n *Network, name string) spec {
	s := spec{name: name, host: b.host, port: b.ports[name], network: n}
	if n != nil {
		s.host = n.Host
	}
	return s
}

// sbin is where daemons live, which is not on the path of a user without
// privileges.
var sbin = []string{"/usr/sbin", "/sbin", "/usr/local/sbin"}

// versioned is where Debian has programs of which several versions may be installed.
var versioned = []string{"/usr/lib/postgresql/*/bin"}

// byVersion compares paths whose version is a number: a longer one is greater.
func byVersion(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// Executable finds a program, also where a user without privileges would not.
func Executable(name string) (string, error) { return executable(name) }

// executable finds a program.
func executable(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range sbin {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	for _, pattern := range versioned {
		if found, _ := filepath.Glob(filepath.Join(pattern, name)); len(found) > 0 { // the pattern is good
			return slices.MaxFunc(found, byVersion), nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}

// file copies an embedded file into the directory.
func (b *builder) file(files fs.FS, name string) (string, error) {
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.dir, filepath.Base(name))
	return path, os.WriteFile(path, content, 0o644) //nolint:gosec // workers read it
}

// nginx writes the configuration of one nginx from a template and says how to
// start it: everything below a directory of its own.
func (b *builder) nginx(files fs.FS, conf, service, upstream string) (spec, error) {
	exe, err := executable("nginx")
	if err != nil {
		return spec{}, err
	}
	prefix := filepath.Join(b.dir, service)
	if err := os.Mkdir(prefix, 0o755); err != nil { //nolint:gosec // workers enter it
		return spec{}, err
	}
	text, err := template.ParseFS(files, conf)
	if err != nil {
		return spec{}, err
	}
	var out bytes.Buffer
	err = text.Option("missingkey=error").Execute(&out, map[string]any{
		"Prefix":   prefix,
		"Host":     b.host,
		"Port":     b.ports[service],
		"Upstream": b.ports[upstream],
		"Workers":  b.opts.Workers,
		"Root":     os.Geteuid() == 0,
	})
	if err != nil {
		return spec{}, err
	}
	path := filepath.Join(prefix, "nginx.conf")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil { //nolint:gosec // no secrets
		return spec{}, err
	}
	s := b.service(service)
	s.argv = []string{exe, "-p", prefix, "-c", path}
	s.workers = b.opts.Workers
	return s, nil
}
