package meter

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ip runs iproute2.
func ip(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", args, err, out)
	}
}

// within runs f on a thread that is in the network namespace; the thread ends
// with it.
func within(t *testing.T, ns string, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is of no use to others
		file, err := os.Open("/run/netns/" + ns)
		if err == nil {
			err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
			file.Close() //nolint:errcheck // it was only pointed to
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	require.NoError(t, <-done)
}

// A known number of bytes goes through a veth pair on which nothing else speaks:
// the link's counter must be that number.
func TestLinkIsExact(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("must run as root in CI")
		}
		t.Skip("needs root: it makes a network namespace")
	}
	ns := fmt.Sprintf("tare-meter-%d", os.Getpid())
	here, there := fmt.Sprintf("tm%da", os.Getpid()), fmt.Sprintf("tm%db", os.Getpid())
	ip(t, "netns add "+ns)
	t.Cleanup(func() { ip(t, "netns del "+ns) })
	ip(t, fmt.Sprintf("link add %s type veth peer name %s netns %s", here, there, ns))
	t.Cleanup(func() { ip(t, "link del "+here) })
	// No neighbour discovery, neither of IPv6 nor of IPv4.
	ip(t, "link set dev "+here+" addrgenmode none address 02:00:00:00:00:01")
	ip(t, "-n "+ns+" link set dev "+there+" addrgenmode none address 02:00:00:00:00:02")
	ip(t, "addr add 192.0.2.1/30 dev "+here)
	ip(t, "-n "+ns+" addr add 192.0.2.2/30 dev "+there)
	ip(t, "link set dev "+here+" up")
	ip(t, "-n "+ns+" link set dev "+there+" up")
	ip(t, "neigh replace 192.0.2.2 lladdr 02:00:00:00:00:02 nud permanent dev "+here)
	ip(t, "-n "+ns+" neigh replace 192.0.2.1 lladdr 02:00:00:00:00:01 nud permanent dev "+there)

	to, err := net.ListenPacket("udp4", "192.0.2.1:0") // so that nothing is answered
	require.NoError(t, err)
	defer to.Close()                                         //nolint:errcheck // it was only there
	const packets, payload, headers = 1000, 777, 14 + 20 + 8 // Ethernet, IPv4, UDP

	s := begin(t, Subjects{Link: here, Every: 10 * time.Millisecond})
	var from net.PacketConn // there
	within(t, ns, func() error {
		var err error
		if from, err = net.ListenPacket("udp4", "192.0.2.2:0"); err != nil {
			return err
		}
		c, err := net.Dial("udp4", to.LocalAddr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		for range packets {
			if _, err := c.Write(make([]byte, payload)); err != nil {
				return err
			}
		}
		return nil
	})
	defer from.Close() //nolint:errcheck // it was only there
	// The other direction must not count.
	back, err := net.Dial("udp4", from.LocalAddr().String())
	require.NoError(t, err)
	defer back.Close()
	if _, err := back.Write(make([]byte, payload)); err != nil {
		t.Fatal(err)
	}
	u := end(t, s)
	if u.OutPackets != packets || u.OutBytes != packets*(payload+headers) {
		t.Errorf("%d packets of %d bytes in all, sent %d of %d", u.OutPackets, u.OutBytes, packets, packets*(payload+headers))
	}
}

// A known number of bytes goes through a loopback on which nothing else speaks.
func TestLoopbackIsExact(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("must run as root in CI")
		}
		t.Skip("needs root: it makes a network namespace")
	}
	ns := fmt.Sprintf("tare-meter-lo-%d", os.Getpid())
	ip(t, "netns add "+ns)
	t.Cleanup(func() { ip(t, "netns del "+ns) })
	ip(t, "-n "+ns+" link set dev lo up")
	inside := exec.Command("nsenter", "--net=/run/netns/"+ns, "--", "cat")
	held, err := inside.StdinPipe()
	require.NoError(t, err)
	// What cat answers shows that it is there, and so in the namespace.
	answer, err := inside.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, inside.Start())
	defer func() { _ = held.Close(); _ = inside.Wait() }()
	if _, err := held.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := answer.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	const packets, payload, headers = 1000, 777, 20 + 8 // IPv4, UDP

	s := begin(t, Subjects{Loopback: inside.Process.Pid, Every: 10 * time.Millisecond})
	within(t, ns, func() error {
		to, err := net.ListenPacket("udp4", "127.0.0.1:0") // so that nothing is answered
		if err != nil {
			return err
		}
		defer to.Close() //nolint:errcheck // it was only there
		c, err := net.Dial("udp4", to.LocalAddr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		for range packets {
			if _, err := c.Write(make([]byte, payload)); err != nil {
				return err
			}
		}
		return nil
	})
	if u := end(t, s); u.LoopbackBytes != packets*(payload+headers) || u.OutBytes != 0 {
		t.Errorf("%d bytes within and %d out, sent %d within", u.LoopbackBytes, u.OutBytes, packets*(payload+headers))
	}
}
