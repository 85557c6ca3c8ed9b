package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/discover"
	"github.com/tare-trace/tare/agent/runtime"
	"github.com/tare-trace/tare/bpf"
)

// What only event loops need is attached before the kernel side knows one, stays until a scan
// has seen the sockets that it had opened before, and beyond that while some socket, a
// process that began to use such or a tier that tells of neither wants it. The scan comes soon.
func TestDiscoveryLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.host.start(1, "threads", "a", 1)
		f.must(f.start())
		f.did()
		nginx := f.host.start(2, "nginx", "a", 1)
		nginx.Service.Linking = config.Loop
		f.told(2)
		if got, want := f.did(), "loops true, add 2"; !strings.Contains(got, want) {
			t.Errorf("told the kernel side %q, want %q", got, want)
		}
		if got := f.interval(); got != earlyInterval {
			t.Errorf("the next scan comes %v later", got)
		}
		scans := func(turns bool, after time.Duration, want string) {
			t.Helper()
			nginx.Turns = turns
			f.must(f.scan())
			time.Sleep(after)
			synctest.Wait()
			if got := f.did(); strings.Contains(got, "loops") != (want != "") || !strings.Contains(got, want) {
				t.Errorf("told the kernel side %q, want %q", got, want)
			}
		}
		scans(false, time.Hour, "loops false")
		if got := f.interval(); got != scanInterval {
			t.Errorf("the next scan comes %v later", got)
		}
		scans(true, time.Hour, "loops true")
		f.demands.control(bpf.Control{Type: uint32(bpf.TareControlTypeTARE_TURNS)})
		scans(false, 59*time.Second, "")
		scans(false, 2*time.Second, "loops false")
		f.demands.control(bpf.Control{Type: uint32(bpf.TareControlTypeTARE_TURNS)})
		scans(false, 59*time.Second, "loops true")
		scans(false, 2*time.Second, "loops false")
		f.kernel.silent = true
		scans(false, time.Hour, "loops true")
		f.exits(2)
		scans(false, time.Second, "loops false")
	})
}

// Networks are known before processes, processes before their sockets, and all
// that before anything is armed; a second look finds what came in between. Once all
// that a process had open is armed, the kernel side knows.
func TestDiscoveryStart(t *testing.T) {
	f := newFixture(t)
	web := f.host.start(10, "web", "a", 1, 100)
	f.host.start(20, "store", "b", 2)
	f.host.whenAdded = func(pid int) {
		if f.kernel.processes[uint32(pid)].Index == 0 {
			t.Errorf("process %d is looked at again before the kernel side knows it", pid)
		}
		if pid == 10 {
			web.Sockets = []uint64{100, 101}
			f.host.children[10] = []int{11, 12}
			f.host.start(11, "web", "a", 1, 100)
		}
	}
	f.must(f.start())
	f.expect("trust, add 10, inode 100, add 20, in 1, arm, " +
		"inode 101, add 11, in 1, arm, armed 10, armed 20, " +
		"in 1, arm, armed 11, loops false, entry true")
	if f.host.scans != 1 {
		t.Errorf("%d scans", f.host.scans)
	}
	for _, a := range []string{"127.0.0.1", "192.0.2.1", "10.0.0.1", "10.0.0.2"} {
		if !f.kernel.trusts(a) {
			t.Errorf("%s is not trusted", a)
		}
	}
	if ns, ok := f.namespace(netip.MustParseAddr("10.0.0.2")); !ok || ns != 2 {
		t.Errorf("10.0.0.2 is in namespace %d, %v", ns, ok)
	}
	if f.container(10) != "web a" || f.container(11) != "web a" || f.container(20) != "store b" {
		t.Errorf("%s, %s, %s", f.container(10), f.container(11), f.container(20))
	}
	if got := f.names(); !slices.Equal(got, []string{"store", "web"}) {
		t.Errorf("%v", got)
	}
	// Another scan finds nothing new: marks are renewed, and that is all.
	f.must(f.scan())
	f.expect("trust, in 1, arm")
}

// One process costs work for itself.
func TestDiscoveryInspectsOne(t *testing.T) {
	f := newFixture(t)
	for pid := 10; pid < 20; pid++ {
		f.host.start(pid, fmt.Sprint("service", pid), "", 1, uint64(pid))
	}
	f.must(f.start())
	f.did()
	f.host.inspected = nil
	f.host.start(30, "late", "", 2, 300)
	f.told(30)
	f.expect("trust, add 30, inode 300, in 2, arm, in 2, arm, armed 30")
	if f.host.scans != 1 || !slices.Equal(f.host.inspected, []int{30, 30}) {
		t.Errorf("%d scans, inspected %v", f.host.scans, f.host.inspected)
	}
	// In a namespace that is known, and without sockets.
	f.host.start(31, "later", "", 2)
	f.told(31)
	f.expect("add 31, armed 31")
	// A process that no rule selects, or no more.
	delete(f.host.processes, 30)
	f.told(30, 99)
	f.expect("no inode 300, remove 30, remove 99")
}

