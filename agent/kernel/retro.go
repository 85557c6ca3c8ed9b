package kernel

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/bpf"
)

const (
	retroSegment = uint64(bpf.RetroSegment)
	retroHeader  = 8 // bytes of a record's stamp

	// RetroLeast is how many bytes Options.Retro has at least: a segment for each of many CPUs.
	RetroLeast = 16 * bpf.RetroSegment
	// RetroMost is how many it may have: what the kernel maps at once.
	RetroMost = 2 << 30
)

// retro sets up the memory for records of requests that are not sampled, and its switches.
func (o *Options) retro(spec *ebpf.CollectionSpec, switches map[string]any) error {
	if o.Retro == 0 {
		spec.Maps[bpf.TareMapRetroTriggers].MaxEntries = uint32(os.Getpagesize()) //nolint:gosec // a page
		switches["retro_threshold"] = uint64(1) << 56
		return nil
	}
	if o.Retro < RetroLeast || o.Retro > RetroMost || o.Retro&(o.Retro-1) != 0 {
		return fmt.Errorf("%d bytes for retroactive sampling: want a power of two from %d to %d", o.Retro, RetroLeast, RetroMost)
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count the CPUs: %w", err)
	}
	var secret [8]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return fmt.Errorf("draw a number: %w", err)
	}
	segments := uint32(o.Retro / bpf.RetroSegment)
	spec.Maps[bpf.TareMapRetroMemory].MaxEntries = segments
	spec.Maps[bpf.TareMapRetroPlaces].MaxEntries = uint32(1 + cpus) //nolint:gosec // few
	spec.Maps[bpf.TareMapRetroRules].MaxEntries = spec.Maps[bpf.TareMapServices].MaxEntries
	switches["cfg_retro"] = segments
	switches["cfg_retro_secret"] = binary.NativeEndian.Uint64(secret[:])
	switches["cfg_retro_reorders"] = runtime.GOARCH != "amd64"
	switches["retro_threshold"] = o.RetroThreshold
	return nil
}

// SetRetroThreshold changes which requests that are not sampled have records: those with rv >= threshold; 0 … 2^56.
func (t *Tracer) SetRetroThreshold(threshold uint64) error {
	return t.objs.RetroThreshold.Set(threshold)
}

// Retro is the memory that the kernel side writes records of requests to that are not sampled, and overwrites.
type Retro struct {
	memory, places, rules []byte
	mapped                [][]byte
	triggers              *ring
	secret                uint64
	size                  uint64 // of a segment and what follows it, bytes
	segments              uint64
	fence                 atomic.Uint64
}

// Retro maps it; nil without Options.Retro.
func (t *Tracer) Retro() (*Retro, error) {
	var segments uint32
	var secret uint64
	if err := errors.Join(t.objs.CfgRetro.Get(&segments), t.objs.CfgRetroSecret.Get(&secret)); err != nil {
		return nil, fmt.Errorf("read the kernel side's switches: %w", err)
	}
	if segments == 0 {
		return nil, nil
	}
	r := &Retro{secret: secret, segments: uint64(segments), size: uint64(t.objs.RetroMemory.ValueSize())}
	for _, m := range []struct {
		of    *ebpf.Map
		write bool
		to    *[]byte
	}{{t.objs.RetroMemory, false, &r.memory}, {t.objs.RetroPlaces, false, &r.places}, {t.objs.RetroRules, true, &r.rules}} {
		size, page, access := int(m.of.MaxEntries())*int((m.of.ValueSize()+7)&^7), os.Getpagesize(), unix.PROT_READ
		if m.write {
			access |= unix.PROT_WRITE
		}
		mapped, err := unix.Mmap(m.of.FD(), 0, (size+page-1)/page*page, access, unix.MAP_SHARED)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("map the records of requests that are not sampled: %w", err), r.Close())
		}
		r.mapped = append(r.mapped, mapped)
		// Beginnings of requests are in no core dump.
		if err := unix.Madvise(mapped, unix.MADV_DONTDUMP); err != nil {
			return nil, errors.Join(fmt.Errorf("keep the records out of core dumps: %w", err), r.Close())
		}
		*m.to = mapped[:size]
	}
	var err error
	if r.triggers, err = openRing(t.objs.RetroTriggers); err != nil {
		return nil, errors.Join(fmt.Errorf("open the ring of triggers: %w", err), r.Close())
	}
	return r, nil
}

// Close unmaps it.
func (r *Retro) Close() error {
	var errs []error
	for _, m := range r.mapped {
		errs = append(errs, unix.Munmap(m))
	}
	r.mapped = nil
	if r.triggers != nil {
		errs = append(errs, r.triggers.close())
	}
	return errors.Join(errs...)
}

// word reads 8 bytes that the kernel side may write at any time.
func word(b []byte, at uint64) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&b[at]))) //nolint:gosec // aligned to 8 bytes
}

// Place is how far the kernel side has written, at a moment.
type Place struct {
	next uint64            // number of the segment that is taken next
	used map[uint64]uint64 // by number of a segment that a CPU fills: bytes that are used
}

// Here is how far the kernel side has written now.
func (r *Retro) Here() Place {
	const size = uint64(unsafe.Sizeof(bpf.RetroPlace{}))
	p := Place{next: word(r.places, 0), used: map[uint64]uint64{}} // what is taken after that is newer
	for at := size; at < uint64(len(r.places)); at += size {
		w := word(r.places, at)
		if used := w & (1<<bpf.RetroShift - 1); used != 0 {
			p.used[w>>bpf.RetroShift] = min(used, retroSegment)
		}
	}
	return p
}

