package workloads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Requirement is a program that is needed, and the package that has it:
// the name is the same in Debian 12, Ubuntu 22.04 and 24.04.
type Requirement struct {
	Executable string
	Package    string
	// Unit is the systemd service that the package would start, or none.
	Unit string
}

// The thesis service needs nothing but its own executable, which is no package.
var requirements = map[string][]Requirement{
	"counter": {
		{Executable: "redis-server", Package: "redis-server", Unit: "redis-server.service"},
	},
	"nginx": {
		{Executable: "nginx", Package: "nginx", Unit: "nginx.service"},
	},
	"shop": {
		{Executable: "nginx", Package: "nginx", Unit: "nginx.service"},
		{Executable: "python3", Package: "python3"},
		{Executable: "redis-server", Package: "redis-server", Unit: "redis-server.service"},
		{Executable: "memcached", Package: "memcached", Unit: "memcached.service"},
	},
	"command": nil,

	"ab":  {{Executable: "ab", Package: "apache2-utils"}},
	"hey": {{Executable: "hey", Package: "hey"}},
	"wrk": {{Executable: "wrk", Package: "wrk"}},
}

// Requirements of a chain, or of a load generator (hey, wrk, ab). A user's
// command has none.
func Requirements(name string) ([]Requirement, error) {
	needed, ok := requirements[name]
	if _, err := find(name); err != nil && !ok {
		return nil, err
	}
	return slices.Clone(needed), nil
}

// Missing is what the chains and tools need and this machine does not have.
func Missing(names ...string) ([]Requirement, error) {
	var missing []Requirement
	for _, name := range names {
		needed, err := Requirements(name)
		if err != nil {
			return nil, err
		}
		for _, r := range needed {
			if _, err := executable(r.Executable); err != nil && !slices.Contains(missing, r) {
				missing = append(missing, r)
			}
		}
	}
	return missing, nil
}

// Ensure installs what the chains and tools miss with apt-get, and tells w what it
// installs and what apt-get says. Services that come with the packages are
// neither started nor enabled.
func Ensure(ctx context.Context, w io.Writer, names ...string) error {
	missing, err := Missing(names...)
	if err != nil || len(missing) == 0 {
		return err
	}
	var packages, units []string
	for _, r := range missing {
		packages = append(packages, r.Package)
		if r.Unit != "" {
			units = append(units, r.Unit)
		}
	}
	list := strings.Join(packages, " ")
	apt, err := newPrivileged(w)
	if err == nil {
		_, err = exec.LookPath("apt-get")
	}
	if err != nil {
		return fmt.Errorf("missing packages: install them yourself (%s; their Debian names): %w", list, err)
	}
	_, _ = fmt.Fprintf(w, "installing packages of the distribution: %s\n", list)
	if err := apt.install(ctx, packages, units); err != nil {
		return fmt.Errorf("cannot install packages: try \"apt-get install %s\" yourself: %w", list, err)
	}
	if still, err := Missing(names...); err != nil || len(still) > 0 {
		return errors.Join(err, fmt.Errorf("%s was installed, but these are still missing: %v", list, still))
	}
	return nil
}

// privileged runs commands as root.
type privileged struct {
	prefix []string
	w      io.Writer
}

func newPrivileged(w io.Writer) (privileged, error) {
	if os.Geteuid() == 0 {
		return privileged{w: w}, nil
	}
	sudo, err := exec.LookPath("sudo")
	if err != nil {
		return privileged{}, errors.New("this needs root, or sudo")
	}
	return privileged{prefix: []string{sudo}, w: w}, nil
}

func (p privileged) run(ctx context.Context, argv ...string) error {
	argv = append(slices.Clone(p.prefix), argv...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // our own lists
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdin = os.Stdin // sudo may ask for a password
	cmd.Stdout, cmd.Stderr = p.w, p.w
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return nil
}

// install keeps the packages' services from starting. Where systemd runs, a
// mask that is valid until the next boot holds them while the packages'
// scripts run, and it is taken away afterwards, together with the links that
// would start them at boot. (The usual policy-rc.d belongs to the machine's
// owner, and RUNLEVEL=1 is no longer obeyed.) Where it does not run, the
// distribution's scripts start nothing by themselves.
func (p privileged) install(ctx context.Context, packages, units []string) (err error) {
	if _, statErr := os.Stat("/run/systemd/system"); statErr == nil && len(units) > 0 {
		if err := p.run(ctx, append([]string{"systemctl", "--runtime", "mask"}, units...)...); err != nil {
			return err
		}
		defer func() {
			undo := context.WithoutCancel(ctx)
			err = errors.Join(err, p.run(undo, append([]string{"systemctl", "--runtime", "unmask"}, units...)...))
			if err == nil {
				err = p.run(undo, append([]string{"systemctl", "disable"}, units...)...)
			}
		}()
	}
	apt := []string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"}
	if err := p.run(ctx, append(slices.Clone(apt), "update")...); err != nil {
		return err
	}
	return p.run(ctx, append(append(slices.Clone(apt), "install", "--no-install-recommends", "--yes"), packages...)...)
}
