package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/internal/testkit"
)

// The TCP options that Tare writes: RFC 4727's 253 for the mark, OBI's 25 for
// the tag; and what they are in with --tag ip.
const (
	kindTag  = 25
	kindMark = 253

	ip4Option = 94
	ip6Option = 0x1e
)

// capture reads the IP and TCP headers that pass an interface.
type capture struct {
	fd    int
	ports []int
	done  chan struct{}

	mu      sync.Mutex
	from    time.Time // packets before it do not count; reading them may lag
	packets int
	kinds   map[byte]int
}

// watch captures at an interface of a namespace ("": of this one) what comes
// from or goes to one of the ports.
func watch(t *testing.T, ns, device string, ports ...int) *capture {
	t.Helper()
	c := &capture{ports: ports, done: make(chan struct{}), kinds: map[byte]int{}}
	within(t, ns, func() error {
		dev, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		all := int(htons(unix.ETH_P_ALL))
		if c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
			return err
		}
		wait := unix.NsecToTimeval(int64(50 * time.Millisecond))
		if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
			return err
		}
		return unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: dev.Index})
	})
	stop := make(chan struct{})
	go c.read(stop)
	t.Cleanup(func() {
		close(stop)
		<-c.done
		_ = unix.Close(c.fd)
	})
	return c
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

func (c *capture) read(stop chan struct{}) {
	defer close(c.done)
	buf := make([]byte, 160) // the headers; the rest is cut off
	control := make([]byte, 64)
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, controls, _, from, err := unix.Recvmsg(c.fd, buf, control, 0)
		if err != nil {
			continue // nothing for a while
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING && ll.Hatype == unix.ARPHRD_LOOPBACK {
			continue // comes again as incoming
		}
		c.packet(buf[:n], timestamp(control[:controls]))
	}
}

// timestamp is when the kernel saw the packet: a struct timespec behind the
// header of the only control message.
func timestamp(control []byte) time.Time {
	head := unix.CmsgLen(0)
	if len(control) < head+16 {
		return time.Now()
	}
	return time.Unix(int64(binary.NativeEndian.Uint64(control[head:])), int64(binary.NativeEndian.Uint64(control[head+8:])))
}

func (c *capture) packet(b []byte, at time.Time) {
	tcp, ok := tcpHeader(b)
	if !ok {
		return
	}
	src, dst := int(binary.BigEndian.Uint16(tcp)), int(binary.BigEndian.Uint16(tcp[2:]))
	if !slices.Contains(c.ports, src) && !slices.Contains(c.ports, dst) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.Before(c.from) {
		return
	}
	c.packets++
	for _, all := range [][]byte{tcp[20:], fromIPHeader(b)} {
		for o := range options(all) {
			if o[0] == kindTag || o[0] == kindMark {
				c.kinds[o[0]]++
			}
		}
	}
}

// fromIPHeader finds the TCP options that are in an option of an IP header.
func fromIPHeader(b []byte) []byte {
	if b[0]>>4 == 4 {
		for o := range options(b[20 : int(b[0]&15)*4]) {
			if o[0] == ip4Option {
				return o[2:]
			}
		}
		return nil
	}
	if b[6] != unix.IPPROTO_DSTOPTS || b[42] != ip6Option || len(b) < 44+int(b[43]) {
		return nil
	}
	return b[44 : 44+int(b[43])]
}

// tcpHeader finds the TCP header of an IP packet, options included.
func tcpHeader(b []byte) ([]byte, bool) {
	switch {
	case len(b) >= 40 && b[0]>>4 == 4 && b[9] == unix.IPPROTO_TCP:
		b = b[int(b[0]&15)*4:]
	case len(b) >= 60 && b[0]>>4 == 6 && b[6] == unix.IPPROTO_TCP:
		b = b[40:]
	case len(b) >= 68 && b[0]>>4 == 6 && b[6] == unix.IPPROTO_DSTOPTS && b[40] == unix.IPPROTO_TCP:
		b = b[min(len(b), 48+int(b[41])*8):]
	default:
		return nil, false
	}
	if len(b) < 20 || len(b) < int(b[12]>>4)*4 {
		return nil, false
	}
	return b[:int(b[12]>>4)*4], true
}

// options yields the options of a TCP or IPv4 header, kind and length included.
func options(o []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(o) > 0 && o[0] != 0 {
			if o[0] == 1 {
				o = o[1:]
				continue
			}
			if len(o) < 2 || int(o[1]) < 2 || int(o[1]) > len(o) {
				return
			}
			if !yield(o[:o[1]]) {
				return
			}
			o = o[o[1]:]
		}
	}
}

// forget begins a new count, of packets that pass from now on.
func (c *capture) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from = time.Now()
	c.packets = 0
	clear(c.kinds)
}

// atLeast waits until so many packets were counted: the reader may be behind.
func (c *capture) atLeast(t *testing.T, n int) {
	t.Helper()
	testkit.Until(t, deadline, itoa(n)+" packets are captured", func() bool {
		packets, _, _ := c.seen()
		return packets >= n
	})
}

// seen tells how many packets passed, and how many tags and marks.
func (c *capture) seen() (packets, tags, marks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.packets, c.kinds[kindTag], c.kinds[kindMark]
}

// within runs f in a network namespace, on a thread that ends with it.
func within(t *testing.T, ns string, f func() error) {
	t.Helper()
	if ns == "" {
		if err := f(); err != nil {
			t.Fatal(err)
		}
		return
	}
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is of no more use
		failed <- func() error {
			h, err := os.Open("/var/run/netns/" + ns)
			if err != nil {
				return err
			}
			defer func() { _ = h.Close() }() // only a handle
			if err := unix.Setns(int(h.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter %s: %w", ns, err)
			}
			return f()
		}()
	}()
	if err := <-failed; err != nil {
		if errors.Is(err, unix.EPERM) {
			refuse(t, "not allowed: %v", err)
		}
		t.Fatal(err)
	}
}
