package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
)

// Arm walks the sockets of the calling thread's network namespace, arms what
// AddInode named and renews marks, unless the walk is refused. With bpf.TagIP it
// attaches to the devices there first.
func (t *Tracer) Arm() error {
	if t.devices != nil {
		if err := t.devices.attach(); err != nil {
			return err
		}
	}
	if t.arm == nil {
		return nil
	}
	walk, err := t.arm.Open()
	if err != nil {
		return fmt.Errorf("walk the sockets: %w", err)
	}
	defer walk.Close()
	buf := make([]byte, 4096)
	for {
		if n, err := walk.Read(buf); n == 0 || err != nil {
			return nil // the program writes nothing; EOF ends the walk
		}
	}
}

// tryArm arms a connection of this process to itself: kernels before 6.12 load and
// attach the program, and then refuse what it asks of a socket. The program stays there,
// since it also renews trust and counts the connections that it cannot arm.
func (t *Tracer) tryArm() error {
	i := slices.IndexFunc(t.programs, func(p program) bool { return p.Hook == tier.IterTCP })
	if i < 0 {
		return nil
	}
	_, refused, err := t.armOwn()
	if err == nil && refused > 0 {
		t.lost = append(t.lost, t.programs[i].Lost("a socket's sock_ops flags cannot be set from outside (Linux 6.12)"))
	}
	return err
}

// armOwn arms the accepted end of a connection in a network namespace of its own, and
// counts what became of it; nothing where there can be none. It is called before anything
// is traced, and leaves the maps empty.
func (t *Tracer) armOwn() (armed, refused uint64, err error) {
	onThread(func() { armed, refused, err = t.armHere() })
	return armed, refused, err
}

// onThread runs a function on a thread that ends with it and its namespaces. The main
// thread does not end, and its namespaces are the process's for everybody else: it is
// held meanwhile if it was to be the one.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			onThread(f)
			return
		}
		f()
	}()
	<-done
}

func (t *Tracer) armHere() (armed, refused uint64, err error) {
	l, c, err := connection()
	if err != nil {
		return 0, 0, nil //nolint:nilerr // cannot be tried
	}
	defer l.Close()
	defer c.Close()
	inode, err := inodeOf(l.(*net.TCPListener))
	if err != nil {
		return 0, 0, err
	}
	if err := t.AddInode(inode, bpf.Service{Linking: uint8(bpf.LinkNone)}); err != nil {
		return 0, 0, err
	}
	if err := t.Arm(); err != nil {
		return 0, 0, err
	}
	n, err := t.Counters()
	if err != nil {
		return 0, 0, err
	}
	listeners, err := t.Listeners()
	for k := range listeners {
		err = errors.Join(err, t.RemoveListener(k))
	}
	zero := make([]bpf.TareCounters, ebpf.MustPossibleCPU())
	err = errors.Join(err, t.RemoveInode(inode), t.objs.TareMaps.Counters.Put(uint32(0), zero))
	return n.N[bpf.TareCounterTARE_C_ARMED], n.N[bpf.TareCounterTARE_C_UNARMED], err
}

// connection connects this thread to itself in a new network namespace, not by a
// loopback address: such connections need no flags.
func connection() (net.Listener, net.Conn, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return nil, nil, err
	}
	address := net.IPv4(192, 0, 2, 1).To4()
	err = errors.Join(lo.SetInet4Addr(address), unix.IoctlIfreq(fd, unix.SIOCSIFADDR, lo))
	lo.SetUint16(unix.IFF_UP)
	if err = errors.Join(err, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)); err != nil {
		return nil, nil, err
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // the walk would meet a subflow, which has no inode
	l, err := lc.Listen(context.Background(), "tcp4", net.JoinHostPort(net.IP(address).String(), "0"))
	if err != nil {
		return nil, nil, err
	}
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, c, nil
}

func inodeOf(l *net.TCPListener) (uint64, error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return 0, err
	}
	var s unix.Stat_t
	var statErr error
	if err := raw.Control(func(fd uintptr) { statErr = unix.Fstat(int(fd), &s) }); err != nil { //nolint:gosec // a descriptor
		return 0, err
	}
	return s.Ino, statErr
}

// loadNV has the kernel load its module of the congestion control nv, as it does
// for whoever asks for it by a socket option.
func loadNV() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "nv"); err != nil {
		return fmt.Errorf("arm open connections by the congestion control nv (module tcp_nv), which this kernel does not have or load: %w", err)
	}
	return nil
}
