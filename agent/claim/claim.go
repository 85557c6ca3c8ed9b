// Package claim keeps two agents from tracing one host at once, and hands a host over from
// one to the other without a gap.
//
// An agent's claim is a kernel program, tare_claim, with a map: bpf/claim.bpf.h. The kernel
// lists them to whoever may load programs, in whatever namespaces, and has none of an agent
// that has ended, however it ended: so there is no file to be left behind, to be out of sight
// of a container, or to be written by somebody else.
//
// A claim covers a control group and what is below it; agents of different instances leave
// each other alone. It protects against mistakes, not against somebody who may load programs.
package claim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
)

const (
	program = tier.Claim
	version = 1 // CLAIM_VERSION
	never   = math.MaxUint64
	root    = 1 // id of the control group that all are in
)

// MaxInstance is the longest name of an instance.
const MaxInstance = len(bpf.HostClaim{}.Instance)

// Options are what an agent claims.
type Options struct {
	Instance    string // at most MaxInstance bytes
	Cgroup      string // directory of the control group below which it traces
	Replaceable bool   // another agent may take over from it
}

// Claim is this agent's. Nothing begins here until Begin, or TakeOver.
type Claim struct {
	id      ebpf.ProgramID
	program *ebpf.Program
	claims  *ebpf.Map
	own     state
	heir    *Other // that takes over
}

// state is the value of a claim's map, which two agents write: a field at a time, in place.
type state struct{ memory *ebpf.Memory }

func (s state) read() (v bpf.HostClaim, err error) {
	raw := make([]byte, unsafe.Sizeof(v))
	if _, err := s.memory.ReadAt(raw, 0); err != nil {
		return v, fmt.Errorf("read a claim: %w", err)
	}
	_, err = binary.Decode(raw, binary.NativeEndian, &v)
	return v, err
}

// write writes one field, at its offset.
func (s state) write(offset uintptr, value any) error {
	raw, err := binary.Append(nil, binary.NativeEndian, value)
	if err == nil {
		_, err = s.memory.WriteAt(raw, int64(offset))
	}
	if err != nil {
		return fmt.Errorf("write a claim: %w", err)
	}
	return nil
}

var layout bpf.HostClaim

// Private is a claim that no other agent sees, for who only tries whether programs load.
func Private() (*Claim, error) {
	spec, err := bpf.LoadHost()
	if err != nil {
		return nil, fmt.Errorf("read the embedded kernel program: %w", err)
	}
	return newClaim(spec, bpf.HostClaim{})
}

func newClaim(spec *ebpf.CollectionSpec, v bpf.HostClaim) (*Claim, error) {
	claims, err := ebpf.NewMap(spec.Maps[bpf.HostMapClaims])
	if err != nil {
		return nil, err
	}
	c := &Claim{claims: claims}
	v.From, v.Until, v.Version = never, never, version
	memory, err := claims.Memory()
	if err == nil {
		c.own, err = state{memory}, claims.Put(uint32(0), v)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// New makes a claim, whoever else has one; Take asks.
func New(o Options) (*Claim, error) {
	spec, err := bpf.LoadHost()
	if err != nil {
		return nil, fmt.Errorf("read the embedded kernel program: %w", err)
	}
	var v bpf.HostClaim
	if o.Replaceable {
		v.Replaceable = 1
	}
	if len(o.Instance) > len(v.Instance) {
		return nil, fmt.Errorf("instance %q is longer than %d bytes", o.Instance, len(v.Instance))
	}
	copy(v.Instance[:], o.Instance)
	info, err := os.Stat(o.Cgroup)
	if err != nil {
		return nil, err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		v.Cgroup = s.Ino
	}
	c, err := newClaim(spec, v) // as a whole, before the program shows it to others
	if err != nil {
		return nil, err
	}
	if err := c.load(spec); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Claim) load(spec *ebpf.CollectionSpec) error {
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{bpf.HostMapClaims: c.claims}})
	if err != nil {
		return err
	}
	defer coll.Close() // of what is not taken out
	c.program = coll.DetachProgram(program)
	info, err := c.program.Info()
	if err != nil {
		return err
	}
	c.id, _ = info.ID()
	_, err = c.clock()
	return err
}

