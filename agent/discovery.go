package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-trace/tare/agent/cluster"
	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/discover"
	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/agent/runtime"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

const (
	scanInterval  = 10 * time.Second // between scans of /proc, besides what the control ring reports
	buryInterval  = time.Second      // between looks for unix sockets that were closed
	earlyInterval = time.Second      // where it reported more than is looked at one by one, and behind the first of an event loop
	// A scan is followed by a pause of so many times its length: it takes at most
	// 2% of a CPU on a host where it takes long.
	scanPause = 50
	// maxLooks bounds how often processes that were new are looked at again
	// because they had forked others.
	maxLooks = 5
)

// tracer is the kernel side as discovery needs it; kernel.Tracer is one.
type tracer interface {
	EnableEntry(on bool) error
	SetService(index uint16, name string, headers uint32) error
	AddProcess(pid uint32, s bpf.Service) error
	Armed(pid uint32) error
	RemoveProcess(pid uint32) error
	Processes() (map[uint32]bpf.Service, error)
	AddInode(inode uint64, s bpf.Service) error
	RemoveInode(inode uint64) error
	Listeners() (map[bpf.PortKey]bpf.Service, error)
	RemoveListener(bpf.PortKey) error
	Trust(networks []kernel.Network) (left int, err error)
	Arm() error
	Control(ctx context.Context, handle func(bpf.Control)) error
	Demand(d tier.Demand, on bool) error
	TellsOfTurns() bool
	SweepUnix() error
	Counters() (bpf.TareCounters, error)
	runtime.Maps
}

// system is this host's processes and network namespaces; package discover
// knows them.
type system interface {
	Scan() ([]discover.Process, error)
	Inspect(pids []int, each func(pid int, found discover.Process, ok bool, err error))
	Children(pid int) []int
	Listens(inode uint64) bool
	Addresses(pid int) ([]netip.Addr, error)
	Here(pid int, addresses []netip.Addr) (map[netip.Addr]bool, error)
	InNetNS(pid int, fn func() error) error
}

type host struct{ *discover.Scanner }

func (host) Addresses(pid int) ([]netip.Addr, error) { return discover.Addresses(pid) }
func (host) Here(pid int, addresses []netip.Addr) (map[netip.Addr]bool, error) {
	return discover.Here(pid, addresses)
}
func (host) InNetNS(pid int, fn func() error) error { return discover.InNetNS(pid, fn) }

// discovery keeps the kernel side's tables in step with the processes that
// the rules select, and knows the resource of every service index. What one
// process changes costs work for that process and its network namespace.
type discovery struct {
	tracer    tracer
	log       *slog.Logger
	newSystem func(config.Config) system
	cluster   cluster.Source // nil: none
	clustered chan struct{}  // what the cluster says has changed
	changes   *changes
	looks     *looks
	demands   *demands
	disarmed  *disarmed
	begin     func() error // lets traces begin
	// released, if set, is called before an index may be used again, and keeps
	// it from that by an error.
	released func(index uint16) error

	mu         sync.Mutex
	started    bool // all processes were looked at
	failed     failures
	cfg        config.Config
	system     system
	services   *services
	loops      bool // some event loop is held to receive more than TCP
	newLoops   bool // one was found, by the scan or since: the next scan sees what it opened before the kernel side knew it
	headers    headers
	known      map[int]*traced
	sockets    map[uint64]*socket   // of known processes
	listening  map[bpf.PortKey]int  // how many known processes listen there
	doubted    map[bpf.PortKey]bool // listeners of the kernel side that no process of theirs had at the last scan
	namespaces map[uint32]*namespace
	left       *leftOut
	unread     map[reading.Limit]bool                // what was logged of processes that are not read
	refused    int                                   // processes that had no room since the last scan began
	untold     int                                   // sockets that have none
	addresses  atomic.Pointer[map[netip.Addr]uint32] // network namespace by address, see locate
}

// failures are counted, and logged once for all: there may be as many as sockets.
type failures struct {
	n     int
	first error
}

func (f *failures) add(err error) {
	if err == nil {
		return
	}
	if f.n++; f.n == 1 {
		f.first = err
	}
}

