package workloads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Requirement is a program that is needed, or a file whose absolute path may be a pattern, and the package that has it:
// the name is the same in Debian 12, Ubuntu 22.04 and 24.04.
type Requirement struct {
	Executable string
	Package    string
	// Preferred is another program that does the same and is taken where it is installed, or
	// none. Its package has its name; Ensure installs it where the distribution has it.
	Preferred string
	// Unit is the systemd service that the package would start, or none.
	Unit string
}

// What several chains need.
var (
	nginxPackage     = Requirement{Executable: "nginx", Package: "nginx", Unit: "nginx.service"}
	pythonPackage    = Requirement{Executable: "python3", Package: "python3"}
	redisPackage     = Requirement{Executable: "redis-server", Package: "redis-server", Unit: "redis-server.service", Preferred: "valkey-server"}
	postgresPackage  = Requirement{Executable: "postgres", Package: "postgresql", Unit: "postgresql.service"}
	memcachedPackage = Requirement{Executable: "memcached", Package: "memcached", Unit: "memcached.service"}
)

// Requirements of chains. Our own services need nothing but their executables,
// which no package has, and a user's command needs nothing that is known.
func Requirements(chains ...string) ([]Requirement, error) {
	var needed []Requirement
	for _, name := range chains {
		p, err := find(name)
		if err != nil {
			return nil, err
		}
		needed = append(needed, p.requires...)
	}
	return needed, nil
}

// Missing is what the chains need and this machine does not have.
func Missing(chains ...string) ([]Requirement, error) {
	needed, err := Requirements(chains...)
	return missing(needed), err
}

func missing(needed []Requirement) (all []Requirement) {
	for _, r := range needed {
		if !r.there() && !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}

func (r Requirement) there() bool {
	if filepath.IsAbs(r.Executable) {
		found, err := filepath.Glob(r.Executable)
		return err == nil && len(found) > 0
	}
	_, err := r.executable()
	return err == nil
}

// executable is the path of the preferred program, or else of the other one.
func (r Requirement) executable() (string, error) {
	if r.Preferred != "" {
		if path, err := executable(r.Preferred); err == nil {
			return path, nil
		}
	}
	return executable(r.Executable)
}

// Ensure installs what is needed and missing with apt-get, and tells w what it
// installs and what apt-get says. Services that come with the packages are
// neither started nor enabled.
func Ensure(ctx context.Context, w io.Writer, needed []Requirement) error {
	missed := missing(needed)
	if len(missed) == 0 {
		return nil
	}
	var packages, units []string
	for _, r := range missed {
		if r.Preferred != "" && exec.CommandContext(ctx, "apt-cache", "show", r.Preferred).Run() == nil { //nolint:gosec // our own lists
			r.Package, r.Unit = r.Preferred, r.Preferred+".service"
		}
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
	if still := missing(needed); len(still) > 0 {
		return fmt.Errorf("%s was installed, but these are still missing: %v", list, still)
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
