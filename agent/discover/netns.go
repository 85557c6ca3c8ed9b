package discover

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// InNetNS runs fn in the network namespace of a process, on a thread of its
// own. fn must not start goroutines that count on the namespace: they run on
// other threads. Entering another namespace takes CAP_SYS_ADMIN; in the
// agent's own, fn simply runs.
func InNetNS(pid int, fn func() error) error {
	target, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return fmt.Errorf("network namespace of process %d: %w", pid, err)
	}
	defer func() { _ = target.Close() }() // only a handle
	same, err := isOwnNetNS(target)
	if err != nil {
		return fmt.Errorf("network namespace of process %d: %w", pid, err)
	}
	if same {
		return fn()
	}

	done := make(chan error, 1)
	go func() {
		err := errors.New("the function did not return")
		defer func() { done <- err }()
		runtime.LockOSThread()
		own, openErr := os.Open("/proc/thread-self/ns/net")
		if openErr != nil {
			err = openErr
			runtime.UnlockOSThread()
			return
		}
		defer func() { _ = own.Close() }() // only a handle
		if setErr := unix.Setns(int(target.Fd()), unix.CLONE_NEWNET); setErr != nil {
			err = fmt.Errorf("entering the network namespace of process %d: %w", pid, setErr)
			runtime.UnlockOSThread()
			return
		}
		defer func() {
			// A thread that cannot go back stays locked, and ends with this goroutine.
			if unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
		}()
		err = fn()
	}()
	return <-done
}

func isOwnNetNS(target *os.File) (bool, error) {
	var a, b unix.Stat_t
	if err := unix.Fstat(int(target.Fd()), &a); err != nil {
		return false, err
	}
	if err := unix.Stat("/proc/self/ns/net", &b); err != nil {
		return false, err
	}
	return a.Dev == b.Dev && a.Ino == b.Ino, nil
}

// HostPrefixes are the addresses of all interfaces in the agent's network
// namespace and in those of the given processes, each as a prefix of full
// length. Processes that are gone are left out; other errors come with what
// could be found. whole tells that neither was so.
func HostPrefixes(pids ...int) (prefixes []netip.Prefix, whole bool, err error) {
	found := map[netip.Prefix]bool{}
	add := func() error {
		addrs, err := net.InterfaceAddrs()
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				ip = ip.Unmap()
				found[netip.PrefixFrom(ip, ip.BitLen())] = true
			}
		}
		return err
	}
	errs := []error{add()}
	whole = errs[0] == nil
	for _, pid := range pids {
		err := InNetNS(pid, add)
		whole = whole && err == nil
		if !gone(err) {
			errs = append(errs, err)
		}
	}
	prefixes = make([]netip.Prefix, 0, len(found))
	for p := range found {
		prefixes = append(prefixes, p)
	}
	slices.SortFunc(prefixes, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return prefixes, whole, errors.Join(errs...)
}

// Addresses are those of the interfaces in a process's network namespace,
// without loopback addresses.
func Addresses(pid int) ([]netip.Addr, error) {
	var found []netip.Addr
	err := InNetNS(pid, func() error {
		addrs, err := net.InterfaceAddrs()
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			if ip, ok := netip.AddrFromSlice(n.IP); ok && !ip.IsLoopback() {
				found = append(found, ip.Unmap())
			}
		}
		return err
	})
	return found, err
}
