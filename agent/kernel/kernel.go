// Package kernel loads the programs of package bpf, attaches them, and is the
// only place that touches their maps. It holds every link for as long as the
// tracer lives: a link that nobody holds is closed by the garbage collector,
// and the tracer goes blind without a word.
package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
)

// Options are fixed once the programs are loaded.
type Options struct {
	Tier        string // of package tier; "" means the best
	Cgroup      string // directory of the cgroup v2 whose sockets are seen, usually the root
	Payload     bool   // read the beginnings of messages
	Traceparent bool   // adopt traceparent headers of trusted peers at entry sockets
	ParentBased bool   // obey the sampling decision of an adopted parent
	Sequence    bool   // tell where in its connection's stream a request begins
	Metrics     bool   // measure every request, sampled or not; see Measures

	measures  int    // size of the table of Measures; 0: as in measure.bpf.h
	Threshold uint64 // sampled iff rv >= Threshold; 0 … 2^56
	RingBytes int    // size of the event ring, a power of two; 0: 4 MiB
}

// Tracer is the kernel side, loaded and attached.
type Tracer struct {
	tier     *tier.Tier
	objs     objects
	programs []program
	links    []link.Link // held on purpose, see the package comment
	arm      *link.Iter  // nil where it is lost
	lost     []tier.Loss
	events   *ringbuf.Reader
	control  *ringbuf.Reader

	mu      sync.Mutex
	trusted map[bpf.Prefix]struct{}
}

// Load loads and attaches everything. Entry sockets take no decisions until
// EnableEntry, so that open connections can be armed first.
func Load(o Options) (*Tracer, error) {
	chosen, err := tier.Find(o.Tier)
	if err != nil {
		return nil, err
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise RLIMIT_MEMLOCK (needed before Linux 5.11): %w", err)
	}
	spec, err := bpf.LoadTare()
	if err != nil {
		return nil, fmt.Errorf("read the embedded kernel programs: %w", err)
	}
	ring := o.RingBytes
	if ring == 0 {
		ring = 4 << 20
	}
	spec.Maps[bpf.TareMapEvents].MaxEntries = uint32(ring)
	if o.measures > 0 {
		spec.Maps[bpf.TareMapMeasures].MaxEntries = uint32(o.measures)
	}
	if !o.Metrics {
		spec.Maps[bpf.TareMapMeasures].MaxEntries = 1 // nothing uses it
		spec.Maps[bpf.TareMapMeasuresOther].MaxEntries = 1
	}
	switches := map[string]any{
		"cfg_payload":        o.Payload,
		"cfg_traceparent":    o.Traceparent,
		"cfg_parent_based":   o.ParentBased,
		"cfg_sequence":       o.Sequence,
		"cfg_measure":        o.Metrics,
		"cfg_wakeup_bytes":   uint32(ring / 2),
		"sampling_threshold": o.Threshold,
	}
	for _, name := range chosen.Switches {
		switches[name] = true
	}
	for name, value := range switches {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	t := &Tracer{tier: chosen, trusted: map[bpf.Prefix]struct{}{}}
	if err := t.load(spec, chosen.Programs); err != nil {
		_ = t.Close()
		return nil, err
	}
	if err := t.attach(o.Cgroup); err != nil {
		_ = t.Close()
		return nil, err
	}
	return t, nil
}

// Close detaches and unloads. The kernel does the same when the process dies.
func (t *Tracer) Close() error {
	var errs []error
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	t.links = nil
	for _, p := range t.programs {
		errs = append(errs, p.loaded.Close())
	}
	if t.events != nil {
		errs = append(errs, t.events.Close())
	}
	if t.control != nil {
		errs = append(errs, t.control.Close())
	}
	return errors.Join(append(errs, t.objs.Close())...)
}

// SetThreshold changes the sampling rate; the next request at an entry socket
// obeys it. Nothing is detached, so there is no gap.
func (t *Tracer) SetThreshold(threshold uint64) error {
	return t.objs.SamplingThreshold.Set(threshold)
}

// Threshold reads back what the kernel side decides by.
func (t *Tracer) Threshold() (threshold uint64, err error) {
	err = t.objs.SamplingThreshold.Get(&threshold)
	return threshold, err
}

// EnableEntry lets entry sockets take root decisions.
func (t *Tracer) EnableEntry(on bool) error { return t.objs.EntryEnabled.Set(on) }

// SetService begins to use a service's index: the kernel side knows nothing of it
// but its name, of which peers are told the beginning.
func (t *Tracer) SetService(index uint16, name string) error {
	var s bpf.TareServiceState
	copy(s.Name[:], name)
	if err := t.objs.Services.Put(uint32(index), s); err != nil {
		return fmt.Errorf("note service %s: %w", name, err)
	}
	return nil
}

// AddProcess traces a process: what it connects and listens to from now on. What
// the kernel side knows of one that was forked stays.
func (t *Tracer) AddProcess(pid uint32, s bpf.Service) error {
	var have bpf.Service
	if err := t.objs.Processes.Lookup(pid, &have); err == nil && have.Index == s.Index && have.Linking == s.Linking {
		return nil
	}
	if err := t.objs.Processes.Put(pid, s); err != nil {
		return fmt.Errorf("trace process %d: %w", pid, err)
	}
	return nil
}

// RemoveProcess stops tracing new connections of a process.
func (t *Tracer) RemoveProcess(pid uint32) error {
	return remove(t.objs.Processes, pid)
}

// AddInode tells that an open socket belongs to a traced service; Arm looks it
// up.
func (t *Tracer) AddInode(inode uint64, s bpf.Service) error {
	if err := t.objs.Inodes.Put(inode, s); err != nil {
		return fmt.Errorf("note socket inode %d: %w", inode, err)
	}
	return nil
}

// RemoveInode forgets what AddInode told.
func (t *Tracer) RemoveInode(inode uint64) error { return remove(t.objs.Inodes, inode) }

// Trust replaces the networks that tags go to and are believed from. It
// concerns connections established from now on.
func (t *Tracer) Trust(prefixes []netip.Prefix) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := make(map[bpf.Prefix]struct{}, len(prefixes))
	for _, p := range prefixes {
		key := bpf.Prefix{Bits: uint32(p.Bits()), Address: p.Addr().As16()}
		if p.Addr().Is4() {
			key.Bits += 96
		}
		want[key] = struct{}{}
		if _, ok := t.trusted[key]; ok {
			continue
		}
		if err := t.objs.Trusted.Put(key, uint8(1)); err != nil {
			return fmt.Errorf("trust %v: %w", p, err)
		}
		t.trusted[key] = struct{}{}
	}
	for key := range t.trusted {
		if _, ok := want[key]; !ok {
			_ = t.objs.Trusted.Delete(key)
			delete(t.trusted, key)
		}
	}
	return nil
}

// Arm walks the sockets of the calling thread's network namespace, arms what
// AddInode named and renews marks. It does nothing where that capability is
// lost.
func (t *Tracer) Arm() error {
	if t.arm == nil {
		return nil
	}
	walk, err := t.arm.Open()
	if err != nil {
		return fmt.Errorf("walk the sockets: %w", err)
	}
	defer walk.Close()
	buf := make([]byte, 4096)
	for {
		if n, err := walk.Read(buf); n == 0 || err != nil {
			return nil // the program writes nothing; EOF ends the walk
		}
	}
}
