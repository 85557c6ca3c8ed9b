// Package kernel loads the programs of package bpf, attaches them, and is the
// only place that touches their maps. It holds every link for as long as the
// tracer lives: a link that nobody holds is closed by the garbage collector,
// and the tracer goes blind without a word.
package kernel

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/tare-trace/tare/agent/claim"
	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
)

// Options are fixed once the programs are loaded.
type Options struct {
	Tier        string             // of package tier; "" means the first that works
	Cgroup      string             // directory of the cgroup v2 whose sockets are seen, usually the root
	Tag         bpf.TareTagCarrier // what carries contexts between hosts
	Empty       bool               // programs return at once, to measure what their hooks cost
	Payload     bool               // read the beginnings of messages
	Traceparent bool               // adopt traceparent headers of trusted peers at entry sockets
	ParentBased bool               // obey the sampling decision of an adopted parent
	Sequence    bool               // tell where in its connection's stream a request begins
	SameHost    bool               // pass the context within the kernel where both ends are traced here
	ArmNV       bool               // reach open connections by way of the congestion control nv; see Arm
	Metrics     bool               // measure every request, sampled or not; see Measures
	Claim       *claim.Claim       // says when requests begin here; nil: as soon as EnableEntry
	Log         *slog.Logger       // tells of every tier that is tried; nil: nobody

	measures  int    // size of the table of Measures; 0: as in measure.bpf.h
	Threshold uint64 // sampled iff rv >= Threshold; 0 … 2^56
	Retro     int    // bytes of memory for records of requests that are not sampled, a power of two from RetroLeast on; 0: none

	RetroThreshold uint64 // of those requests, the ones with rv >= RetroThreshold have records; 0 … 2^56
	RingBytes      int    // size of the event ring, a power of two; 0: 4 MiB
}

// Tracer is the kernel side, loaded and attached.
type Tracer struct {
	tier     *tier.Tier
	objs     objects
	programs []program
	links    []link.Link // held on purpose, see the package comment
	arm      *link.Iter  // nil where it is lost
	devices  *devices    // nil unless Options.Tag is bpf.TagIP
	cgroup   string
	claim    *claim.Claim
	private  bool // the claim is the tracer's own
	lost     []tier.Loss
	events   *ring
	control  *ringbuf.Reader

	mu       sync.Mutex
	trusted  map[bpf.Prefix]uint8
	demanded map[tier.Demand][]link.Link // attached on demand
	sweep    *ebpf.Program               // nil where it is lost
	loops    bool                        // some event loop is traced, or was
	epoch    uint32                      // of connections over unix sockets, see watches

	turns      bpf.TareTurnsSeen // what the kernel side was told last
	turnsEpoch uint32
}

