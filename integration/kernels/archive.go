package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// An archive is Debian's for one architecture, with lists of its own: what the host
// has installed, and where from, plays no part.
type archive struct {
	dir  string // of lists, and of all that is downloaded
	arch string
}

// listsAge is how old lists may be. Debian replaces kernels by newer ones, and takes
// the older ones away.
const listsAge = 12 * time.Hour

const sources = `deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm-updates main
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm-backports main
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian-security bookworm-security main
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie-backports main
`

// open fetches the lists.
func open(ctx context.Context, cache, arch string) (*archive, error) {
	a := &archive{filepath.Join(cache, "debian-"+arch), arch}
	for _, d := range []string{"parts", "lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(a.dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	// How the host reaches mirrors, over a proxy for instance, holds for these lists, too.
	reach, err := output(exec.CommandContext(ctx, "apt-config", "dump", "Acquire"))
	if err != nil {
		return nil, err
	}
	config := reach + fmt.Sprintf(`APT::Architecture %q; APT::Architectures { %q; };
Dir::Etc::main "/dev/null"; Dir::Etc::parts "%[3]s/parts"; Dir::Etc::sourcelist "%[3]s/sources.list"; Dir::Etc::sourceparts "%[3]s/parts";
Dir::State %[3]q; Dir::State::status "%[3]s/status"; Dir::Cache "%[3]s/cache";
APT::Sandbox::User "root"; Acquire::Languages "none"; Acquire::Retries "3"; Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
`, arch, arch, a.dir)
	for name, text := range map[string]string{"status": "", "sources.list": sources, "apt.conf": config} {
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	updated := filepath.Join(a.dir, "updated")
	info, err := os.Stat(updated)
	if err == nil && time.Since(info.ModTime()) < listsAge {
		return a, nil
	}
	if _, failed := output(a.command(ctx, "apt-get", "-q", "update", "--error-on=any")); failed == nil {
		return a, os.WriteFile(updated, nil, 0o644)
	} else if err != nil {
		return nil, fmt.Errorf("lists of Debian's packages: %w", failed)
	} else {
		fmt.Fprintf(os.Stderr, "lists of packages are of %s: %v\n", info.ModTime().Format(time.DateTime), failed)
	}
	return a, nil
}

func (a *archive) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(a.dir, "apt.conf"), "LC_ALL=C")
	return cmd
}

// output is what a command writes; its last lines are in the error.
func output(cmd *exec.Cmd) (string, error) {
	var out, all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &all
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, tail(out.String()+all.String(), 5))
	}
	return out.String(), nil
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// fetch downloads a package and unpacks it to a directory, which is there only when
// all of it is.
func (a *archive) fetch(ctx context.Context, name, dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fmt.Fprintf(os.Stderr, "downloading %s, %s\n", name, a.arch)
	work, err := os.MkdirTemp(a.dir, "unpack-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	get := a.command(ctx, "apt-get", "-q", "download", name)
	get.Dir = work
	if _, err := output(get); err != nil {
		return err
	}
	debs, _ := filepath.Glob(filepath.Join(work, "*.deb")) // the pattern is right
	unpacked := filepath.Join(work, "unpacked")
	for _, deb := range debs {
		if _, err := output(exec.CommandContext(ctx, "dpkg", "-x", deb, unpacked)); err != nil {
			return err
		}
	}
	return os.Rename(unpacked, dir)
}

// rootPackages are what a guest needs that has not the host's root: a system, what
// agents and tests run, and the services of the tests that are chosen here. Their
// scripts are not run, for they would need a machine of their architecture.
var rootPackages = strings.Fields(`
	base-files base-passwd bash coreutils dash debianutils findutils grep gzip hostname iproute2 kmod libc-bin mawk mount
	netbase nftables procps sed tar util-linux curl openssl
	nginx haproxy redis-server memcached python3 apache2-utils`)

// rootLayout changes when root makes something else of the same packages.
const rootLayout = "2"

// root is a directory with these packages and what they depend on.
func (a *archive) root(ctx context.Context) (string, error) {
	install := append([]string{"-q", "-y", "--no-install-recommends", "install"}, rootPackages...)
	uris, err := output(a.command(ctx, "apt-get", append([]string{"--print-uris", "-q"}, install...)...))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(a.dir, fmt.Sprintf("root-%x", sha256.Sum256([]byte(uris+rootLayout)))[:21])
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return dir, err
	}
	fmt.Fprintf(os.Stderr, "downloading a root file system, %s\n", a.arch)
	if _, err := output(a.command(ctx, "apt-get", append([]string{"--download-only"}, install...)...)); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(a.dir, "unpack-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }()
	debs, _ := filepath.Glob(filepath.Join(a.dir, "cache/archives/*.deb")) // the pattern is right
	for _, deb := range debs {
		if _, err := output(exec.CommandContext(ctx, "dpkg", "-x", deb, work)); err != nil {
			return "", err
		}
		if err := os.Remove(deb); err != nil {
			return "", err
		}
	}
	run := filepath.Join(work, "var/run") // as base-files' script does
	if err := errors.Join(os.RemoveAll(run), os.Symlink("/run", run)); err != nil {
		return "", err
	}
	for _, name := range []string{"passwd", "group"} { // as base-passwd's script does
		text, err := os.ReadFile(filepath.Join(work, "usr/share/base-passwd", name+".master"))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(work, "etc", name), text, 0o644); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return "", err
	}
	old, _ := filepath.Glob(filepath.Join(a.dir, "root-*"))
	for _, d := range old {
		if err := os.RemoveAll(d); err != nil {
			return "", err
		}
	}
	return dir, os.Rename(work, dir)
}

// systemPackages are what a user's machine has before Tare comes.
var systemPackages = strings.Fields("systemd systemd-sysv dbus kmod iproute2 procps curl sudo ca-certificates python3 nginx-light")

// system is a directory with a Debian 12 that boots, as its installer would leave it: the
// packages' scripts have run.
func (a *archive) system(ctx context.Context) (string, error) {
	dir := filepath.Join(a.dir, fmt.Sprintf("system-%x", sha256.Sum256([]byte(strings.Join(systemPackages, " "))))[:23])
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return dir, err
	}
	fmt.Fprintln(os.Stderr, "installing a Debian 12 into a directory")
	work := filepath.Join(a.dir, "system-unfinished")
	old, _ := filepath.Glob(filepath.Join(a.dir, "system-*")) // the pattern is right
	for _, d := range old {
		if err := os.RemoveAll(d); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--variant=minbase", "--include="+strings.Join(systemPackages, ","), "bookworm", work, "-")
	cmd.Stdin = strings.NewReader(sources)
	if _, err := output(cmd); err != nil {
		return "", err
	}
	return dir, os.Rename(work, dir)
}
