package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/discover"
	"github.com/tare-trace/tare/agent/runtime"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

const (
	scanInterval  = 10 * time.Second // between scans of /proc, besides what the control ring reports
	earlyInterval = time.Second      // where it reported more than is looked at one by one
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
	AddProcess(pid uint32, s bpf.Service) error
	RemoveProcess(pid uint32) error
	Processes() (map[uint32]bpf.Service, error)
	AddInode(inode uint64, s bpf.Service) error
	RemoveInode(inode uint64) error
	Listeners() (map[bpf.PortKey]bpf.Service, error)
	RemoveListener(bpf.PortKey) error
	Trust(prefixes []netip.Prefix) error
	Arm() error
	Control(ctx context.Context, handle func(bpf.Control)) error
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
	InNetNS(pid int, fn func() error) error
}

type host struct{ *discover.Scanner }

func newHost(cfg config.Config) system               { return host{discover.New("", cfg)} }
func (host) Addresses(pid int) ([]netip.Addr, error) { return discover.Addresses(pid) }
func (host) InNetNS(pid int, fn func() error) error  { return discover.InNetNS(pid, fn) }

// discovery keeps the kernel side's tables in step with the processes that
// the rules select, and knows the resource of every service index. What one
// process changes costs work for that process and its network namespace.
type discovery struct {
	tracer    tracer
	log       *slog.Logger
	newSystem func(config.Config) system
	changes   *changes
	// released, if set, is called before an index may be used again, and keeps
	// it from that by an error.
	released func(index uint16) error

	mu         sync.Mutex
	started    bool // all processes were looked at
	failed     failures
	cfg        config.Config
	system     system
	services   *services
	known      map[int]*traced
	sockets    map[uint64]*socket                    // of known processes
	listening  map[bpf.PortKey]int                   // how many known processes listen there
	doubted    map[bpf.PortKey]bool                  // listeners of the kernel side that no process of theirs had at the last scan
	namespaces map[uint32][]netip.Addr               // addresses by network namespace
	addresses  atomic.Pointer[map[netip.Addr]uint32] // network namespace by address, see locate
}

