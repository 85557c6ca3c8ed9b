package kernel

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/event"
	"github.com/tare-trace/tare/agent/platform"
	"github.com/tare-trace/tare/agent/tier"
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
	tracer, err := Load(withCgroup(t, o))
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

// loadWith loads a tier whose hooks for a capability are all there.
func loadWith(t *testing.T, chosen *tier.Tier, capability string) *Tracer {
	t.Helper()
	if !slices.Contains(chosen.Capabilities(), capability) {
		t.Skipf("no hooks for %s", capability)
	}
	tracer := load(t, Options{Tier: chosen.Name, Payload: true})
	if lost := tracer.Lost(); slices.ContainsFunc(lost, func(l tier.Loss) bool { return l.Capability == capability }) {
		t.Fatal(lost)
	}
	return tracer
}

func withCgroup(t *testing.T, o Options) Options {
	t.Helper()
	root, err := platform.CgroupV2()
	if err != nil {
		t.Fatal(err)
	}
	o.Cgroup = root
	return o
}

// programNames are those that are attached, in their order.
func programNames(t *testing.T, tracer *Tracer) (names []string) {
	t.Helper()
	stats, err := tracer.Programs()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range stats {
		names = append(names, p.Name)
	}
	return names
}

// eachTier runs a test for every tier whose hooks this kernel has, which programs that do
// nothing tell: the verifier accepts them.
func eachTier(t *testing.T, test func(t *testing.T, chosen *tier.Tier)) {
	needRoot(t)
	// Tracepoints of system calls are reached through tracefs, which distributions mount.
	if err := unix.Mount("nodev", "/sys/kernel/tracing", "tracefs", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		t.Fatalf("mount tracefs: %v", err)
	}
	tried := 0
	for i := range tier.All {
		t.Run(tier.All[i].Name, func(t *testing.T) {
			tracer, err := Load(withCgroup(t, Options{Tier: tier.All[i].Name, Empty: true}))
			if err != nil {
				t.Skip(err)
			}
			tracer.Close()
			tried++
			test(t, &tier.All[i])
		})
	}
	if tried == 0 && !t.Failed() {
		t.Error("this kernel has the hooks of no tier")
	}
}

// What is attached is what the table says, but for what is lost.
func TestProgramsOfTier(t *testing.T) {
	eachTier(t, func(t *testing.T, chosen *tier.Tier) {
		for _, metrics := range []bool{false, true} {
			tracer := load(t, Options{Tier: chosen.Name, Metrics: metrics})
			lost := map[string]bool{}
			for _, l := range tracer.Lost() {
				lost[l.Capability] = true
			}
			got := programNames(t, tracer)
			for _, p := range chosen.Programs {
				if p.Until != "" || p.Hook == tier.IterTCP { // no absence of a hook is a loss, and no loss the absence of one
					continue
				}
				name := strings.TrimPrefix(p.Name, "tare_")
				if there := slices.Contains(got, name); there == lost[p.Capability] {
					t.Errorf("%s is attached: %v; lost %+v", name, there, tracer.Lost())
				}
			}
			tracer.Close()
		}
	})
}

// withTier replaces the table by the tier that this kernel has, changed.
func withTier(t *testing.T, change func(p *tier.Program)) {
	t.Helper()
	all := tier.All
	t.Cleanup(func() { tier.All = all })
	tracer := load(t, Options{})
	changed := *tracer.tier
	tracer.Close()
	changed.Programs = slices.Clone(changed.Programs)
	for i := range changed.Programs {
		change(&changed.Programs[i])
	}
	tier.All = []tier.Tier{changed}
}

