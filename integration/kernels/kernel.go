package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A kernel is one that Debian 12 gives its users.
type kernel struct {
	series string // of versions: 6.1
	arch   string // as Debian and Go call it
}

var kernels = []kernel{{"6.1", "amd64"}, {"6.12", "amd64"}, {"6.1", "arm64"}, {"6.12", "arm64"}}

// others are there for who asks for them by their names.
var others = []kernel{{"6.18", "amd64"}, {"7.3", "amd64"}}

func (k kernel) String() string { return k.series + "-" + k.arch }

// An image is a kernel that was unpacked.
type image struct {
	kernel
	release string // as the kernel says it: 6.1.0-56-amd64
	version string // of the package: 6.1.192-2
	vmlinuz string
	base    string // the directory with lib/modules
}

// image finds the newest kernel of a series.
func (a *archive) image(ctx context.Context, k kernel) (*image, error) {
	meta := "linux-image-" + a.arch
	text, err := output(a.command(ctx, "apt-cache", "show", meta))
	if err != nil {
		return nil, err
	}
	for stanza := range strings.SplitSeq(text, "\n\n") { // the newest first
		version := field(stanza, "Version")
		if !strings.HasPrefix(version, k.series+".") {
			continue
		}
		name, _, _ := strings.Cut(field(stanza, "Depends"), " ")
		i := &image{kernel: k, version: version, release: strings.TrimPrefix(name, "linux-image-")}
		return i, a.unpack(ctx, name, i)
	}
	return a.superseded(ctx, k)
}

// newest finds the newest kernel of a series, in the archive of its architecture. The cache is this process's until unlock.
func newest(ctx context.Context, cache string, k kernel) (a *archive, i *image, unlock func(), err error) {
	if unlock, err = lock(cache); err != nil {
		return nil, nil, nil, err
	}
	if a, err = open(ctx, cache, k.arch); err == nil {
		i, err = a.image(ctx, k)
	}
	if err != nil {
		unlock()
	}
	return a, i, unlock, err
}

// superseded finds the newest kernel of a series that is not Debian's choice any more, and that its archive still has.
func (a *archive) superseded(ctx context.Context, k kernel) (*image, error) {
	names, err := output(a.command(ctx, "apt-cache", "pkgnames", "linux-image-"+k.series+"."))
	if err != nil {
		return nil, err
	}
	of := regexp.MustCompile(`^linux-image-` + regexp.QuoteMeta(k.series) + `\.(\d+)\+deb\d+-` + k.arch + `$`)
	name, newest := "", -1
	for line := range strings.FieldsSeq(names) {
		if m := of.FindStringSubmatch(line); m != nil {
			if patch, err := strconv.Atoi(m[1]); err == nil && patch > newest {
				name, newest = line, patch
			}
		}
	}
	if name == "" {
		return nil, fmt.Errorf("no linux-image-%s of Linux %s in Debian any more", k.arch, k.series)
	}
	text, err := output(a.command(ctx, "apt-cache", "show", name))
	if err != nil {
		return nil, err
	}
	i := &image{kernel: k, version: field(text, "Version"), release: strings.TrimPrefix(name, "linux-image-")}
	return i, a.unpack(ctx, name, i)
}

func field(stanza, name string) string {
	for line := range strings.Lines(stanza) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (a *archive) unpack(ctx context.Context, name string, i *image) error {
	dir := filepath.Join(a.dir, name+"_"+i.version)
	i.vmlinuz = filepath.Join(dir, "boot", "vmlinuz-"+i.release)
	i.base = dir
	if _, err := os.Stat(dir); err != nil { // the older ones of the series are of no more use
		old, _ := filepath.Glob(filepath.Join(a.dir, "linux-image-"+i.series+".*")) // the pattern is right
		for _, d := range old {
			if err := os.RemoveAll(d); err != nil {
				return err
			}
		}
	}
	if err := a.fetch(ctx, name, dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "lib")); err != nil {
		i.base = filepath.Join(dir, "usr") // where Debian moves things to
	}
	if _, err := os.Stat(filepath.Join(i.base, "lib/modules", i.release, "modules.dep")); err == nil {
		return nil
	}
	_, err := output(exec.CommandContext(ctx, "depmod", "-b", i.base, i.release))
	return err
}