func TestDiscoveryExit(t *testing.T) {
	f := newFixture(t)
	f.host.start(10, "web", "", 1, 100, 101)
	f.host.start(11, "web", "", 1, 100)
	f.must(f.start())
	f.did()
	f.exits(10)
	f.expect("no inode 101") // the other has 100 still
	if !f.kernel.trusts("10.0.0.1") {
		t.Error("an exit took the trust from a network namespace")
	}
	f.exits(11)
	f.expect("no inode 100")
	if len(f.sockets) > 0 || len(f.known) > 0 {
		t.Errorf("%v, %v", f.sockets, f.known)
	}
	// An exit that nobody told of, and a pid that is used again.
	f.host.start(10, "web", "", 1, 102)
	f.told(10)
	f.did()
	f.host.start(10, "store", "", 1, 103).StartTime = 77
	f.must(f.scan())
	f.expect("trust, no inode 102, add 10, inode 103, in 1, arm, in 1, arm, armed 10")
	delete(f.host.processes, 10)
	f.must(f.scan())
	f.expect("no inode 103, remove 10, trust")
	if f.kernel.trusts("10.0.0.1") {
		t.Error("a network namespace without services is trusted")
	}
}

// What cannot be looked at is trusted as it was: a process that ends between two
// looks takes no trust from its network namespace.
func TestDiscoveryKeepsTrust(t *testing.T) {
	f := newFixture(t)
	f.host.start(10, "web", "", 1, 100)
	f.must(f.start())
	gone := *f.host.processes[10]
	delete(f.host.processes, 10)
	f.must(f.take([]discover.Process{gone}, true))
	if !f.kernel.trusts("10.0.0.1") {
		t.Error("not trusted")
	}
	// A namespace of which nothing was known is asked again.
	gone.PID, gone.NetNS = 11, 2
	f.must(f.take([]discover.Process{gone}, false))
	f.host.start(12, "web", "", 2, 100)
	f.told(12)
	if !f.kernel.trusts("10.0.0.2") {
		t.Error("not trusted")
	}
}

// A socket stays with the service that opened it, when its process is another
// service's by then.
func TestDiscoveryReconfigure(t *testing.T) {
	f := newFixture(t)
	web := f.host.start(10, "web", "", 1, 100)
	f.must(f.start())
	f.did()
	web.Service.Name, web.Sockets = "shop", []uint64{100, 101}
	cfg := config.Default()
	cfg.Trust = nil
	f.must(f.reconfigure(cfg))
	f.expect("trust, add 10, inode 101, in 1, arm, armed 10")
	if f.container(10) != "shop " || len(f.kernel.trusted) > 0 {
		t.Errorf("%s, trusted %v", f.container(10), f.kernel.trusted)
	}
	if s := f.resource(f.kernel.inodes[101].Index); s == nil || s.Service != "web" {
		t.Errorf("socket 101 is %+v", s)
	}
	if got := strings.Count(f.text.String(), "msg=service"); got != 2 {
		t.Errorf("%d services in the log:\n%s", got, f.text)
	}
}

// Containers that come and go use as many indices as there are at once, and no
// index that anything may still name is given to another.
func TestIndicesAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.services.limit = 3
		var released []uint16
		f.discovery.released = func(index uint16) error { released = append(released, index); return nil }
		f.must(f.start())
		for n := range 10 {
			pid := 10 + n
			f.host.start(pid, "web", fmt.Sprint(n), 1, uint64(pid))
			f.told(pid)
			if got := f.container(pid); got != fmt.Sprint("web ", n) {
				t.Fatalf("container %d: %s", n, got)
			}
			index := f.kernel.processes[uint32(pid)].Index
			f.exits(pid)
			time.Sleep(rest - time.Second)
			f.must(f.scan())
			if r := f.resource(index); r == nil || r.Attrs[0].Str != fmt.Sprint(n) {
				t.Fatalf("a late record of container %d finds %+v", n, r)
			}
			time.Sleep(2 * time.Second)
			f.must(f.scan())
			if r := f.resource(index); r != nil {
				t.Fatalf("container %d has an index still", n)
			}
		}
		if len(released) != 10 || !slices.Equal(released[:6], []uint16{1, 2, 3, 1, 2, 3}) {
			t.Errorf("released %v", released)
		}
		if got := strings.Count(f.text.String(), "msg=service"); got != 10 {
			t.Errorf("%d services in the log", got)
		}
	})
}

func TestIndicesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.services.limit = 2
		wait := func() {
			time.Sleep(rest + time.Second)
			f.must(f.scan())
		}
		port := bpf.PortKey{Netns: 1, Port: 80}
		web := f.host.start(10, "web", "", 1, 100)
		web.Listening = []uint16{80}
		f.host.held[100] = true
		f.must(f.start())
		was := f.kernel.processes[10]
		f.kernel.listeners[port] = was
		name := func() string {
			if r := f.resource(was.Index); r != nil {
				return r.Service
			}
			return ""
		}

		// A child that no rule selects has it; then systemd holds the listener.
		f.kernel.processes[11] = was
		f.exits(10)
		wait()
		if name() != "web" || f.kernel.listeners[port] != was {
			t.Fatalf("a child's index is %q, listeners %v", name(), f.kernel.listeners)
		}
		delete(f.kernel.processes, 11)
		wait()
		if name() != "web" || f.kernel.listeners[port] != was {
			t.Fatalf("a listener's index is %q, listeners %v", name(), f.kernel.listeners)
		}
		// It comes again, with the socket and the index that it had.
		f.host.start(12, "web", "", 1, 100).Listening = []uint16{80}
		f.told(12)
		if f.kernel.processes[12] != was {
			t.Errorf("%+v, was %+v", f.kernel.processes[12], was)
		}
		f.exits(12)
		f.host.held[100] = false
		f.must(f.scan())
		if f.kernel.listeners[port] != was {
			t.Error("a listener that may be younger than the scan was removed")
		}
		f.must(f.scan())
		if len(f.kernel.listeners) > 0 {
			t.Error("a listener of nobody stays")
		}
		f.discovery.released = func(uint16) error { return errors.New("cannot be read") }
		time.Sleep(rest + time.Second)
		if err := f.scan(); err == nil || name() != "web" {
			t.Errorf("%v; index is %q", err, name())
		}
		f.discovery.released = nil
		wait()
		if name() != "" || len(f.kernel.inodes) > 0 {
			t.Errorf("index is %q, inodes %v", name(), f.kernel.inodes)
		}

		// All in use: the third is not traced, and the log says so, once.
		for pid := 20; pid < 23; pid++ {
			f.host.start(pid, fmt.Sprint("service", pid), "", 1)
		}
		f.told(20, 21, 22)
		if len(f.kernel.processes) != 2 || strings.Count(f.text.String(), "no index is left") != 1 {
			t.Errorf("%v\n%s", f.kernel.processes, f.text)
		}
	})
}

// A port, or the number of a network namespace, is another's when somebody who
// is not traced listens there.
func TestListenerOfAnother(t *testing.T) {
	f := newFixture(t)
	f.host.start(10, "web", "", 1, 100).Listening = []uint16{80}
	f.must(f.start())
	mine, gone := bpf.PortKey{Netns: 1, Port: 80}, bpf.PortKey{Netns: 1, Port: 81}
	f.kernel.listeners[mine], f.kernel.listeners[gone] = f.kernel.processes[10], f.kernel.processes[10]
	f.must(f.follow(told{pids: map[int]fate{90: runs, 91: runs}, listens: map[bpf.PortKey]int{mine: 90, gone: 91}}))
	if _, ok := f.kernel.listeners[mine]; !ok || len(f.kernel.listeners) != 1 {
		t.Errorf("%v", f.kernel.listeners)
	}
}

// What a runtime tells of a process is taken back when that ends, and told anew
// when it runs another executable, whose memory is another, and when it turns out
// to be on another runtime, as libraries come after exec.
func TestRuntimeOfProcess(t *testing.T) {
	f := newFixture(t)
	var told []string
	named := func(name string) *runtime.Runtime {
		return &runtime.Runtime{
			Attach: func(_ *runtime.Process, m runtime.Maps) error {
				told = append(told, "attach "+name)
				return m.Put("offsets", 10, 1)
			},
			Detach: func(pid int, m runtime.Maps) error {
				told = append(told, fmt.Sprint("detach ", name, " ", pid))
				return m.Delete("offsets", pid)
			},
		}
	}
	f.host.start(10, "api", "", 1).Runtime = named("one")
	f.must(f.start())
	f.must(f.scan())
	f.told(10)
	f.host.start(10, "api", "", 1).Runtime = named("two")
	f.must(f.scan())
	f.exits(10)
	if want := []string{"attach one", "detach one 10", "attach one", "detach one 10", "attach two", "detach two 10"}; !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
}

