package integration

import (
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An agent is killed at any moment of its start, while it arms open connections: each
// still has the congestion control that it had, and works. By way of nv this is what
// could be lost (`make test-kernels`).
func TestKilledWhileArming(t *testing.T) {
	alone(t, "the process of all tests is traced: it holds the connections")
	need(t)
	const connections = 300
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	var clients, servers []*net.TCPConn
	for i := range connections {
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		clients, servers = append(clients, c.(*net.TCPConn)), append(servers, s.(*net.TCPConn))
		if i%2 == 0 { // not the default: what is put back is the connection's own
			if _, err := congestion(servers[i], "reno"); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := controls(t, servers)
	s := newSink(t)
	args := []string{"--port", "held=" + itoa(port), overWire}

	a := trace(t, s, nil, args...)
	_, links := a.programs()
	if m := a.mustMetrics(); m[`tare_connections_total{state="armed"}`] < connections {
		t.Errorf("connections armed at the start:\n%v", m)
	}
	a.Stop()
	// A start attaches hooks, and then arms. Some agents are killed when they hold so many of their hooks; others when
	// they hold all, and a connection is seen to be armed, which only --arm-open nv shows, or else when they trace.
	const kills = 16
	for i := range kills {
		a := launch(t, s, nil, args...)
		enough := (links - 1) * min(i+1, kills/2) / (kills / 2) // one is let go when nothing has to be proven
		a.Await(time.Minute, itoa(enough)+" hooks are attached", func() bool {
			_, held := a.programs()
			return held >= enough
		})
		if i >= kills/2+kills/4 {
			a.Await(time.Minute, "a connection is armed", func() bool {
				return !slices.Equal(controls(t, servers), want) || a.healthy()
			})
		}
		a.Kill()
		for k, control := range controls(t, servers) {
			if control != want[k] {
				t.Fatalf("connection %d of %d had %s, and has %s after a kill", k, connections, want[k], control)
			}
		}
	}
	for i, c := range clients {
		if _, err := c.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if _, err := servers[i].Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

func controls(t *testing.T, conns []*net.TCPConn) (names []string) {
	t.Helper()
	for _, c := range conns {
		name, err := congestion(c, "")
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// congestion sets a connection's congestion control, unless it is "", and returns it.
func congestion(c *net.TCPConn, set string) (name string, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return "", err
	}
	var sockErr error
	err = raw.Control(func(fd uintptr) {
		if set != "" {
			sockErr = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, set)
		}
		if sockErr == nil {
			name, sockErr = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		}
	})
	if err == nil {
		err = sockErr
	}
	return name, err
}
