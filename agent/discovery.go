package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/discover"
	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

// maxExecs bounds how many new executables a second are looked at at once; on
// a host that starts more, a compiler's for instance, the next scan finds them.
const maxExecs = 100

// maxLooks bounds how often a scan is repeated because it found something new.
const maxLooks = 5

// discovery keeps the kernel side's tables in step with the processes that
// the rules select, and knows the resource of every service index.
type discovery struct {
	tracer *kernel.Tracer
	log    *slog.Logger

	mu        sync.Mutex
	cfg       config.Config
	scanner   *discover.Scanner
	known     map[int]discover.Process
	own       []netip.Prefix     // this host's addresses
	services  []discover.Service // by index − 1
	resources atomic.Pointer[[]*span.Resource]
	addresses atomic.Pointer[map[netip.Addr]uint32] // network namespace by address, see locate
}

func newDiscovery(t *kernel.Tracer, cfg config.Config, log *slog.Logger) *discovery {
	d := &discovery{
		tracer: t, log: log, cfg: cfg,
		scanner: discover.New("", cfg),
		known:   map[int]discover.Process{},
	}
	d.resources.Store(&[]*span.Resource{})
	return d
}

// resource finds the resource of a service index; nil if there is none.
func (d *discovery) resource(index uint16) *span.Resource {
	list := *d.resources.Load()
	if index == 0 || int(index) > len(list) {
		return nil
	}
	return list[index-1]
}

// service gives a service its index. d.mu is held.
func (d *discovery) service(s discover.Service) (bpf.Service, error) {
	for i, have := range d.services {
		if have.Equal(s) {
			return bpf.Service{Index: uint16(i + 1), Linking: uint8(s.Linking)}, nil
		}
	}
	if len(d.services) >= 1<<16-1 {
		return bpf.Service{}, fmt.Errorf("more than %d services since the agent began", 1<<16-1)
	}
	d.services = append(d.services, s)
	list := append([]*span.Resource{}, *d.resources.Load()...)
	list = append(list, s.Resource())
	d.resources.Store(&list)
	d.log.Info("service", "name", s.Name, "linking", s.Linking.String(), "why", s.Why)
	return bpf.Service{Index: uint16(len(d.services)), Linking: uint8(s.Linking)}, nil
}

// start finds and arms what runs already, then lets traces begin.
func (d *discovery) start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.scan(); err != nil {
		return err
	}
	return d.tracer.EnableEntry(true)
}

// scan looks at all processes, and again as long as it finds new ones or new
// sockets of theirs: a process that is not known yet forks, connects and
// accepts unseen, so the first look is never the last. d.mu is held.
func (d *discovery) scan() error {
	for range maxLooks {
		before := d.processes()
		found, err := d.scanner.Scan()
		if err != nil {
			return err
		}
		now := make(map[int]discover.Process, len(found))
		for _, p := range found {
			now[p.PID] = p
		}
		for pid := range d.known {
			if _, ok := now[pid]; !ok {
				if err := d.tracer.RemoveProcess(uint32(pid)); err != nil {
					return err
				}
			}
		}
		d.known = now
		if err := d.apply(); err != nil {
			return err
		}
		if maps.Equal(before, d.processes()) {
			return nil
		}
	}
	return nil
}

// processes identifies what is known.
func (d *discovery) processes() map[int]uint64 {
	m := make(map[int]uint64, len(d.known))
	for pid, p := range d.known {
		m[pid] = p.StartTime
	}
	return m
}