// clock is the kernel's monotonic clock, which is not this process's in a namespace of
// clocks.
func (c *Claim) clock() (uint64, error) {
	if _, err := c.program.Run(nil); err != nil {
		return 0, err
	}
	v, err := c.own.read()
	return v.Clock, err
}

// Map is what the kernel side decides by.
func (c *Claim) Map() *ebpf.Map { return c.claims }

// Begin lets requests begin here from now on; with false, none.
func (c *Claim) Begin(on bool) error {
	from := uint64(never)
	if on {
		from = 0
	}
	return c.own.write(unsafe.Offsetof(layout.From), from)
}

// Close gives the claim up. The kernel does the same when the process dies.
func (c *Claim) Close() error {
	var errs []error
	if c.program != nil {
		errs = append(errs, c.program.Close())
	}
	if c.heir != nil {
		errs = append(errs, c.heir.m.Close())
	}
	return errors.Join(append(errs, c.claims.Close())...)
}

// Other is another agent's claim.
type Other struct {
	PID uint32 // in the host's namespace of processes; 0: it has just begun
	id  ebpf.ProgramID
	v   bpf.HostClaim
	m   *ebpf.Map
}

func (o *Other) close() { _ = o.m.Close() } // nothing was written

// others are the claims that overlap with this one.
func (c *Claim) others() (list []*Other, err error) {
	mine, err := c.own.read()
	if err != nil {
		return nil, err
	}
	for id := ebpf.ProgramID(0); ; {
		id, err = ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("look for other agents among the kernel's programs (CAP_SYS_ADMIN): %w", err)
		}
		o, err := find(id)
		if err != nil {
			return nil, err
		}
		switch {
		case o == nil:
		case id != c.id && o.v.Instance == mine.Instance && overlap(&mine, &o.v):
			list = append(list, o)
		default:
			o.close()
		}
	}
}

// find reads the claim that a program is, nil if it is none.
func find(id ebpf.ProgramID) (*Other, error) {
	fail := func(err error) (*Other, error) {
		if errors.Is(err, os.ErrNotExist) { // it has ended
			return nil, nil
		}
		return nil, fmt.Errorf("look at kernel program %d: %w", id, err)
	}
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = p.Close() }() // a reference to it
	info, err := p.Info()
	if err != nil {
		return fail(err)
	}
	maps, _ := info.MapIDs()
	if info.Name != program || info.Type != ebpf.Syscall || len(maps) != 1 {
		return nil, nil
	}
	m, err := ebpf.NewMapFromID(maps[0])
	if err != nil {
		return fail(err)
	}
	o := &Other{id: id, m: m}
	if m.ValueSize() != uint32(unsafe.Sizeof(o.v)) {
		o.close()
		return nil, fmt.Errorf("%w, whose version is too different to tell which process it is (kernel program %d): stop it first", ErrHeld, id)
	}
	if err := m.Lookup(uint32(0), &o.v); err != nil {
		o.close()
		return nil, fmt.Errorf("read a claim: %w", err)
	}
	o.PID = o.v.Pid
	return o, nil
}

// overlap: the control group of one is, or is above, that of the other.
func overlap(a, b *bpf.HostClaim) bool {
	return a.Cgroup == root || b.Cgroup == root || within(a, b.Cgroup) || within(b, a.Cgroup)
}

// within: the control group of a claim is that of an id, or below it. The agent is usually
// in its control group, or below it; else nothing but equality is known.
func within(v *bpf.HostClaim, id uint64) bool {
	at := slices.Index(v.Above[:], v.Cgroup)
	return v.Cgroup == id || slices.Contains(v.Above[:max(at, 0)], id)
}

func (o *Other) String() string {
	if o.PID == 0 {
		return "a process that has just begun"
	}
	text := fmt.Sprintf("process %d", o.PID)
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", o.PID)); err == nil {
		text += fmt.Sprintf(" (%s)", bytes.TrimSpace(name))
	}
	return text
}
