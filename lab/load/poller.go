package load

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller waits for sockets, for a wake-up from another goroutine and for a time,
// with the precision of a high-resolution timer: epoll_pwait2 (Linux 5.11) takes
// nanoseconds, where epoll_wait rounds up to a millisecond. Its errors after
// newPoller would be the programmer's and panic.
type poller struct {
	epoll  int
	event  int // eventfd
	ready  []unix.EpollEvent
	closed bool
}

// rawWait is up to when a wait keeps this thread's place in Go's scheduler. Giving
// it up has the runtime's monitor look every 20 µs whether somebody wants it, and
// take it away and back, which is a good part of the CPU time of an open loop whose
// waits are as short as that. Kept, it delays a garbage collection by that long at
// worst, and hardly ever does, since its signal ends the wait. While an open loop
// of more than 1/rawWait requests/s runs, it so occupies one of GOMAXPROCS.
const rawWait = time.Millisecond

// wakeUp stands in an event for the eventfd, where others have a connection.
const wakeUp = -1

func newPoller(batch int) (*poller, error) {
	p := &poller{epoll: -1, event: -1, ready: make([]unix.EpollEvent, batch)}
	var err error
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("load: epoll: %w", err)
	}
	if p.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		err = p.add(p.event, wakeUp, 0, unix.EPOLLIN|unix.EPOLLET)
	}
	if err == nil {
		_, err = p.poll(0)
	}
	if err != nil {
		p.close()
		if errors.Is(err, unix.ENOSYS) {
			return nil, fmt.Errorf("load: epoll_pwait2: %w: it needs Linux 5.11, and a sandbox that lets it through", err)
		}
		return nil, fmt.Errorf("load: epoll: %w", err)
	}
	return p, nil
}

// add watches fd; its events carry index and generation.
func (p *poller) add(fd int, index, generation int32, events uint32) error {
	return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: index, Pad: generation})
}

// wait returns what is ready, after timeout at the latest; negative: none.
func (p *poller) wait(timeout time.Duration) []unix.EpollEvent {
	n, err := p.poll(timeout)
	if err != nil {
		panic(os.NewSyscallError("epoll_pwait2", err))
	}
	return p.ready[:n]
}

func (p *poller) poll(timeout time.Duration) (int, error) {
	var ts *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(int64(timeout))
		ts = &t
	}
	call := unix.Syscall6
	if timeout >= 0 && timeout <= rawWait {
		call = unix.RawSyscall6
	}
	n, _, errno := call(unix.SYS_EPOLL_PWAIT2, uintptr(p.epoll),
		uintptr(unsafe.Pointer(&p.ready[0])), uintptr(len(p.ready)), uintptr(unsafe.Pointer(ts)), 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.EINTR: // the runtime's signals
		return 0, nil
	default:
		return 0, errno
	}
}

// wake ends a wait, now or the next one. It must not run beside close.
func (p *poller) wake() {
	if p.closed {
		return
	}
	// EAGAIN: the counter is full, so the wake-up is under way.
	one := [8]byte{7: 1}
	_, _ = unix.Write(p.event, one[:])
}

func (p *poller) close() {
	for _, fd := range []int{p.event, p.epoll} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	p.closed = true
}