// A hook that the kernel lacks costs its capability and nothing else, unless the
// tier cannot do without it.
func TestHookAbsent(t *testing.T) {
	needRoot(t)
	load(t, Options{}).Close() // the library opens descriptors of its own once
	before := openFiles(t)
	withTier(t, func(p *tier.Program) {
		if p.Capability != "" && p.Hook.To != "" {
			p.Hook.To = "tare_no_such_hook"
		}
	})
	tracer := load(t, Options{Payload: true})
	for _, name := range programNames(t, tracer) {
		if slices.Contains([]string{"fork", "exec", "arm"}, name) {
			t.Errorf("%s is attached without its hook", name)
		}
	}
	var lost []string
	for _, l := range tracer.Lost() {
		lost = append(lost, l.Capability)
		if !strings.Contains(l.Reason, "tare_no_such_hook") || l.Without == "" {
			t.Errorf("%+v", l)
		}
	}
	want := slices.DeleteFunc(tier.All[0].Capabilities(), func(name string) bool {
		return name == "sendfile" || // needs no such hook
			!slices.ContainsFunc(tier.All[0].Programs, func(p tier.Program) bool { return p.Capability == name && p.Hook.To != "" })
	})
	if !slices.Equal(lost, want) {
		t.Errorf("lost %v, want %v", lost, want)
	}
	if err := tracer.Arm(); err != nil {
		t.Error(err)
	}
	if err := tracer.Close(); err != nil {
		t.Error(err)
	}

	tier.All[0].Programs[1].Hook.To = "tare_no_such_hook"
	name := tier.All[0].Programs[1].Name
	if tracer, err := Load(Options{}); err == nil {
		tracer.Close()
		t.Error("loaded without a hook that the tier cannot do without")
	} else if text := err.Error(); !strings.Contains(text, name) || !strings.Contains(text, "tare_no_such_hook") {
		t.Error(err)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// The same if one of a program's further hooks is absent.
func TestFurtherHookAbsent(t *testing.T) {
	needRoot(t)
	load(t, Options{}).Close() // the library opens descriptors of its own once
	before := openFiles(t)
	withTier(t, func(p *tier.Program) {
		if p.Name == "tare_exit" {
			p.Also = []string{"tare_no_such_hook"}
		}
	})
	if tracer, err := Load(Options{}); err == nil {
		tracer.Close()
		t.Error("loaded without one of a program's hooks")
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// traceSelf has this process traced, as an entry whose peers on loopback are trusted.
func traceSelf(t *testing.T, tracer *Tracer, linking bpf.TareLinking) (pid uint32) {
	t.Helper()
	pid = uint32(os.Getpid())
	if err := tracer.AddProcess(pid, bpf.Service{Index: 7, Linking: uint8(linking)}); err != nil {
		t.Fatal(err)
	}
	if _, err := tracer.Trust([]Network{{Prefix: netip.MustParsePrefix("127.0.0.0/8")}}); err != nil {
		t.Fatal(err)
	}
	if err := tracer.EnableEntry(true); err != nil {
		t.Fatal(err)
	}
	return pid
}

// A link that nobody holds is closed by the garbage collector, and the tracer
// is blind without a word. So collect hard, then see whether it still sees.
func TestSeesAfterGarbageCollection(t *testing.T) {
	needRoot(t)
	tracer := load(t, Options{Payload: true, RingBytes: 1 << 20})
	defer tracer.Close()
	self := traceSelf(t, tracer, bpf.LinkThread)
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

	var r event.Record
	types := map[bpf.TareRecordType]int{}
	deadline := time.Now().Add(5 * time.Second)
	for types[bpf.TareRecordTypeTARE_END] == 0 && time.Now().Before(deadline) {
		if _, err := tracer.Poll(50*time.Millisecond, func(raw []byte) {
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

// Runtimes write into maps by name; the agent takes back what it told.
// The same programs at the same hooks, of two instructions each.
func TestEmptyPrograms(t *testing.T) {
	needRoot(t)
	tracer, full := load(t, Options{Empty: true}), load(t, Options{})
	if len(tracer.programs) != len(full.programs) || len(tracer.links) != len(full.links) {
		t.Errorf("%d programs by %d links, and not %d by %d", len(tracer.programs), len(tracer.links), len(full.programs), len(full.links))
	}
	for _, p := range tracer.programs {
		info, err := p.loaded.Info()
		if err != nil {
			t.Fatal(err)
		}
		if list, err := info.Instructions(); err != nil || len(list) > 2 {
			t.Errorf("%s has %d instructions, %v", p.Name, len(list), err)
		}
	}
}

func TestMapsByName(t *testing.T) {
	needRoot(t)
	tracer := load(t, Options{})
	defer tracer.Close()
	const pid = 1 << 30 // of nobody
	s := bpf.Service{Index: 7, Linking: uint8(bpf.LinkNone)}
	if err := tracer.Put("processes", uint32(pid), s); err != nil {
		t.Fatal(err)
	}
	if all, err := tracer.Processes(); err != nil || all[pid] != s || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	for range 2 { // gone already is no error
		if err := tracer.Delete("processes", uint32(pid)); err != nil {
			t.Error(err)
		}
	}
	k := bpf.PortKey{Netns: 1, Port: 80}
	if err := tracer.Put("listeners", k, s); err != nil {
		t.Fatal(err)
	}
	if err := tracer.RemoveListener(k); err != nil {
		t.Error(err)
	}
	if all, err := tracer.Listeners(); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
	if err := tracer.Put("nothing", uint32(1), s); err == nil {
		t.Error("wrote to a map that is not there")
	}
}

// A port is its service's as long as a socket of the service listens there: who listens there next may be another
// service, in another container.
func TestListenersEnd(t *testing.T) {
	needRoot(t)
	tracer := load(t, Options{})
	defer tracer.Close()
	traceSelf(t, tracer, bpf.LinkThread)
	wantListeners := func(when string, want int) {
		t.Helper()
		if all, err := tracer.Listeners(); err != nil || len(all) != want {
			t.Fatalf("%s: %v, %v, want %d", when, all, err, want)
		}
	}
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}), err)
	}}
	shared.SetMultipathTCP(false)
	first, err := shared.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	second, err := shared.Listen(t.Context(), "tcp4", first.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	wantListeners("two sockets listen on a port", 1)
	first.Close()
	wantListeners("one of them is closed", 0)
	inode, err := inodeOf(second.(*net.TCPListener))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tracer.AddInode(inode, bpf.Service{Index: 7}), tracer.Arm()); err != nil {
		t.Fatal(err)
	}
	wantListeners("the agent has looked for what is open", 1)
	second.Close()
	wantListeners("both are closed", 0)
}

func TestLoadErrors(t *testing.T) {
	needRoot(t)
	if tracer, err := Load(Options{Cgroup: "/nonexistent"}); err == nil {
		tracer.Close()
		t.Error("attached to a cgroup that does not exist")
	} else if !strings.Contains(err.Error(), "tare_sockops") {
		t.Error(err)
	}
	if tracer, err := Load(Options{Tier: "none"}); err == nil {
		tracer.Close()
		t.Error("loaded a tier that there is not")
	}
}
