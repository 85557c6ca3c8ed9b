package kernel

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/tare-trace/tare/agent/event"
	"github.com/tare-trace/tare/agent/probe"
	"github.com/tare-trace/tare/bpf"
)

// needRoot skips where kernel programs cannot be loaded, but never in CI.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("CI must run this test as root")
	}
	t.Skip("loading kernel programs needs root")
}

func load(t *testing.T, o Options) *Tracer {
	t.Helper()
	root, err := probe.CgroupV2()
	if err != nil {
		t.Fatal(err)
	}
	o.Cgroup = root
	tracer, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// A link that nobody holds is closed by the garbage collector, and the tracer
// is blind without a word. So collect hard, then see whether it still sees.
func TestSeesAfterGarbageCollection(t *testing.T) {
	needRoot(t)
	tracer := load(t, Options{Payload: true, RingBytes: 1 << 20})
	defer tracer.Close()
	self := uint32(os.Getpid())
	if err := tracer.AddProcess(self, bpf.Service{Index: 7, Linking: uint8(bpf.LinkThread)}); err != nil {
		t.Fatal(err)
	}
	if err := tracer.Trust([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}); err != nil {
		t.Fatal(err)
	}
	if err := tracer.EnableEntry(true); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		runtime.GC()
		time.Sleep(time.Millisecond) // finalizers and cleanups run beside
	}
	// The peer must not be traced, or its mark would say that nothing is sampled.
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := tracer.RemoveProcess(self); err != nil {
		t.Fatal(err)
	}
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 64)
		if n, _ := c.Read(buf); n > 0 {
			_, _ = c.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n"))
		}
	}()
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("GET /seen HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Read(make([]byte, 64))
	c.Close()

	var rec ringbuf.Record
	var r event.Record
	types := map[bpf.TareRecordType]int{}
	deadline := time.Now().Add(5 * time.Second)
	for types[bpf.TareRecordTypeTARE_END] == 0 && time.Now().Before(deadline) {
		if _, err := tracer.Poll(50*time.Millisecond, &rec, func(raw []byte) {
			if err := r.Decode(raw); err != nil {
				t.Error(err)
			}
			types[r.Type]++
			if r.Type == bpf.TareRecordTypeTARE_START && (r.Start.Service != 7 || string(r.Payload()) != "GET /seen HTTP/1.1\r\n\r\n") {
				t.Errorf("service %d, payload %q", r.Start.Service, r.Payload())
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []bpf.TareRecordType{bpf.TareRecordTypeTARE_START, bpf.TareRecordTypeTARE_DATA, bpf.TareRecordTypeTARE_END} {
		if types[want] != 1 {
			t.Errorf("records by type: %v", types)
			break
		}
	}
	if live, err := tracer.LiveRequests(); err != nil || live != 0 {
		t.Errorf("%d live requests, %v", live, err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	needRoot(t)
	load(t, Options{}).Close() // the library opens descriptors of its own once
	before := openFiles(t)
	for range 3 {
		if err := load(t, Options{Payload: true, Traceparent: true}).Close(); err != nil {
			t.Error(err)
		}
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestLoadErrors(t *testing.T) {
	needRoot(t)
	if tracer, err := Load(Options{Cgroup: "/nonexistent"}); err == nil {
		tracer.Close()
		t.Error("attached to a cgroup that does not exist")
	}
}
