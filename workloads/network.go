package workloads

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Network is a network namespace joined to the caller's by a veth pair, as
// another host would be by a cable. What runs inside reaches the laboratory's
// side (Gateway) and its own loopback, and nothing else: there is no route out.
//
// Everything that leaves the namespace passes Link and is counted in its
// rx_bytes (/sys/class/net/LINK/statistics): Ethernet, IP and TCP headers,
// acknowledgements and ARP included. Segmentation offload stays as the kernel
// has it, so that sending costs what it usually costs: up to 64 KiB of payload
// then count as one packet with one set of headers. On a wire they would be 45
// packets with 54 bytes and more of headers each, 4 % of the whole. IPv6 is off
// on the link, which would add packets of its own.
//
// The caller's firewall applies to what comes from the namespace: it must
// accept TCP on Link.
type Network struct {
	Name    string // of the namespace, as `ip netns` lists it
	Host    string // IPv4 address of the service's side
	Gateway string // IPv4 address of the laboratory's side
	Link    string // name of the veth on the laboratory's side
	Path    string // of the namespace, for nsenter --net=
	// Resolv is a file that what runs inside has in place of /etc/resolv.conf; "": the host's.
	Resolv string

	once   sync.Once
	err    error
	second *Network // nil: it was never asked for
}

// netnsDir is where iproute2 keeps the names of network namespaces.
const netnsDir = "/var/run/netns"

// networks serializes this process' search for free addresses, and counts.
var networks struct {
	sync.Mutex
	made uint64
}

// NewNetwork makes a namespace whose name holds name, joins it to the caller's
// and gives both sides addresses of a private /30 that overlaps no route of
// the caller. It needs root, iproute2 and util-linux. Networks of processes
// that ended without closing them are removed first.
func NewNetwork(name string) (*Network, error) {
	if err := mayMakeNetworks(os.Geteuid()); err != nil {
		return nil, err
	}
	networks.Lock()
	defer networks.Unlock()
	if err := removeStale(); err != nil {
		return nil, err
	}
	n, err := chooseSubnet(name)
	if err != nil {
		return nil, err
	}
	if err := n.make(nil); err != nil {
		return nil, errors.Join(fmt.Errorf("network namespace %s: %w", n.Name, err), n.Close())
	}
	return n, nil
}

// Second is another namespace, as a second host of the services: joined to this one
// by a cable of its own, which Link does not count. It is made when it is first asked
// for. It reaches this one directly, and the laboratory's side through it: the
// gateway of the second is the first. Close closes both.
func (n *Network) Second() (*Network, error) {
	networks.Lock()
	defer networks.Unlock()
	if n.second != nil {
		return n.second, nil
	}
	second, err := chooseSubnet("second")
	if err != nil {
		return nil, err
	}
	n.second = second
	if err := second.make(n); err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", second.Name, err)
	}
	return second, nil
}

// chooseSubnet chooses names and addresses; networks is locked.
func chooseSubnet(name string) (*Network, error) {
	taken, err := takenPrefixes()
	if err != nil {
		return nil, err
	}
	subnet, err := freeSubnet(taken, rand.Uint32()) //nolint:gosec // not a secret
	if err != nil {
		return nil, err
	}
	start, err := startTime(os.Getpid())
	if err != nil {
		return nil, err
	}
	networks.made++
	o := owner{pid: os.Getpid(), start: start, n: networks.made}
	gateway := subnet.Addr().Next()
	n := &Network{
		Name:    o.namespace(name),
		Link:    o.link(),
		Gateway: gateway.String(),
		Host:    gateway.Next().String(),
	}
	n.Path = filepath.Join(netnsDir, n.Name)
	return n, nil
}

func mayMakeNetworks(euid int) error {
	if euid != 0 {
		return errors.New("a network namespace needs root: run with sudo")
	}
	for tool, of := range map[string]string{"ip": "iproute2", "nsenter": "util-linux"} {
		if _, err := executable(tool); err != nil {
			return fmt.Errorf("a network namespace: %w: try \"apt-get install %s\"", err, of)
		}
	}
	return nil
}

// make makes the namespace, joined to the caller's or, if first is not nil, to that one,
// which is its way out then. The laboratory's route to it ends with first's link.
func (n *Network) make(first *Network) error {
	const inside = "eth0"
	in, beside := []string{"-n", n.Name}, []string(nil) // the namespaces of both ends
	if first != nil {
		beside = []string{"-n", first.Name}
	}
	end := func(ns []string, args ...string) []string { return slices.Concat(ns, args) }
	all := func(commands ...[]string) error {
		for _, args := range commands {
			if _, err := ip(args...); err != nil {
				return err
			}
		}
		return nil
	}
	if err := all(
		[]string{"netns", "add", n.Name},
		end(beside, "link", "add", n.Link, "type", "veth", "peer", "name", inside, "netns", n.Name),
		end(beside, "address", "add", n.Gateway+"/30", "dev", n.Link),
		end(in, "address", "add", n.Host+"/30", "dev", inside),
	); err != nil {
		return err
	}
	// Without an address, IPv6 sends no solicitations of its own. It fails
	// where the kernel has no IPv6, which serves as well.
	_, _ = ip(end(beside, "link", "set", n.Link, "addrgenmode", "none")...)
	_, _ = ip(end(in, "link", "set", inside, "addrgenmode", "none")...)
	if err := all(
		end(in, "link", "set", "lo", "up"),
		end(in, "link", "set", inside, "up"),
		end(beside, "link", "set", n.Link, "up"),
	); err != nil || first == nil {
		return err
	}
	if err := all(
		end(in, "route", "add", "default", "via", n.Gateway),
		[]string{"route", "add", n.Host + "/32", "via", first.Host, "dev", first.Link},
	); err != nil {
		return err
	}
	argv, err := first.command([]string{"sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"}) // of that namespace only
	if err != nil {
		return err
	}
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("forwarding: %w: %s", err, out)
	}
	return nil
}