func newDiscovery(t tracer, cfg config.Config, log *slog.Logger, in cluster.Source, newSystem func(config.Config) system) *discovery {
	d := &discovery{
		cluster: in, clustered: make(chan struct{}, 1),
		tracer: t, log: log, newSystem: newSystem, changes: newChanges(), cfg: cfg,
		system:     newSystem(cfg),
		headers:    headers{log: log, put: t.Put},
		known:      map[int]*traced{},
		sockets:    map[uint64]*socket{},
		listening:  map[bpf.PortKey]int{},
		doubted:    map[bpf.PortKey]bool{},
		namespaces: map[uint32]*namespace{},
		left:       newLeftOut(),
		unread:     map[reading.Limit]bool{},
	}
	d.services = newServices(log, func(index uint16, s *discover.Service) error {
		bits, err := d.headers.bits(s.Correlation)
		if err != nil {
			return err
		}
		return t.SetService(index, s.Name, bits)
	})
	d.looks, d.demands = newLooks(d), newDemands(t.Demand, log)
	d.disarmed = newDisarmed(log)
	d.begin = func() error { return t.EnableEntry(true) }
	return d
}

// clusterChanged has all processes looked at soon: what they are called and whether they are
// selected may have changed. Any goroutine may call it, as often as it likes.
func (d *discovery) clusterChanged() {
	select {
	case d.clustered <- struct{}{}:
	default:
	}
}

// resource finds the resource of a service index; nil if there is none.
func (d *discovery) resource(index uint16) *span.Resource { return d.services.resource(index) }

// start finds and arms what runs already, then lets traces begin.
func (d *discovery) start() error {
	if err := d.scan(); err != nil {
		return err
	}
	d.demands.start()
	return d.begin()
}

// scan looks at all processes, and arms all network namespaces of those that
// are traced: marks are to be renewed from time to time.
func (d *discovery) scan() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, err := d.system.Scan()
	if err != nil {
		return err
	}
	runs := make(map[int]bool, len(found))
	for i := range found {
		runs[found[i].PID] = true
	}
	for pid := range d.known {
		if !runs[pid] {
			d.leave(pid)
		}
	}
	d.refused, d.newLoops = 0, false
	err = d.take(found, true)
	for _, l := range reading.Limits {
		if !d.unread[l] && reading.Unread(l) > 0 {
			d.unread[l] = true
			d.log.Warn("not all is read of some processes: what is not known of them is not linked", "limit", string(l), "reason", l, "counted_by", "tare_unread_total")
		}
	}
	d.left.set(leftProcesses, d.refused)
	if d.left.set(leftSockets, d.untold) {
		d.log.Warn("a service has more open sockets than one may have noted: some that were open before are not traced", "sockets", d.untold, "of_one_service", maxServiceSockets)
	}
	if err != nil {
		return err
	}
	d.started = true
	if err := d.recycle(); err != nil {
		return err
	}
	for i := range found {
		for _, need := range found[i].Needs {
			d.demands.hold(need, 0)
		}
	}
	d.watchLoops(d.newLoops || slices.ContainsFunc(found, func(p discover.Process) bool {
		return p.Turns || p.Service.Linking == config.Loop && !d.tracer.TellsOfTurns()
	}))
	return nil
}

// watchLoops keeps the hooks attached that see what event loops receive beside TCP, while
// some may receive such, by its sockets.
func (d *discovery) watchLoops(on bool) {
	switch {
	case on && !d.loops:
		d.demands.need(tier.Loops, 1)
	case !on && d.loops:
		d.demands.need(tier.Loops, -1)
	}
	d.loops = on
}

// take traces processes; if all is set, there are no others. Until the kernel
// side knows a process, it forks, connects and accepts unseen: those that are new
// are looked at once more, with the children that they had by then. d.mu is held.
func (d *discovery) take(found []discover.Process, all bool) error {
	defer func() {
		if d.failed.n > 0 {
			d.log.Warn("limit reached: some processes or older sockets are not traced", "errors", d.failed.n, "first", d.failed.first)
			d.failed = failures{}
		}
	}()
	for range maxLooks {
		if err := d.trust(places(found), all); err != nil {
			return err
		}
		var fresh, told []int
		var open []discover.Process
		for _, p := range found {
			k := d.known[p.PID]
			isNew := k == nil || k.StartTime != p.StartTime || k.Exe != p.Exe
			if err := d.tell(p); err != nil {
				d.failed.add(err)
				continue
			}
			if isNew {
				fresh = append(fresh, p.PID)
			} else {
				told = append(told, p.PID)
			}
			if len(p.Sockets) > 0 || d.cfg.Tag == config.TagIP { // what connects there later leaves by its devices
				open = append(open, p)
			}
		}
		if d.arm(places(open)) {
			d.armed(told)
		}
		if len(fresh) == 0 {
			return nil
		}
		found, all = d.again(fresh), false
	}
	return nil
}