// Close detaches and unloads. The kernel does the same when the process dies.
func (t *Tracer) Close() error {
	var errs []error
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	t.links = nil
	for d := range t.demanded {
		errs = append(errs, t.Demand(d, false))
	}
	t.devices.close()
	for _, p := range t.programs {
		errs = append(errs, p.loaded.Close())
	}
	if t.events != nil {
		errs = append(errs, t.events.close())
	}
	if t.control != nil {
		errs = append(errs, t.control.Close())
	}
	if t.private {
		errs = append(errs, t.claim.Close())
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
func (t *Tracer) EnableEntry(on bool) error { return t.claim.Begin(on) }

// SetService begins to use a service's index: the kernel side knows nothing of it
// but its name, of which peers are told the beginning, and which of the correlation
// headers link its calls, as bits.
func (t *Tracer) SetService(index uint16, name string, headers uint32) error {
	s := bpf.TareServiceState{Headers: headers}
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
	s.Helper = have.Helper // 0 if the kernel side does not know the process
	if err := t.traces(s); err != nil {
		return err
	}
	if err := t.objs.Processes.Put(pid, s); err != nil {
		return fmt.Errorf("trace process %d: %w", pid, err)
	}
	return nil
}

// Armed tells that all has been armed that a process had open when it began to be
// traced: what it sends from now on may be its own call. Without the walk of open
// sockets that is never known.
func (t *Tracer) Armed(pid uint32) error {
	if t.arm == nil {
		return nil
	}
	var s bpf.Service
	err := t.objs.Processes.Lookup(pid, &s)
	if err == nil && s.Armed == 0 {
		s.Armed = 1
		err = t.objs.Processes.Update(pid, s, ebpf.UpdateExist)
	}
	if err == nil || errors.Is(err, ebpf.ErrKeyNotExist) { // it has ended
		return nil
	}
	return fmt.Errorf("note that the sockets of process %d are armed: %w", pid, err)
}

// traces notes the first event loop, before the kernel side knows of it.
func (t *Tracer) traces(s bpf.Service) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loops || bpf.TareLinking(s.Linking) != bpf.TareLinkingTARE_LINK_LOOP {
		return nil
	}
	t.loops = true
	return t.watches()
}

// RemoveProcess stops tracing new connections of a process.
func (t *Tracer) RemoveProcess(pid uint32) error {
	return remove(t.objs.Processes, pid)
}

// Demand attaches or detaches the hooks that are attached on demand for something.
func (t *Tracer) Demand(d tier.Demand, on bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d == tier.Unix && t.objs.UnixEpoch != nil {
		if err := t.objs.UnixEpoch.Set(uint32(0)); err != nil {
			return fmt.Errorf("end an epoch of unix sockets: %w", err)
		}
	}
	held := t.demanded[d]
	t.demanded[d] = nil
	var err error
	if !on {
		err = t.watches() // before the hooks go: what comes in between asks for them
	}
	err = errors.Join(detach(held), err)
	if !on {
		return err
	}
	for _, p := range t.programs {
		if p.OnDemand != d {
			continue
		}
		l, err := attachTo(p.Hook, p.loaded, t.cgroup)
		if err != nil {
			attached := t.demanded[d]
			t.demanded[d] = nil
			return errors.Join(fmt.Errorf("attach to %v: %w", p.Hook, err), detach(attached), t.watches())
		}
		t.demanded[d] = append(t.demanded[d], l)
	}
	return t.watches()
}

// detach detaches what was attached last first.
func detach(links []link.Link) error {
	var errs []error
	for _, l := range slices.Backward(links) {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// watches tells the kernel side what it sees: look-ups of names, which are counted
// without the hooks, and connections over unix sockets. Those that began while all
// hooks for that were attached are of one epoch, the only one that is followed.
func (t *Tracer) watches() error {
	if t.objs.LookupsWatched == nil {
		return nil
	}
	turns := bpf.TareTurnsSeenTURNS_NOBODYS
	if t.loops && t.TellsOfTurns() {
		if turns = bpf.TareTurnsSeenTURNS_UNSEEN; len(t.demanded[tier.Loops]) > 0 {
			turns = bpf.TareTurnsSeenTURNS_SEEN
		}
	}
	if err := t.objs.Turns.Set(turns); err != nil {
		return fmt.Errorf("say whether turns of event loops are seen: %w", err)
	}
	if t.turns == bpf.TareTurnsSeenTURNS_UNSEEN && turns != t.turns {
		t.turnsEpoch++
		if err := t.objs.TurnsEpoch.Set(t.turnsEpoch); err != nil {
			return fmt.Errorf("say that turns of event loops are seen: %w", err)
		}
	}
	t.turns = turns
	all := 0
	for _, p := range t.tier.Programs {
		if p.Capability == unixSockets {
			all++
		}
	}
	for _, p := range t.programs {
		if p.Capability == unixSockets {
			all--
		}
	}
	var epoch uint32
	if err := t.objs.UnixEpoch.Get(&epoch); err != nil {
		return fmt.Errorf("read the epoch of unix sockets: %w", err)
	}
	if epoch == 0 && all == 0 && len(t.demanded[tier.Unix]) > 0 {
		t.epoch++
		if err := t.objs.UnixEpoch.Set(t.epoch); err != nil {
			return fmt.Errorf("begin an epoch of unix sockets: %w", err)
		}
	}
	return t.objs.LookupsWatched.Set(len(t.demanded[tier.Lookups]) > 0)
}

// TellsOfTurns reports whether the kernel side tells when an event loop begins to use
// UDP or unix sockets, so that what sees those may be detached until then. Where functions are
// hooked nothing is to be gained: only what receives on such sockets is.
func (t *Tracer) TellsOfTurns() bool {
	has := func(name string) bool {
		return slices.ContainsFunc(t.programs, func(p program) bool { return p.Name == name })
	}
	for _, name := range []string{"tare_turns", "tare_fork", "tare_unix_connects", "tare_connect4", "tare_connect6", "tare_sendmsg4", "tare_sendmsg6"} {
		if !has(name) {
			return false
		}
	}
	return true
}

// SweepUnix ends what was in progress on unix sockets that were closed. Nothing but
// this finds those that neither end tells of.
func (t *Tracer) SweepUnix() error {
	if t.sweep == nil {
		return nil
	}
	if _, err := t.sweep.Run(nil); err != nil {
		return fmt.Errorf("look for unix sockets that were closed: %w", err)
	}
	return nil
}

// unixSockets is the capability whose programs are of use together only.
const unixSockets = "unix"

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

// Network is one whose addresses are trusted.
type Network struct {
	netip.Prefix
	// Near: only of connections of which both ends are found to be on this host. Nothing goes to
	// it over the wire, nor is anything believed that came so.
	Near bool
}

// Trust replaces the networks that tags go to and are believed from. It
// concerns connections established from now on. Of one that is named twice, the first
// counts; of more than there is room for, the last are left out.
func (t *Tracer) Trust(networks []Network) (left int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	room := int(t.objs.Trusted.MaxEntries())
	want := make(map[bpf.Prefix]uint8, len(networks))
	var added []bpf.Prefix
	for _, n := range networks {
		key := bpf.Prefix{Bits: uint32(n.Bits()), Address: n.Addr().As16()}
		if n.Addr().Is4() {
			key.Bits += 96
		}
		if _, twice := want[key]; twice {
			continue
		}
		if len(want) == room {
			left++
			continue
		}
		trust := uint8(bpf.TareTrustTARE_TRUSTED)
		if n.Near {
			trust = uint8(bpf.TareTrustTARE_NEAR)
		}
		want[key] = trust
		if t.trusted[key] != trust {
			added = append(added, key)
		}
	}
	// What goes makes room for what comes, but not before that is there, if both fit: an
	// address may only move from one network to another.
	if len(t.trusted)+len(added) > room {
		t.distrust(want)
	}
	for _, key := range added {
		if err := t.objs.Trusted.Put(key, want[key]); err != nil {
			return left, fmt.Errorf("trust %v/%d: %w", netip.AddrFrom16(key.Address), key.Bits, err)
		}
		t.trusted[key] = want[key]
	}
	t.distrust(want)
	return left, nil
}

// distrust removes what is not wanted.
func (t *Tracer) distrust(want map[bpf.Prefix]uint8) {
	for key := range t.trusted {
		if _, ok := want[key]; !ok {
			_ = t.objs.Trusted.Delete(key)
			delete(t.trusted, key)
		}
	}
}
