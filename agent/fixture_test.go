package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/discover"
	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeKernel is a kernel side that records what it is told.
type fakeKernel struct {
	mu        sync.Mutex // timers demand hooks, on goroutines of their own
	calls     []string
	processes map[uint32]bpf.Service
	inodes    map[uint64]bpf.Service
	listeners map[bpf.PortKey]bpf.Service
	trusted   []kernel.Network
	control   chan bpf.Control
	silent    bool          // it does not tell of event loops that begin to use other sockets
	full      bool          // no room for processes
	room      int           // for trusted networks, 0: for all
	unheard   atomic.Uint64 // control records that found no room
}

func (k *fakeKernel) note(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, fmt.Sprintf(format, args...))
}

func (k *fakeKernel) SetService(uint16, string, uint32) error { return nil }

func (k *fakeKernel) EnableEntry(on bool) error { k.note("entry %v", on); return nil }

func (k *fakeKernel) AddProcess(pid uint32, s bpf.Service) error {
	if k.full {
		return errors.New("no room")
	}
	k.note("add %d", pid)
	k.processes[pid] = s
	return nil
}

func (k *fakeKernel) Armed(pid uint32) error {
	k.note("armed %d", pid)
	return nil
}

func (k *fakeKernel) RemoveProcess(pid uint32) error {
	k.note("remove %d", pid)
	delete(k.processes, pid)
	return nil
}

func (k *fakeKernel) AddInode(inode uint64, s bpf.Service) error {
	k.note("inode %d", inode)
	k.inodes[inode] = s
	return nil
}

func (k *fakeKernel) RemoveInode(inode uint64) error {
	k.note("no inode %d", inode)
	delete(k.inodes, inode)
	return nil
}

func (k *fakeKernel) RemoveListener(p bpf.PortKey) error {
	k.note("no listener %d", p.Port)
	delete(k.listeners, p)
	return nil
}

func (k *fakeKernel) Trust(networks []kernel.Network) (left int, err error) {
	k.note("trust")
	k.trusted = networks
	if k.room > 0 && len(networks) > k.room {
		k.trusted, left = networks[:k.room], len(networks)-k.room
	}
	return left, nil
}

func (k *fakeKernel) Arm() error                                 { k.note("arm"); return nil }
func (k *fakeKernel) Processes() (map[uint32]bpf.Service, error) { return maps.Clone(k.processes), nil }
func (k *fakeKernel) Listeners() (map[bpf.PortKey]bpf.Service, error) {
	return maps.Clone(k.listeners), nil
}
func (k *fakeKernel) Put(string, any, any) error { return nil }
func (k *fakeKernel) Delete(string, any) error   { return nil }

func (k *fakeKernel) TellsOfTurns() bool { return !k.silent }

func (k *fakeKernel) SweepUnix() error { return nil }

func (k *fakeKernel) Counters() (n bpf.TareCounters, err error) {
	n.N[bpf.TareCounterTARE_C_CONTROL_FULL] = k.unheard.Load()
	return n, nil
}

func (k *fakeKernel) Demand(of tier.Demand, on bool) error {
	if of == tier.Loops { // others are demanded by timers, on goroutines of their own
		k.note("%s %v", of, on)
	}
	return nil
}

func (k *fakeKernel) Control(ctx context.Context, handle func(bpf.Control)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-k.control:
			handle(c)
		}
	}
}

func (k *fakeKernel) trusts(address string) bool {
	a := netip.MustParseAddr(address)
	return slices.ContainsFunc(k.trusted, func(n kernel.Network) bool { return !n.Near && n.Contains(a) })
}

// near reports whether an address is trusted of connections within the host, and of no others.
func (k *fakeKernel) near(address string) bool {
	a := netip.MustParseAddr(address)
	return !k.trusts(address) && slices.ContainsFunc(k.trusted, func(n kernel.Network) bool { return n.Contains(a) })
}

// fakeHost is a host with the processes that a test gives it.
type fakeHost struct {
	kernel    *fakeKernel
	processes map[int]*discover.Process
	children  map[int][]int
	held      map[uint64]bool // listeners that somebody holds
	addresses map[uint32][]netip.Addr
	unproven  map[netip.Addr]bool // they may be other hosts'
	scans     int
	inspected []int
	whenAdded func(pid int) // runs before a process is looked at again
}

