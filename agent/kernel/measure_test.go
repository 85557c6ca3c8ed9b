package kernel

import (
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/bpf"
)

// exchange asks a listener of its own and reads the answer; "" closes without.
// It returns where the listener is. The tracer sees the connecting side only.
func exchange(t *testing.T, tracer *Tracer, network, address, answer string) netip.AddrPort {
	t.Helper()
	self := uint32(os.Getpid())
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := tracer.AddProcess(self, bpf.Service{Index: 7, Linking: uint8(bpf.LinkThread)}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tracer.RemoveProcess(self) }()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if n, _ := c.Read(make([]byte, 64)); n > 0 {
			_, _ = io.WriteString(c, answer)
		}
	}()
	c, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, "GET /measured HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || string(got) != answer {
		t.Fatalf("answer %q, %v", got, err)
	}
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// measured polls until that many requests were measured: a socket may end a
// little after its descriptor is closed.
func measured(t *testing.T, tracer *Tracer, want uint64) []Measured {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		list, err := tracer.Measures()
		if err != nil {
			t.Fatal(err)
		}
		var n uint64
		for i := range list {
			n += list[i].Count()
		}
		if n == want {
			return list
		}
		if time.Now().After(end) {
			t.Fatalf("%d requests measured, want %d: %+v", n, want, list)
		}
	}
}

func TestMeasures(t *testing.T) {
	needRoot(t)
	tracer := load(t, Options{Payload: true, Metrics: true})
	defer tracer.Close()
	began := time.Now()
	at := exchange(t, tracer, "tcp6", "[::1]:0", "HTTP/1.1 404 Not Found\r\n\r\n")
	list := measured(t, tracer, 1)
	took := time.Since(began)
	m := list[0]
	var ns unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &ns); err != nil {
		t.Fatal(err)
	}
	want := bpf.MeasureKey{
		Service: 7, Role: uint8(bpf.TareRoleTARE_CLIENT), Protocol: uint8(bpf.TareProtocolTARE_PROTOCOL_HTTP),
		Outcome: uint8(bpf.TareOutcomeTARE_OUTCOME_4XX), Family: unix.AF_INET6, Port: at.Port(),
		Netns: uint32(ns.Ino), Address: at.Addr().As16(),
	}
	if m.Key != want || m.Other {
		t.Errorf("%+v, want %+v", m.Key, want)
	}
	if m.Sum == 0 || m.Sum > uint64(took) {
		t.Errorf("%d ns of %v", m.Sum, took)
	}
	if n, err := tracer.Counters(); err != nil || n.N[bpf.TareCounterTARE_C_METRICS_FULL] != 0 {
		t.Errorf("%d without room, %v", n.N[bpf.TareCounterTARE_C_METRICS_FULL], err)
	}
}

// What finds no room is measured all the same, as "other", and counted.
func TestMeasuresWithoutRoom(t *testing.T) {
	needRoot(t)
	tracer := load(t, Options{Payload: true, Metrics: true, measures: 1})
	defer tracer.Close()
	exchange(t, tracer, "tcp4", "127.0.0.1:0", "HTTP/1.1 200 OK\r\n\r\n")
	exchange(t, tracer, "tcp4", "127.0.0.1:0", "HTTP/1.1 500 No\r\n\r\n")
	exchange(t, tracer, "tcp4", "127.0.0.1:0", "")
	outcomes := map[bpf.TareOutcome]bool{}
	for _, m := range measured(t, tracer, 3) {
		outcomes[bpf.TareOutcome(m.Key.Outcome)] = m.Other
		if m.Key.Role != uint8(bpf.TareRoleTARE_CLIENT) || m.Count() != 1 {
			t.Errorf("%+v: %d requests", m.Key, m.Count())
		}
	}
	want := map[bpf.TareOutcome]bool{
		bpf.TareOutcomeTARE_OUTCOME_2XX: false, bpf.TareOutcomeTARE_OUTCOME_5XX: true, bpf.TareOutcomeTARE_OUTCOME_NO_RESPONSE: true,
	}
	for o, other := range want {
		if got, ok := outcomes[o]; !ok || got != other {
			t.Errorf("outcome %v: there %v, other %v", o, ok, got)
		}
	}
	if n, err := tracer.Counters(); err != nil || n.N[bpf.TareCounterTARE_C_METRICS_FULL] != 2 {
		t.Errorf("%d without room, %v", n.N[bpf.TareCounterTARE_C_METRICS_FULL], err)
	}
}

func TestMeasuresNothingUnlessAsked(t *testing.T) {
	needRoot(t)
	tracer := load(t, Options{Payload: true})
	defer tracer.Close()
	exchange(t, tracer, "tcp4", "127.0.0.1:0", "HTTP/1.1 200 OK\r\n\r\n")
	if list := measured(t, tracer, 0); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	if n := tracer.objs.Measures.MaxEntries(); n != 1 {
		t.Errorf("room for %d kinds of requests that nobody measures", n)
	}
}
