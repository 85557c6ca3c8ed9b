package discover

import (
	"errors"
	"fmt"
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

// Addresses are those of all interfaces in the network namespace of a process;
// pid 0 stands for the agent's own; at most maxAddresses. What could be found comes with the error.
func Addresses(pid int) (found []netip.Addr, err error) {
	read := func() error {
		found, err = ownAddresses()
		return err
	}
	if pid == 0 {
		err = read()
	} else {
		err = InNetNS(pid, read)
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found), err
}

// Gone reports whether an error of InNetNS or Addresses says that the process
// has ended.
func Gone(err error) bool { return gone(err) }