func TestNoRoomForProcesses(t *testing.T) {
	f := newFixture(t)
	f.kernel.full = true
	for pid := 10; pid < 20; pid++ {
		f.host.start(pid, "web", "", 1, uint64(pid))
	}
	f.must(f.start())
	if strings.Count(f.text.String(), "level=WARN") != 1 || !strings.Contains(f.text.String(), "errors=10") || len(f.kernel.inodes) > 0 {
		t.Errorf("%v\n%s", f.kernel.inodes, f.text)
	}
	f.kernel.full = false
	f.must(f.scan())
	if len(f.kernel.processes) != 10 {
		t.Errorf("%v", f.kernel.processes)
	}
}

// The control ring's records are followed; more than is looked at one by one is
// found by an early scan, which never takes more than its share of the CPU.
func TestDiscoveryWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		f.must(f.start())
		go func() { done <- f.watch(ctx) }()
		record := func(kind bpf.TareControlType, pid int) {
			f.kernel.control <- bpf.Control{Type: uint32(kind), Tgid: uint32(pid), Netns: 1, Port: 80}
			synctest.Wait()
		}
		scans := func() int {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.host.scans
		}
		f.host.start(10, "web", "", 1)
		record(bpf.TareControlTypeTARE_EXEC, 10)
		f.host.start(11, "store", "", 1, 110)
		record(bpf.TareControlTypeTARE_LISTEN, 11)
		if got := f.names(); !slices.Equal(got, []string{"store", "web"}) {
			t.Errorf("%v", got)
		}
		f.kernel.processes[12] = bpf.Service{Index: 1}
		f.kernel.control <- bpf.Control{Type: uint32(bpf.TareControlTypeTARE_EXEC), Tgid: 12, Service: 1}
		synctest.Wait()
		if _, stays := f.kernel.processes[12]; !stays {
			t.Error("a program that a request started, and that no rule selects, is not traced any more")
		}
		record(bpf.TareControlTypeTARE_EXEC, 12)
		if _, stays := f.kernel.processes[12]; stays {
			t.Error("any other program that no rule selects is still traced")
		}
		delete(f.host.processes, 10)
		record(bpf.TareControlTypeTARE_EXIT, 10)
		record(0xff, 12) // from a kernel side that is newer than this test
		if got := f.names(); !slices.Equal(got, []string{"store"}) || scans() != 1 {
			t.Errorf("%v, %d scans", got, scans())
		}
		for pid := range maxExecs + 1 {
			record(bpf.TareControlTypeTARE_EXEC, 1000+pid)
		}
		time.Sleep(earlyInterval + time.Millisecond)
		synctest.Wait()
		if scans() != 2 {
			t.Errorf("%d scans a second after more than could be looked at", scans())
		}
		time.Sleep(scanInterval)
		synctest.Wait()
		if scans() != 3 {
			t.Errorf("%d scans ten seconds later", scans())
		}
		f.kernel.unheard.Add(1)
		time.Sleep(buryInterval + earlyInterval)
		synctest.Wait()
		if scans() != 4 {
			t.Errorf("%d scans after there was no room to tell the agent", scans())
		}
		time.Sleep(scanInterval / 2)
		synctest.Wait()
		if scans() != 4 {
			t.Errorf("%d scans of which one was asked for once", scans())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWithout(t *testing.T) {
	for _, tt := range [][3][]uint64{
		{{1, 2, 3}, {2}, {1, 3}},
		{{1, 2}, nil, {1, 2}},
		{nil, {1}, nil},
		{{2, 4}, {1, 2, 3, 4, 5}, nil},
	} {
		if got := without(tt[0], tt[1]); !slices.Equal(got, tt[2]) {
			t.Errorf("%v without %v: %v", tt[0], tt[1], got)
		}
	}
}

func TestMissing(t *testing.T) {
	f := newFixture(t)
	f.cfg.Services = []config.Rule{{Ports: []config.PortRange{{First: 80, Last: 80}}}, {Name: "shop", Executable: "*/shop", Cgroup: "/x"}}
	f.must(f.start())
	f.missing()
	for _, want := range []string{`looked_for="a process that listens on port 80"`, `looked_for="executable */shop, cgroup /x" name=shop`} {
		if !strings.Contains(f.text.String(), want) {
			t.Errorf("no %s in\n%s", want, f.text)
		}
	}
	f.text.Reset()
	f.host.start(7, "shop", "", 1).Rule = 1
	f.must(f.scan())
	f.missing()
	if text := f.text.String(); !strings.Contains(text, "port 80") || strings.Contains(text, "*/shop") {
		t.Errorf("shop runs, and nothing listens on port 80:\n%s", text)
	}
}
