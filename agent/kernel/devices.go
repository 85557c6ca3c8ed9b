package kernel

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/tier"
)

// devices holds the links of a program that sees packets leave: one for each device
// of the network namespaces that it was told of.
type devices struct {
	program *ebpf.Program

	mu    sync.Mutex
	links map[device]link.Link
	swept time.Time
}

var errNoEgress = errors.New("--tag ip needs it (Linux 6.6)")

// device is a network device. Both numbers are used again when it is gone.
type device struct {
	namespace uint64 // inode
	index     int
}

// newDevices tries whether the kernel lets the program be attached to devices at all.
func newDevices(p *ebpf.Program) (*devices, error) {
	d := &devices{program: p, links: map[device]link.Link{}}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return nil, fmt.Errorf("find the loopback device: %w", err)
	}
	l, err := d.link(lo.Index)
	if err != nil {
		return nil, fmt.Errorf("attach: %w: %w", errNoEgress, err)
	}
	return d, l.Close()
}

func (d *devices) link(index int) (link.Link, error) {
	return link.AttachTCX(link.TCXOptions{Interface: index, Program: d.program, Attach: tier.Egress.Attach})
}

// attach attaches the program to the devices of the calling thread's network namespace
// that have come, and lets go of those that have gone.
func (d *devices) attach() error {
	var ns unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &ns); err != nil {
		return fmt.Errorf("identify the network namespace: %w", err)
	}
	found, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list the network devices: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	here := map[device]bool{}
	for _, f := range found {
		key := device{ns.Ino, f.Index}
		here[key] = true
		if l := d.links[key]; l != nil && attached(l) {
			continue
		}
		d.release(key)
		l, err := d.link(f.Index)
		switch {
		case err == nil:
			d.links[key] = l
		case !errors.Is(err, syscall.ENODEV): // gone meanwhile
			errs = append(errs, fmt.Errorf("attach %v to device %s: %w", tier.Egress, f.Name, err))
		}
	}
	for key, l := range d.links {
		if key.namespace == ns.Ino && !here[key] || time.Since(d.swept) > time.Minute && !attached(l) {
			d.release(key)
		}
	}
	if time.Since(d.swept) > time.Minute {
		d.swept = time.Now()
	}
	return errors.Join(errs...)
}

// attached reports whether the device is still there.
func attached(l link.Link) bool {
	info, err := l.Info()
	if err != nil {
		return false
	}
	tcx := info.TCX()
	return tcx != nil && tcx.Ifindex != 0
}

// release closes a link, if there is one. d.mu is held.
func (d *devices) release(key device) {
	if l := d.links[key]; l != nil {
		_ = l.Close() // a descriptor
		delete(d.links, key)
	}
}

func (d *devices) close() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.links {
		d.release(key)
	}
}
