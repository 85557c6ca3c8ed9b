package adaptive

import (
	"sync/atomic"
	"unsafe"
)

// shards is how many copies a counter has that all goroutines add to.
const shards = 16

// shard picks a copy for the goroutine that calls. Goroutines have stacks of
// their own, 2 KiB at least and aligned to their size, so the address of a
// local variable tells them apart at the cost of one multiplication; Go has no
// public way to ask for the processor. Any answer is a correct one: a stack
// that is moved only changes the copy.
func shard() uint {
	var here byte
	const golden = 0x9E3779B97F4A7C15 // 2^64 / golden ratio: neighbours spread
	return uint(uint64(uintptr(unsafe.Pointer(&here))>>11) * golden >> 60 % shards)
}

// outcome is what became of a decision that was this sampler's.
type outcome int

const (
	sampled   outcome = iota // by its rate or an Always rule
	unsampled                // by its rate
	never                    // by a Never rule
	capped                   // its rate said yes, the budget's cap no
	outcomes
)

// tally counts decisions: one addition to a line of memory that mostly one
// core has. 128 bytes apart, as processors fetch lines in pairs.
type tally [shards]struct {
	n [outcomes]atomic.Uint64
	_ [128 - 8*outcomes]byte
}

func (t *tally) add(o outcome) { t[shard()].n[o].Add(1) }

func (t *tally) sum() (n [outcomes]uint64) {
	for i := range t {
		for o := range n {
			n[o] += t[i].n[o].Load()
		}
	}
	return n
}