// again looks at processes that were new, and at their children.
func (d *discovery) again(fresh []int) (found []discover.Process) {
	pids := slices.Clone(fresh)
	for _, pid := range fresh {
		for _, child := range d.system.Children(pid) {
			if d.known[child] == nil {
				pids = append(pids, child)
			}
		}
	}
	slices.Sort(pids)
	d.system.Inspect(slices.Compact(pids), func(pid int, p discover.Process, ok bool, err error) {
		switch {
		case err != nil:
			d.log.Debug("inspect a process", "pid", pid, "error", err)
		case ok:
			found = append(found, p)
		case d.known[pid] != nil: // a child that no rule selects may be traced as such
			d.leave(pid)
		}
	})
	return found
}

// reconfigure selects by other rules from now on.
func (d *discovery) reconfigure(cfg config.Config) error {
	d.mu.Lock()
	d.cfg = cfg
	d.system = d.newSystem(cfg)
	d.mu.Unlock()
	return d.scan()
}

// follow looks at the processes that the control ring told of.
func (d *discovery) follow(t told) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.started {
		return nil // the first scan comes, and finds them
	}
	var pids []int
	for pid, f := range t.pids {
		if f != runs {
			d.forget(pid) // of a helper, the kernel side is told anew if a rule selects it
		}
		if f == ended {
			continue
		}
		pids = append(pids, pid)
		if k := d.known[pid]; k != nil {
			d.detach(k) // exec: its memory is another
		}
	}
	slices.Sort(pids)
	var found []discover.Process
	d.system.Inspect(pids, func(pid int, p discover.Process, ok bool, err error) {
		switch {
		case err != nil:
			d.log.Debug("inspect a process", "pid", pid, "error", err)
		case ok:
			found = append(found, p)
		case t.pids[pid] == helps: // it stays its parent's to the kernel side
		default:
			d.leave(pid)
		}
	})
	if err := d.take(found, false); err != nil {
		return err
	}
	if len(found) > 0 {
		d.demands.began()
	}
	// The port, and the number of a network namespace, may have been a traced
	// service's before: what comes in there is not its any more.
	for k, pid := range t.listens {
		if d.known[pid] == nil && d.listening[k] == 0 {
			if err := d.tracer.RemoveListener(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// watch follows exec, listen and exit, and scans from time to time.
func (d *discovery) watch(ctx context.Context) error {
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer cancel()
	decided := newDecisions(d.log, d.resource, d.headers.name)
	reader.Go(func() { d.looks.run(ctx) })
	reader.Go(func() {
		failed <- d.tracer.Control(ctx, func(r bpf.Control) {
			d.changes.control(r)
			decided.control(r)
			d.demands.control(r)
			d.looks.control(r)
			d.disarmed.control(r)
		})
	})

	scanned := time.Now()
	pause := time.Duration(0)
	unheard := uint64(0)
	next := time.NewTimer(d.interval())
	defer next.Stop()
	early := func() { next.Reset(max(earlyInterval, pause) - time.Since(scanned)) }
	sweep := time.NewTicker(buryInterval)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-sweep.C:
			if err := d.tracer.SweepUnix(); err != nil {
				d.log.Warn("requests on closed unix sockets are reported as in flight", "error", err)
			}
			if n, err := d.tracer.Counters(); err != nil {
				d.log.Warn("cannot tell whether kernel events were dropped", "error", err)
			} else if full := n.N[bpf.TareCounterTARE_C_CONTROL_FULL]; full != unheard {
				unheard = full
				early()
			}
		case <-d.disarmed.timer.C:
			d.rearm(d.disarmed.take())
		case <-d.changes.wake:
			t := d.changes.take()
			if err := d.follow(t); err != nil {
				d.log.Warn("cannot trace some processes", "error", err)
			}
			if t.missed || d.interval() < scanInterval {
				early()
			}
		case <-d.clustered:
			early()
		case <-next.C:
			began := time.Now()
			if err := d.scan(); err != nil {
				d.log.Warn("cannot look for services", "error", err)
			}
			scanned = time.Now()
			pause = scanPause * scanned.Sub(began)
			next.Reset(max(d.interval(), pause))
		}
	}
}

// interval is how long to wait from one scan to the next.
func (d *discovery) interval() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.newLoops { // hooks that cost something wait for it
		return earlyInterval
	}
	return scanInterval
}

// missing says, of each rule that selects nothing yet, what it looks for.
func (d *discovery) missing() {
	d.mu.Lock()
	defer d.mu.Unlock()
	used := make([]bool, len(d.cfg.Services))
	for _, p := range d.known {
		if p.Rule < len(used) {
			used[p.Rule] = true
		}
	}
	for i := range used {
		if r := &d.cfg.Services[i]; !used[i] {
			d.log.Warn("no matching process yet; still watching", "looked_for", r.String(), "name", r.Name)
		}
	}
}

// names lists the services that were found, sorted.
func (d *discovery) names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := []string{}
	for _, p := range d.known {
		names = append(names, p.Service.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
