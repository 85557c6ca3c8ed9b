package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed count
var countFiles embed.FS

// A counter boots guests in which every instruction is counted.
type counter struct {
	dir       string  // of what is compiled, and of runs
	agent     string  // the executable
	functions symbols // its own
}

// A countGuest is a kernel, with all that runs on it.
type countGuest struct {
	*image
	initrd  string
	symbols symbols
}

// compile makes the plugin, the load and the receiver of the sources here.
func (c *counter) compile(ctx context.Context) error {
	for _, what := range []struct {
		out, source string
		flags       []string
	}{
		{"plugin.so", "plugin.c", []string{"-shared", "-fPIC"}},
		{"load", "load.c", []string{"-static", fmt.Sprintf("-Wl,-Ttext-segment=%#x", loadAt)}},
		{"sink", "sink.c", []string{"-static", fmt.Sprintf("-Wl,-Ttext-segment=%#x", sinkAt)}},
	} {
		source, err := countFiles.ReadFile("count/" + what.source)
		if err != nil {
			return err
		}
		file := filepath.Join(c.dir, what.source)
		if err := os.WriteFile(file, source, 0o644); err != nil {
			return err
		}
		if _, err := output(exec.CommandContext(ctx, "gcc", append([]string{"-O2", "-Wall", "-Werror", "-o", filepath.Join(c.dir, what.out), file}, what.flags...)...)); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes a kernel ready to boot.
func (c *counter) prepare(ctx context.Context, cache string, k kernel) (*countGuest, error) {
	a, i, unlock, err := newest(ctx, cache, k)
	if err != nil {
		return nil, err
	}
	defer unlock()
	g := &countGuest{image: i}
	if g.initrd, err = c.root(ctx, a, g.image); err != nil {
		return nil, err
	}
	g.symbols, err = c.symbolsOf(ctx, cache, g)
	return g, err
}

// agentModules are what the agent asks the kernel for.
var agentModules = []string{"inet_diag", "tcp_diag", "udp_diag", "unix_diag"}

var library = regexp.MustCompile(`/\S+`)

// root packs the whole file system of a guest.
func (c *counter) root(ctx context.Context, a *archive, i *image) (string, error) {
	const nginx = "/usr/sbin/nginx"
	work := filepath.Join(c.dir, i.release)
	for _, d := range []string{"bin", "sbin", "proc", "sys", "dev", "run", "etc", "modules", "tmp/proxy", "tmp/backend", "var/log/nginx", "var/lib/nginx"} {
		if err := os.MkdirAll(filepath.Join(work, d), 0o755); err != nil {
			return "", err
		}
	}
	shell, err := a.shell(ctx)
	if err != nil {
		return "", err
	}
	copies := map[string]string{
		shell: "bin/busybox", nginx: "bin/nginx", c.agent: "bin/tare-agent",
		filepath.Join(c.dir, "load"): "bin/load", filepath.Join(c.dir, "sink"): "bin/sink",
	}
	linked, err := output(exec.CommandContext(ctx, "ldd", nginx))
	if err != nil {
		return "", err
	}
	for _, file := range library.FindAllString(linked, -1) {
		copies[file] = file
	}
	for from, to := range copies {
		to = filepath.Join(work, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return "", err
		}
		if _, err := output(exec.CommandContext(ctx, "cp", "-L", from, to)); err != nil {
			return "", err
		}
	}
	if err := i.modules(ctx, agentModules, filepath.Join(work, "modules")); err != nil {
		return "", err
	}
	for name, text := range map[string]string{
		"passwd": "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n", "group": "root:x:0:\nnogroup:x:65534:\n",
		"hosts": "127.0.0.1 localhost\n", "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	} {
		if err := os.WriteFile(filepath.Join(work, "etc", name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	for from, to := range map[string]string{"init.sh": "init", "proxy.conf": "etc/proxy.conf", "backend.conf": "etc/backend.conf"} {
		text, err := countFiles.ReadFile("count/" + from)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(work, to), text, 0o755); err != nil {
			return "", err
		}
	}
	return work + ".cpio", pack(ctx, work, work+".cpio")
}

// boot runs a guest to its end. It leaves in dir: console, symbols and blocks.
func (c *counter) boot(ctx context.Context, g *countGuest, dir, arguments string) error {
	var problems bytes.Buffer
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-machine", "q35,accel=tcg,hpet=off", "-cpu", "max", "-smp", "1", "-m", "1500M",
		// One instruction is a nanosecond, and where nothing runs, the clock leaps to the next event.
		"-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01T00:00:00,clock=vm", "-seed", "1",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-serial", "file:"+filepath.Join(dir, "console"), "-serial", "file:"+filepath.Join(dir, "symbols"),
		"-plugin", filepath.Join(c.dir, "plugin.so")+",out="+filepath.Join(dir, "blocks"),
		"-kernel", g.vmlinuz, "-initrd", g.initrd,
		"-append", "console=ttyS0 quiet panic=-1 oops=panic nokaslr norandmaps tsc=reliable nosoftlockup rcupdate.rcu_cpu_stall_suppress=1 "+
			"random.trust_cpu=on mitigations=off damon_stat.enabled=0 "+arguments)
	cmd.Stderr = &problems
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		console, _ := os.ReadFile(filepath.Join(dir, "console")) // empty: nothing came
		return fmt.Errorf("%w: it had not ended: %w; its console:\n%s", errGuest, context.Cause(ctx), tail(string(console), 40))
	case err != nil:
		return fmt.Errorf("%s: %w\n%s", cmd.Args[0], err, problems.String())
	}
	return nil
}

// run counts one way of tracing.
func (c *counter) run(ctx context.Context, g *countGuest, r *counted, flags string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("after %v", timeout))
	defer cancel()
	dir, err := os.MkdirTemp(c.dir, "run-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	arguments := fmt.Sprintf("count.connections=%d count.warm=%d count.requests=%d", r.Connections, warmRequests, r.Requests)
	if flags != "" {
		arguments += " count.agent=" + strings.ReplaceAll(flags, " ", ",")
	}
	if err := c.boot(ctx, g, dir, arguments); err != nil {
		return err
	}
	console, err := os.ReadFile(filepath.Join(dir, "console"))
	if err == nil {
		err = r.parse(bytes.ReplaceAll(console, []byte("\r"), nil))
	}
	if err != nil {
		return err
	}
	loaded, err := os.ReadFile(filepath.Join(dir, "symbols"))
	if err != nil {
		return err
	}
	blocks, err := readBlocks(filepath.Join(dir, "blocks"))
	if err != nil {
		return err
	}
	kernel := slices.Concat(slices.DeleteFunc(slices.Clone(g.symbols), func(s symbol) bool { return strings.HasPrefix(s.name, programPrefix) }),
		parseSymbols(bytes.NewReader(loaded)))
	slices.SortStableFunc(kernel, func(a, b symbol) int { return cmp.Compare(a.at, b.at) })
	r.attribute(blocks, kernel, c.functions)
	sum := 0.0
	for _, n := range r.Parts {
		sum += n
	}
	if sum < 0.98*r.Instructions || sum > 1.02*r.Instructions {
		return fmt.Errorf("the clock tells %.0f instructions per request, the plugin %.0f", r.Instructions, sum)
	}
	return nil
}