// Written is how many bytes were written up to there, to within a segment for each CPU.
func (p Place) Written() uint64 {
	n := p.next * retroSegment
	for _, used := range p.used {
		n -= retroSegment - used
	}
	return n
}

// gone is below what number of a segment records may be overwritten by now.
func (r *Retro) gone() uint64 {
	r.fence.Add(1) // what was copied was copied before the number is read
	next := word(r.places, 0)
	return next - min(next, r.segments)
}

// Whole reports whether all that was written after a place, up to now, is still there.
func (r *Retro) Whole(p, now Place) bool {
	gone := r.gone()
	for n, used := range p.used {
		if n < p.next && n < gone && now.used[n] != used { // else its CPU has written nothing since
			return false
		}
	}
	return p.next >= gone
}

// RetroCursor reads records. It is not safe for concurrent use.
type RetroCursor struct {
	r    *Retro
	open map[uint64]uint64 // by number of a segment that is not read to its end: bytes that were read
	next uint64            // number of the first segment of which nothing was read
	// What could not be read: bytes that were overwritten before, and records that were still being written when later ones were
	// read.
	Overwritten, Holes uint64
	copied             []byte
}

// From makes a cursor that reads what was written after a place.
func (r *Retro) From(p Place) *RetroCursor {
	c := &RetroCursor{r: r, open: map[uint64]uint64{}}
	c.Seek(p)
	return c
}

// Clone makes a cursor at the same place, which counts for itself.
func (c *RetroCursor) Clone() *RetroCursor {
	return &RetroCursor{r: c.r, open: maps.Clone(c.open), next: c.next}
}

// Seek goes to a place.
func (c *RetroCursor) Seek(p Place) {
	clear(c.open)
	for n, used := range p.used {
		if n < p.next {
			c.open[n] = used
		}
	}
	c.next = p.next
}

// Read hands over copies of the records up to a place, each CPU's in the order in which they were written. want says of which it
// makes one; it sees records where they lie, and they may be overwritten at any time.
func (c *RetroCursor) Read(to Place, want func(raw []byte) bool, handle func(raw []byte)) {
	for ; c.next < to.next; c.next++ {
		c.open[c.next] = 0
	}
	gone, now := c.r.gone(), c.r.Here()
	for n, at := range c.open {
		end, fills := to.used[n]
		switch used, still := now.used[n]; {
		case n < gone && still && used == at: // its CPU has written nothing since, and takes another one
			delete(c.open, n)
		case n < gone:
			c.Overwritten += retroSegment - at
			delete(c.open, n)
		case fills:
			c.open[n] = c.segment(n, at, end, want, handle)
		case !still:
			c.segment(n, at, retroSegment, want, handle)
			delete(c.open, n)
		} // else a CPU was just about to fill it
	}
}

// segment reads one between two offsets. Returns where the records ended.
func (c *RetroCursor) segment(n, at, end uint64, want func(raw []byte) bool, handle func(raw []byte)) uint64 {
	const words = bpf.RetroWords + 3
	b := c.r.memory[n&(c.r.segments-1)*c.r.size:][:c.r.size]
	whole := at // up to there
	for at+retroHeader <= end {
		stamp := word(b, at) ^ c.r.secret
		size := stamp & (1<<words - 1) * 8
		if stamp>>words != (n*retroSegment+at)>>3 || size < 2*retroHeader || at+size > retroSegment {
			at += 8
			continue
		}
		if at > whole {
			c.Holes++
		}
		if raw := b[at+retroHeader : at+size : at+size]; want(raw) {
			c.copied = c.copied[:0]
			for i := uint64(0); i < size-retroHeader; i += 8 {
				c.copied = binary.NativeEndian.AppendUint64(c.copied, word(b, at+retroHeader+i))
			}
			if n < c.r.gone() {
				c.Overwritten += retroSegment - at
				return retroSegment
			}
			handle(c.copied)
		}
		at += size
		whole = at
	}
	return whole
}

// Services is how many rules there are.
func (r *Retro) Services() uint16 {
	return uint16(uintptr(len(r.rules)) / unsafe.Sizeof(bpf.RetroRule{}))
}

// Rule is what the kernel side knows of a service's triggers, by the service's index.
func (r *Retro) Rule(service uint16) *RetroRule {
	const size = unsafe.Sizeof(bpf.RetroRule{})
	return (*RetroRule)(unsafe.Pointer(&r.rules[uintptr(service)*size])) //nolint:gosec // as the kernel side lays it out
}

// RetroRule is a bpf.RetroRule, which both sides use at once.
type RetroRule struct{ slow, floor, triggered, limited atomic.Uint64 }

// SetSlow says from what duration on an entry of the service is slow; 0: never.
func (r *RetroRule) SetSlow(d time.Duration) { r.slow.Store(uint64(max(d, 0))) }

// SetShare says which share of traces may trigger, 0 … 1: those with the highest ids.
func (r *RetroRule) SetShare(share float64) {
	floor := uint64(0)
	if share < 1 {
		floor = uint64((1 - max(share, 0)) * (1<<64 - 1<<11))
	}
	r.floor.Store(floor)
}

// Triggered is how many requests asked for their traces.
func (r *RetroRule) Triggered() uint64 { return r.triggered.Load() }

// Limited is how many of them were too many.
func (r *RetroRule) Limited() uint64 { return r.limited.Load() }

// Triggers hands over what triggered since the last call.
func (r *Retro) Triggers(handle func(*bpf.RetroTrigger)) {
	r.triggers.drain(func(raw []byte) {
		var t bpf.RetroTrigger
		if len(raw) == int(unsafe.Sizeof(t)) {
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&t)), len(raw)), raw) //nolint:gosec // as the kernel side lays it out
			handle(&t)
		}
	})
}
