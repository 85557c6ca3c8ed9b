package main

import (
	"context"
	_ "embed" // the guest's first process
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed init.sh
var initScript []byte

// bootModules are what the first process needs to reach the host's files.
var bootModules = []string{"virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"}

// initrd packs the first process, a shell and the modules it loads.
func (a *archive) initrd(ctx context.Context, i *image, dir string) (string, error) {
	work := filepath.Join(dir, "initrd.d")
	for _, d := range []string{"bin", "proc", "sys", "dev", "modules"} {
		if err := os.MkdirAll(filepath.Join(work, d), 0o755); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(work, "init"), initScript, 0o755); err != nil {
		return "", err
	}
	shell, err := a.shell(ctx)
	if err != nil {
		return "", err
	}
	if _, err := output(exec.CommandContext(ctx, "cp", shell, filepath.Join(work, "bin"))); err != nil {
		return "", err
	}
	if err := i.modules(ctx, bootModules, filepath.Join(work, "modules")); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "initrd")
	return path, pack(ctx, work, path)
}

// shell is a busybox that needs no libraries.
func (a *archive) shell(ctx context.Context) (string, error) {
	const name = "busybox-static"
	dir := filepath.Join(a.dir, name)
	return filepath.Join(dir, "bin/busybox"), a.fetch(ctx, name, dir)
}

// modules copies modules and what they need to a directory, and the order in which they are to be loaded to its file
// "order".
func (i *image) modules(ctx context.Context, names []string, to string) error {
	var order []string
	for _, m := range names {
		needs, err := output(exec.CommandContext(ctx, "modprobe", "-d", i.base, "-S", i.release, "--show-depends", m))
		if err != nil {
			return err
		}
		for line := range strings.Lines(needs) {
			path, ok := strings.CutPrefix(strings.TrimSpace(line), "insmod ")
			name, _, _ := strings.Cut(filepath.Base(path), ".")
			if !ok || slices.Contains(order, name) {
				continue // built in, or there already
			}
			read := []string{"cat", path}
			if filepath.Ext(path) == ".xz" {
				read = []string{"xz", "-dc", path}
			}
			module, err := output(exec.CommandContext(ctx, read[0], read[1:]...))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(to, name), []byte(module), 0o644); err != nil {
				return err
			}
			order = append(order, name)
		}
	}
	return os.WriteFile(filepath.Join(to, "order"), []byte(strings.Join(order, "\n")), 0o644)
}

// pack makes an initial root file system of a directory.
func pack(ctx context.Context, dir, path string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", `find . | LC_ALL=C sort | cpio --quiet -o -H newc --reproducible >"$0"`, path)
	cmd.Dir = dir
	_, err := output(cmd)
	return err
}

// A guest is one boot of a kernel.
type guest struct {
	*image
	initrd string
	root   string // its file system, below what it writes
	tree   string // the repository, at the same place in the guest
	bin    string // binaries for it, below tree
	out    string // a directory that both see, the guest as /out
	init   string // "systemd" runs the command, not the first process
}

// errGuest is what the guest's kernel did wrong, whatever its command said.
var errGuest = errors.New("the guest failed")

// run boots, runs a command as root in the repository's directory, and gives the
// command's exit status.
func (g *guest) run(ctx context.Context, command string, to io.Writer) (int, error) {
	for name, text := range map[string]string{"command": command, "console": ""} {
		if err := os.WriteFile(filepath.Join(g.out, name), []byte(text+"\n"), 0o644); err != nil {
			return 0, err
		}
	}
	argv := map[string][]string{
		"amd64": {"qemu-system-x86_64", "-machine", "q35", "-cpu", "max", "-accel", "tcg,thread=single", "-append", "console=ttyS0 tsc=reliable mitigations=off "},
		"arm64": {"qemu-system-aarch64", "-machine", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on", "-accel", "tcg,thread=multi", "-append", "console=ttyAMA0 "},
	}[g.arch]
	argv[len(argv)-1] += fmt.Sprintf("quiet panic=-1 oops=panic nosoftlockup rcupdate.rcu_cpu_stall_suppress=1 tare.tree=%s tare.bin=%s tare.init=%s tare.clock=%d",
		g.tree, g.bin, g.init, time.Now().Unix())
	// One processor: with several (QEMU 7.2), a guest died at the second byte of a jump in tcp_connect that attaching
	// sock_ops programs patches, of a breakpoint, it seems, that was gone already.
	argv = append(argv, "-smp", "1", "-m", "2G",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-serial", "file:"+filepath.Join(g.out, "console"),
		"-kernel", g.vmlinuz, "-initrd", g.initrd, "-device", "virtio-rng-pci",
		"-chardev", "file,id=output,path=/dev/stdout", "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=output")
	for _, share := range []struct{ tag, path, options string }{
		{"root", g.root, ",readonly=on"}, {"tree", g.tree, ",readonly=on"},
		{"modules", filepath.Join(g.base, "lib/modules"), ",readonly=on"}, {"out", g.out, ""},
	} {
		argv = append(argv, "-fsdev", fmt.Sprintf("local,id=%s,path=%s,security_model=none,multidevs=remap%s", share.tag, share.path, share.options),
			"-device", fmt.Sprintf("virtio-9p-pci,fsdev=%[1]s,mount_tag=%[1]s", share.tag))
	}
	var problems strings.Builder
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// A pipe even where to is a file: QEMU opens it again, and would cut a file.
	cmd.Stdout, cmd.Stderr = struct{ io.Writer }{to}, &problems
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("%w: it had not ended: %w; its console:\n%s", errGuest, context.Cause(ctx), g.console())
	case err != nil:
		return 0, fmt.Errorf("%s: %w\n%s", argv[0], err, problems.String())
	}
	status, err := strconv.Atoi(g.read("status"))
	if err != nil {
		return 0, fmt.Errorf("%w: it ended before its command did; its console:\n%s", errGuest, g.console())
	}
	if said := complaint.FindString(g.read("dmesg")); said != "" {
		return status, fmt.Errorf("%w: its kernel complained:\n%s", errGuest, said)
	}
	return status, nil
}

// complaint is the kernel's about itself, to the end of what it said.
var complaint = regexp.MustCompile(`(?s)\[[ .0-9]+\] (WARNING: |BUG: |Oops|Kernel panic|Unable to handle|Internal error|general protection|[a-z0-9 ]+: [0-9a-f]{4} \[#1\]).*`)

func (g *guest) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(g.out, name)) // not there: it did not come so far
	return strings.TrimSpace(string(text))
}

// console is what the kernel complained of, else the last it wrote.
func (g *guest) console() string {
	text := g.read("console")
	if said := complaint.FindString(text); said != "" {
		return said
	}
	return tail(text, 40)
}