// traced is a process that the kernel side knows.
type traced struct {
	discover.Process
	service  *service
	attached bool // its runtime has told what it has to tell
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

// socket is an open socket. The kernel side's state of it names the service
// that opened it, whoever has it now.
type socket struct {
	service *service
	holders int // known processes
}

func newDiscovery(t tracer, cfg config.Config, log *slog.Logger, newSystem func(config.Config) system) *discovery {
	return &discovery{
		tracer: t, log: log, newSystem: newSystem, changes: newChanges(), cfg: cfg,
		system:     newSystem(cfg),
		services:   newServices(log),
		known:      map[int]*traced{},
		sockets:    map[uint64]*socket{},
		listening:  map[bpf.PortKey]int{},
		doubted:    map[bpf.PortKey]bool{},
		namespaces: map[uint32][]netip.Addr{},
	}
}

// resource finds the resource of a service index; nil if there is none.
func (d *discovery) resource(index uint16) *span.Resource { return d.services.resource(index) }

// start finds and arms what runs already, then lets traces begin.
func (d *discovery) start() error {
	if err := d.scan(); err != nil {
		return err
	}
	return d.tracer.EnableEntry(true)
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
	if err := d.take(found, true); err != nil {
		return err
	}
	d.started = true
	return d.recycle()
}

// take traces processes; if all is set, there are no others. Until the kernel
// side knows a process, it forks, connects and accepts unseen: those that are new
// are looked at once more, with the children that they had by then. d.mu is held.
func (d *discovery) take(found []discover.Process, all bool) error {
	defer func() {
		if d.failed.n > 0 {
			d.log.Warn("some processes, or sockets that were open before, are not traced", "errors", d.failed.n, "first", d.failed.first)
			d.failed = failures{}
		}
	}()
	for range maxLooks {
		if err := d.trust(places(found), all); err != nil {
			return err
		}
		var fresh []int
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
			}
			if len(p.Sockets) > 0 {
				open = append(open, p)
			}
		}
		d.arm(places(open))
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

// tell tells the kernel side of a process, as far as it has changed.
func (d *discovery) tell(p discover.Process) error {
	old := d.known[p.PID]
	if old != nil && old.StartTime != p.StartTime {
		d.forget(p.PID)
		old = nil
	}
	if old == nil || !old.Service.Equal(p.Service) {
		s, err := d.services.get(p.Service)
		if err != nil {
			return err
		}
		if err := d.tracer.AddProcess(uint32(p.PID), s.kernel()); err != nil {
			return err
		}
		d.services.use(s, 1, 0)
		if old != nil {
			d.detach(old)
			d.services.use(old.service, -1, 0)
		}
		d.known[p.PID] = &traced{service: s}
	}
	now := d.known[p.PID]
	if !now.attached {
		now.attached = true
		d.failed.add(p.Attach(d.tracer))
	}
	if old == nil {
		old = now
	}
	// What is open was opened before the process was told to be another service's.
	for _, inode := range without(p.Sockets, old.Sockets) {
		d.hold(inode, old.service)
	}
	for _, inode := range without(old.Sockets, p.Sockets) {
		d.drop(inode)
	}
	d.listens(&p, 1)
	d.listens(&old.Process, -1)
	now.Process = p
	return nil
}

// detach takes back what a process's runtime has told.
func (d *discovery) detach(p *traced) {
	if p.attached {
		p.attached = false
		d.failed.add(p.Detach(d.tracer))
	}
}

// forget ends what is known of a process.
func (d *discovery) forget(pid int) {
	p := d.known[pid]
	if p == nil {
		return
	}
	delete(d.known, pid)
	d.detach(p)
	d.services.use(p.service, -1, 0)
	for _, inode := range p.Sockets {
		d.drop(inode)
	}
	d.listens(&p.Process, -1)
}

// leave stops tracing a process.
func (d *discovery) leave(pid int) {
	d.forget(pid)
	d.failed.add(d.tracer.RemoveProcess(uint32(pid)))
}

// hold notes that a known process has a socket.
func (d *discovery) hold(inode uint64, s *service) {
	have := d.sockets[inode]
	if have == nil {
		have = &socket{service: s}
		d.sockets[inode] = have
		d.services.use(s, 0, 1)
		d.failed.add(d.tracer.AddInode(inode, s.kernel()))
	}
	have.holders++
}

// drop notes that a known process has a socket no more. A listener that
// somebody else holds, systemd for instance, keeps its service's index.
func (d *discovery) drop(inode uint64) {
	have := d.sockets[inode]
	if have == nil {
		return
	}
	if have.holders--; have.holders > 0 || d.system.Listens(inode) {
		return
	}
	d.close(inode, have)
}

func (d *discovery) close(inode uint64, s *socket) {
	delete(d.sockets, inode)
	d.services.use(s.service, 0, -1)
	d.failed.add(d.tracer.RemoveInode(inode))
}

func (d *discovery) listens(p *discover.Process, n int) {
	for _, port := range p.Listening {
		k := bpf.PortKey{Netns: p.NetNS, Port: uint32(port)}
		if d.listening[k] += n; d.listening[k] == 0 {
			delete(d.listening, k)
		}
	}
}

// without are the numbers of a that b lacks; both are sorted.
func without(a, b []uint64) (left []uint64) {
	for _, n := range a {
		for len(b) > 0 && b[0] < n {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != n {
			left = append(left, n)
		}
	}
	return left
}

// recycle takes from the kernel side's tables what names services that have
// ended, and gives up their indices when nothing names them any more. It follows
// a scan. d.mu is held.
func (d *discovery) recycle() error {
	for inode, s := range d.sockets {
		if s.holders == 0 && !d.system.Listens(inode) {
			d.close(inode, s)
		}
	}
	listeners, err := d.tracer.Listeners()
	if err != nil {
		return err
	}
	inUse, err := d.inUse()
	if err != nil {
		return err
	}
	doubted := d.doubted
	d.doubted = map[bpf.PortKey]bool{}
	named := map[uint16]bool{}
	for k, s := range listeners {
		stale := d.listening[k] == 0 && !inUse[s.Index]
		if stale && doubted[k] {
			if err := d.tracer.RemoveListener(k); err != nil {
				return err
			}
			continue
		}
		named[s.Index] = true
		if stale { // or younger than the scan
			d.doubted[k] = true
		}
	}
	for _, s := range d.services.rested() {
		if inUse[s.index] || named[s.index] {
			continue
		}
		if d.released != nil {
			if err := d.released(s.index); err != nil {
				return err
			}
		}
		d.services.release(s)
	}
	return nil
}

// inUse are the indices of processes that only the kernel side knows, such as
// children that no rule selects, and of sockets that somebody else holds.
func (d *discovery) inUse() (map[uint16]bool, error) {
	processes, err := d.tracer.Processes()
	if err != nil {
		return nil, err
	}
	indices := map[uint16]bool{}
	for pid, s := range processes {
		if d.known[int(pid)] == nil {
			indices[s.Index] = true
		}
	}
	for _, s := range d.sockets {
		if s.holders == 0 {
			indices[s.service.index] = true
		}
	}
	return indices, nil
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
	for pid, runs := range t.pids {
		if !runs {
			d.forget(pid)
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
		default:
			d.leave(pid)
		}
	})
	if err := d.take(found, false); err != nil {
		return err
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
	reader.Go(func() { failed <- d.tracer.Control(ctx, d.changes.control) })

	scanned := time.Now()
	pause := time.Duration(0)
	next := time.NewTimer(scanInterval)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-d.changes.wake:
			t := d.changes.take()
			if err := d.follow(t); err != nil {
				d.log.Warn("trace processes", "error", err)
			}
			if t.missed {
				next.Reset(max(earlyInterval, pause) - time.Since(scanned))
			}
		case <-next.C:
			began := time.Now()
			if err := d.scan(); err != nil {
				d.log.Warn("look for services", "error", err)
			}
			scanned = time.Now()
			pause = scanPause * scanned.Sub(began)
			next.Reset(max(scanInterval, pause))
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
