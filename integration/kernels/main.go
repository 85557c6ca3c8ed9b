// Command kernels boots kernels that people run, in QEMU's software emulation, and
// runs Tare's own binaries and tests in them. It says what works, never how fast.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	status, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "kernels: %v\n", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

func run(ctx context.Context, args []string) (int, error) {
	var o options
	flags := flag.NewFlagSet("kernels", flag.ContinueOnError)
	flags.StringVar(&o.kernels, "kernels", "", "which, such as 6.1-amd64,6.12-arm64 (default: all)")
	flags.StringVar(&o.tests, "tests", "", "those that match this regular expression (default: all)")
	flags.StringVar(&o.exec, "exec", "", "a shell command to run in each guest, in place of the tests; builds nothing")
	flags.BoolVar(&o.system, "system", false, "with -exec: in a fresh Debian 12 with systemd, nginx and Python, in place of this host's files; amd64 only")
	flags.StringVar(&o.record, "record", "", "file in which results of these kernels are replaced; with all tests only")
	flags.BoolVar(&o.update, "update", false, "write anew what doctor is expected to say")
	flags.IntVar(&o.parallel, "parallel", 1, "guests at once")
	flags.DurationVar(&o.timeout, "timeout", time.Hour, "for one guest")
	flags.BoolVar(&o.count, "count", false, "count the instructions of a request, exactly, in place of the tests")
	flags.StringVar(&o.connections, "connections", "1,32", "with -count: how many at once")
	flags.StringVar(&o.check, "check", "", "with -count: file of results that must not be exceeded; counts untraced requests and a rate of 1% only")
	flags.StringVar(&o.against, "against", "", "with -count: another executable tare-agent, to show what has changed since")
	flags.IntVar(&o.top, "top", 0, "with -count: print this many symbols of the kernel and functions of the agent, too")
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	kernels, err := choose(o.kernels)
	if err != nil {
		return 2, err
	}
	chosen, err := matching(o.tests)
	if err != nil {
		return 2, err
	}
	if o.system && (o.exec == "" || slices.ContainsFunc(kernels, func(k kernel) bool { return k.arch != runtime.GOARCH })) {
		return 2, errors.New("-system needs -exec, and kernels of this machine's architecture: -kernels 6.1-" + runtime.GOARCH)
	}
	if err := tools(kernels, o); err != nil {
		return 2, err
	}
	cache, err := cacheDir()
	if err != nil {
		return 2, err
	}
	if o.count {
		if err := count(ctx, cache, kernels, o); err != nil {
			return 1, err
		}
		return 0, nil
	}
	if o.exec != "" {
		for _, k := range kernels {
			if status, err := execute(ctx, cache, k, o); err != nil || status != 0 {
				return status, err
			}
		}
		return 0, nil
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return 1, err
	}
	columns, failed := matrix(ctx, cache, kernels, chosen, o)
	if o.record != "" && o.tests == "" {
		if err := record(o.record, columns); err != nil {
			return 1, err
		}
	}
	return 0, failed
}

// options are what was asked for.
type options struct {
	kernels, tests, exec, record string
	update, system, count        bool
	connections, check, against  string
	top                          int
	parallel                     int
	timeout                      time.Duration
}

// logs is where what guests write is kept.
const logs = "bin/kernels/logs"

func execute(ctx context.Context, cache string, k kernel, o options) (int, error) {
	g, err := prepare(ctx, cache, k, o.system)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", k, err)
	}
	defer func() { _ = os.RemoveAll(g.out) }()
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("after %v", o.timeout))
	defer cancel()
	status, err := g.run(ctx, o.exec, os.Stdout)
	if err != nil {
		err = fmt.Errorf("%s: %w", k, err)
	}
	return status, err
}

// choose finds kernels by their names, separated by commas or spaces.
func choose(names string) ([]kernel, error) {
	var chosen []kernel
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' }) {
		all := slices.Concat(kernels, others)
		i := slices.IndexFunc(all, func(k kernel) bool { return k.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("no kernel %q: there are %v", name, all)
		}
		chosen = append(chosen, all[i])
	}
	if len(chosen) == 0 {
		chosen = kernels
	}
	return chosen, nil
}

// tools are what this command runs, and the Debian packages that have them.
func tools(chosen []kernel, o options) error {
	needs := map[string]string{"apt-get": "apt", "dpkg": "dpkg", "depmod": "kmod", "cpio": "cpio", "xz": "xz-utils"}
	if o.system {
		needs["mmdebstrap"] = "mmdebstrap"
	}
	if o.count {
		maps.Copy(needs, map[string]string{"gcc": "gcc libc6-dev", "nginx": "nginx-light"})
	}
	for _, k := range chosen {
		switch k.arch {
		case "amd64":
			needs["qemu-system-x86_64"] = "qemu-system-x86"
		case "arm64":
			needs["qemu-system-aarch64"] = "qemu-system-arm"
		}
	}
	var missing []string
	for tool, of := range needs {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, of)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("needs what is not installed: apt-get install --no-install-recommends %s", strings.Join(slices.Compact(missing), " "))
	}
	return nil
}

// cacheDir is where downloads stay, for all clones of the repository.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("where to keep downloads: %w", err)
	}
	dir = filepath.Join(dir, "tare-kernels")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	const room = 3 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err == nil && fs.Bavail*uint64(fs.Bsize) < room {
		return "", fmt.Errorf("%s: less than %d GiB are free", dir, room>>30)
	}
	return dir, nil
}

// lock lets one process at a time use the cache.
func lock(cache string) (unlock func(), err error) {
	f, err := os.Create(filepath.Join(cache, "lock"))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // unlocks
}

// prepare makes a guest ready to boot. One at a time downloads.
func prepare(ctx context.Context, cache string, k kernel, system bool) (*guest, error) {
	tree, err := filepath.Abs(".")
	if err == nil {
		_, err = os.Stat(filepath.Join(tree, "go.mod"))
	}
	if err != nil {
		return nil, fmt.Errorf("run me in the repository's directory: %w", err)
	}
	a, i, unlock, err := newest(ctx, cache, k)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := os.MkdirAll(filepath.Join(tree, binaries(k.arch)), 0o755); err != nil {
		return nil, err
	}
	g := &guest{image: i, root: "/", tree: tree, bin: binaries(k.arch)}
	switch {
	case system:
		g.init = "systemd"
		if g.root, err = a.system(ctx); err != nil {
			return nil, err
		}
	case k.arch != runtime.GOARCH:
		if g.root, err = a.root(ctx); err != nil {
			return nil, err
		}
	}
	if g.out, err = os.MkdirTemp("", "tare-guest-"); err != nil {
		return nil, err
	}
	if g.initrd, err = a.initrd(ctx, i, g.out); err != nil {
		err = errors.Join(err, os.RemoveAll(g.out))
	}
	return g, err
}

// binaries is where those of an architecture are, below the repository.
func binaries(arch string) string {
	if arch == runtime.GOARCH {
		return "bin"
	}
	return filepath.Join("bin/kernels", arch)
}
