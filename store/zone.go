package store

import (
	"encoding/binary"
	"time"
)

// zone describes a chunk so that it need not be read: how much is in it, and the
// bounds of its times and durations. Times are ns since 1970, durations ns.
type zone struct {
	chunk         uint64
	spans, traces uint32
	edges, blocks uint32
	errors        uint32
	states        uint32 // which a trace has: bits of stateBit, retroBit
	minStart      uint64 // of a span
	maxStart      uint64
	maxFrom       uint64 // the latest first start of a trace
	minDuration   uint64
	maxDuration   uint64
	written       uint64 // when; of a merged chunk, when the newest of its sources was
	first         uint64 // when its oldest source was written
	raw           uint64 // bytes of the spans, before compression
	bytes         uint64 // keys and values in Pebble
	uncompressed  uint64 // the largest block, or what is as large as it
}

func (z *zone) append(b []byte) []byte {
	for _, v := range []uint64{
		uint64(z.spans), uint64(z.traces), uint64(z.edges), uint64(z.blocks), uint64(z.errors), uint64(z.states),
		z.minStart, z.maxStart, z.maxFrom, z.minDuration, z.maxDuration, z.written, z.first, z.raw, z.bytes, z.uncompressed,
	} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func parseZone(chunk uint64, b []byte) (*zone, error) {
	d := decoder{b: b}
	z := &zone{
		chunk: chunk,
		spans: d.uint32(), traces: d.uint32(), edges: d.uint32(), blocks: d.uint32(), errors: d.uint32(), states: d.uint32(),
		minStart: d.uint64(), maxStart: d.uint64(), maxFrom: d.uint64(), minDuration: d.uint64(), maxDuration: d.uint64(),
		written: d.uint64(), first: d.uint64(), raw: d.uint64(), bytes: d.uint64(), uncompressed: d.uint64(),
	}
	if err := d.done("bounds of a chunk"); err != nil {
		return nil, err
	}
	if z.traces == 0 || z.spans < z.traces || z.blocks == 0 || z.blocks > z.traces ||
		z.minStart > z.maxStart || z.maxFrom > z.maxStart || z.maxFrom < z.minStart || z.minDuration > z.maxDuration {
		return nil, corrupt("bounds of a chunk")
	}
	return z, nil
}

// age is the time from which the chunk's age counts: its newest span, but not
// later than when it was written, because a service whose clock is wrong must
// not keep it for ever.
func (z *zone) age() uint64 { return min(z.maxStart, z.written) }

// timeOf is the time of ns since 1970. What an int64 does not hold, from the
// year 2262, is its largest.
func timeOf(ns uint64) time.Time { return time.Unix(0, int64(min(ns, 1<<63-1))).UTC() }

// durationOf is d as a duration, at most the longest one.
func durationOf(d uint64) time.Duration { return time.Duration(min(d, 1<<63-1)) }