func (h *fakeHost) Scan() (found []discover.Process, err error) {
	h.scans++
	for _, pid := range slices.Sorted(maps.Keys(h.processes)) {
		found = append(found, *h.processes[pid])
	}
	return found, nil
}

func (h *fakeHost) Inspect(pids []int, each func(int, discover.Process, bool, error)) {
	for _, pid := range pids {
		h.inspected = append(h.inspected, pid)
		if p := h.processes[pid]; p != nil {
			each(pid, *p, true, nil)
		} else {
			each(pid, discover.Process{}, false, nil)
		}
	}
}

func (h *fakeHost) Children(pid int) []int {
	if h.whenAdded != nil {
		h.whenAdded(pid)
	}
	return h.children[pid]
}

func (h *fakeHost) Listens(inode uint64) bool { return h.held[inode] }

func (h *fakeHost) Here(_ int, list []netip.Addr) (map[netip.Addr]bool, error) {
	here := map[netip.Addr]bool{}
	for _, a := range list {
		here[a] = !h.unproven[a]
	}
	return here, nil
}

func (h *fakeHost) Addresses(pid int) ([]netip.Addr, error) {
	if pid == 0 {
		return h.addresses[0], nil
	}
	if p := h.processes[pid]; p != nil {
		return h.addresses[p.NetNS], nil
	}
	return nil, fs.ErrNotExist
}

func (h *fakeHost) InNetNS(pid int, fn func() error) error {
	p := h.processes[pid]
	if p == nil {
		return fs.ErrNotExist
	}
	h.kernel.note("in %d", p.NetNS)
	return fn()
}

// start adds a process, of the service name in a container.
func (h *fakeHost) start(pid int, name, container string, netns uint32, sockets ...uint64) *discover.Process {
	p := &discover.Process{
		PID: pid, StartTime: uint64(pid), Exe: "/" + name, NetNS: netns, Sockets: sockets,
		Service: discover.Service{Name: name, Linking: config.Thread, Why: "a test", Attrs: []span.Attr{span.String("container.id", container)}},
	}
	h.processes[pid] = p
	return p
}

type fixture struct {
	*discovery
	kernel *fakeKernel
	host   *fakeHost
	text   *strings.Builder // of the log
	t      *testing.T
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	k := &fakeKernel{
		processes: map[uint32]bpf.Service{}, inodes: map[uint64]bpf.Service{}, listeners: map[bpf.PortKey]bpf.Service{},
		control: make(chan bpf.Control),
	}
	h := &fakeHost{
		kernel: k, processes: map[int]*discover.Process{}, children: map[int][]int{}, held: map[uint64]bool{},
		addresses: map[uint32][]netip.Addr{0: {netip.MustParseAddr("192.0.2.1")}},
	}
	for ns := uint32(1); ns <= 3; ns++ {
		h.addresses[ns] = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(ns)})}
	}
	var text strings.Builder
	cfg := config.Default()
	cfg.Metrics = config.MetricsRequests
	log := slog.New(slog.NewTextHandler(&text, nil))
	return &fixture{newDiscovery(k, cfg, log, nil, func(config.Config) system { return h }), k, h, &text, t}
}

// did are the calls since the last time.
func (f *fixture) did() string {
	f.kernel.mu.Lock()
	defer f.kernel.mu.Unlock()
	s := strings.Join(f.kernel.calls, ", ")
	f.kernel.calls = nil
	return s
}

func (f *fixture) expect(want string) {
	f.t.Helper()
	if got := f.did(); got != want {
		f.t.Errorf("told the kernel side:\n%s\nwant:\n%s", got, want)
	}
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) told(pids ...int) {
	f.t.Helper()
	t := told{pids: map[int]fate{}}
	for _, pid := range pids {
		t.pids[pid] = runs
	}
	f.must(f.follow(t))
}

func (f *fixture) exits(pid int) {
	f.t.Helper()
	delete(f.host.processes, pid)
	delete(f.kernel.processes, uint32(pid)) // the kernel side does so by itself
	f.must(f.follow(told{pids: map[int]fate{pid: ended}}))
}

// container is that of the spans of a process, as its index names it.
func (f *fixture) container(pid int) string {
	f.t.Helper()
	r := f.resource(f.kernel.processes[uint32(pid)].Index)
	if r == nil {
		return "no resource"
	}
	return r.Service + " " + r.Attrs[0].Str
}