// Close removes the namespace and the link. Processes that still run in the
// namespace keep it, without its link, until they end. It may be called more
// than once.
func (n *Network) Close() error {
	n.once.Do(func() {
		if n.second != nil {
			n.err = n.second.Close()
		}
		n.err = errors.Join(n.err, remove(n.Name, n.Link))
	})
	return n.err
}

// remove removes what is there of a network.
func remove(name, link string) error {
	var errs []error
	if _, err := os.Lstat(filepath.Join("/sys/class/net", link)); err == nil {
		_, err := ip("link", "delete", link)
		errs = append(errs, err)
	}
	if _, err := os.Lstat(filepath.Join(netnsDir, name)); err == nil {
		_, err := ip("netns", "delete", name)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// command is how argv is started in the network: nsenter becomes it by exec, so
// the process is the one that was started. Without a network it is argv.
func (n *Network) command(argv []string) ([]string, error) {
	if n == nil {
		return argv, nil
	}
	nsenter, err := executable("nsenter")
	if err != nil {
		return nil, fmt.Errorf("%w: try \"apt-get install util-linux\"", err)
	}
	return append([]string{nsenter, "--net=" + n.Path, "--"}, WithResolv(n.Resolv, argv)...), nil
}

// WithResolv is how argv is started with a file in place of /etc/resolv.conf, in a mount
// namespace of its own that sees what is mounted on the host later. What it starts becomes
// argv by exec. It needs root and util-linux. With "", it is argv.
func WithResolv(file string, argv []string) []string {
	if file == "" {
		return argv
	}
	return append([]string{"unshare", "--mount", "--propagation", "slave", "--", "sh", "-c", `mount --bind "$0" /etc/resolv.conf && exec "$@"`, file}, argv...)
}

// ip runs iproute2's ip.
func ip(args ...string) ([]byte, error) {
	exe, err := executable("ip")
	if err != nil {
		return nil, err
	}
	// A netlink request takes milliseconds, or some more behind the kernel's
	// one lock for all of them.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, exe, args...).Output()
	if err != nil {
		said := ""
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			said = ": " + strings.TrimSpace(string(exit.Stderr))
		}
		return nil, fmt.Errorf("ip %s: %w%s", strings.Join(args, " "), err, said)
	}
	return out, nil
}

// owner is who made a network. The names of a network tell, so that whoever
// comes later can remove what a killed process left. A pid alone would not
// do: it is given to another process one day.
type owner struct {
	pid   int
	start uint64 // of the process, clock ticks since boot
	n     uint64 // counts the owner's networks
}

func (o owner) namespace(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
	return fmt.Sprintf("tare-%d-%d-%d-%s", o.pid, o.start, o.n, clean[:min(len(clean), 64)])
}

// link has at most 15 bytes (IFNAMSIZ): pids end at 4194304, which leaves
// 46,656 networks to a process.
func (o owner) link() string {
	return fmt.Sprintf("tare%d-%s", o.pid, strconv.FormatUint(o.n, 36))
}

// ownerOf reads the name of a namespace.
func ownerOf(name string) (owner, bool) {
	parts := strings.SplitN(name, "-", 5)
	if len(parts) != 5 || parts[0] != "tare" {
		return owner{}, false
	}
	pid, err1 := strconv.Atoi(parts[1])
	start, err2 := strconv.ParseUint(parts[2], 10, 64)
	n, err3 := strconv.ParseUint(parts[3], 10, 64)
	return owner{pid: pid, start: start, n: n}, err1 == nil && err2 == nil && err3 == nil && pid > 0
}

// removeStale removes networks whose owner is gone.
func removeStale() error {
	entries, err := os.ReadDir(netnsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		o, ok := ownerOf(e.Name())
		if !ok {
			continue
		}
		if start, err := startTime(o.pid); err == nil && start == o.start {
			continue
		}
		// Another process may do the same just now: what is gone is gone.
		if err := remove(e.Name(), o.link()); err != nil {
			if _, statErr := os.Lstat(filepath.Join(netnsDir, e.Name())); statErr == nil {
				return fmt.Errorf("network namespace %s, left by a process that is gone: %w", e.Name(), err)
			}
		}
	}
	return nil
}
