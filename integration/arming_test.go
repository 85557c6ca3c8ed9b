package integration

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An agent is killed at any moment of its start, while it arms open connections: each
// still has the congestion control that it had, and works. By way of nv this is what
// could be lost (`make test-kernels`).
func TestKilledWhileArming(t *testing.T) {
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

	began := time.Now()
	a := trace(t, s, nil, args...)
	took := time.Since(began)
	if m := a.mustMetrics(); m[`tare_connections_total{state="armed"}`] < connections {
		t.Errorf("connections armed at the start:\n%v", m)
	}
	a.stop()
	const kills = 16
	for i := range kills {
		a := launch(t, s, nil, args...)
		// The last part of a start arms; when exactly is not to be seen from outside.
		time.Sleep(took * time.Duration(kills+i+1) / (2 * kills))
		a.kill()
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