// apply tells the kernel side what is known, and arms it: first which networks
// are trusted, as a connection asks when it opens. d.mu is held.
func (d *discovery) apply() error {
	places := discover.OnePerNetNS(slices.Collect(maps.Values(d.known)))
	if err := d.trust(places); err != nil {
		return err
	}
	inodes := map[uint64]bpf.Service{}
	for pid, p := range d.known {
		s, err := d.service(p.Service)
		if err != nil {
			return err
		}
		if err := d.tracer.AddProcess(uint32(pid), s); err != nil {
			return err
		}
		for _, ino := range p.Sockets {
			inodes[ino] = s
		}
	}
	if err := d.tracer.SetInodes(inodes); err != nil {
		return err
	}
	if d.cfg.Metrics != config.MetricsOff {
		d.locate(places)
	}
	for _, p := range places {
		if err := discover.InNetNS(p.PID, d.tracer.Arm); err != nil {
			d.log.Warn("cannot arm the open connections of a network namespace", "pid", p.PID, "error", err)
		}
	}
	return nil
}

func (d *discovery) trust(places []discover.Process) error {
	pids := make([]int, 0, len(places))
	for _, p := range places {
		pids = append(pids, p.PID)
	}
	own, whole, err := discover.HostPrefixes(pids...)
	if err != nil && d.cfg.TrustsHost() {
		d.log.Warn("some of this host's addresses are not known, connections to them are not tagged", "error", err)
	}
	if !whole { // a process that has just ended may not be the last of its namespace
		for _, p := range d.own {
			if !slices.Contains(own, p) {
				own = append(own, p)
			}
		}
	}
	d.own = own
	prefixes := own[:0:0]
	for _, t := range d.cfg.Trust {
		prefixes = append(prefixes, t.Prefixes(own)...)
	}
	return d.tracer.Trust(prefixes)
}

// reconfigure selects by other rules from now on.
func (d *discovery) reconfigure(cfg config.Config) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cfg = cfg
	d.scanner = discover.New("", cfg)
	return d.scan()
}

// inspect looks at one process that has changed.
func (d *discovery) inspect(pid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok, err := d.scanner.Inspect(pid)
	if err != nil {
		d.log.Debug("inspect a process", "pid", pid, "error", err)
		return
	}
	if !ok {
		delete(d.known, pid)
		if err := d.tracer.RemoveProcess(uint32(pid)); err != nil {
			d.log.Warn("stop tracing a process", "pid", pid, "error", err)
		}
		return
	}
	if old, known := d.known[pid]; known && old.StartTime == p.StartTime && old.Exe == p.Exe {
		d.known[pid] = p
		err = d.apply()
	} else {
		// Its children from here on are traced; those that it has are found by a scan.
		var s bpf.Service
		if s, err = d.service(p.Service); err == nil {
			err = errors.Join(d.tracer.AddProcess(uint32(pid), s), d.scan())
		}
	}
	if err != nil {
		d.log.Warn("trace a process", "pid", pid, "error", err)
	}
}

// watch follows exec, listen and exit, and scans from time to time.
func (d *discovery) watch(ctx context.Context) error {
	changed := make(chan int, 256)
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	var second time.Time
	execs := 0
	var reader sync.WaitGroup
	defer reader.Wait()
	defer cancel()
	reader.Go(func() {
		failed <- d.tracer.Control(ctx, func(c bpf.Control) {
			switch bpf.TareControlType(c.Type) {
			case bpf.TareControlTypeTARE_EXEC:
				if now := time.Now(); now.Sub(second) > time.Second {
					second, execs = now, 0
				}
				if execs++; execs > maxExecs {
					return
				}
			case bpf.TareControlTypeTARE_LISTEN:
			default:
				return
			}
			select {
			case changed <- int(c.Tgid):
			default: // the next scan finds it
			}
		})
	})
	tick := time.NewTicker(scanInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case pid := <-changed:
			d.inspect(pid)
		case <-tick.C:
			d.mu.Lock()
			err := d.scan()
			d.mu.Unlock()
			if err != nil {
				d.log.Warn("look for services", "error", err)
			}
		}
	}
}

// names lists the services that were found, sorted.
func (d *discovery) names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[string]bool{}
	names := []string{}
	for _, p := range d.known {
		if !seen[p.Service.Name] {
			seen[p.Service.Name] = true
			names = append(names, p.Service.Name)
		}
	}
	sort.Strings(names)
	return names
}
