package sink

import (
	"sync"
	"sync/atomic"
)

// Counts are the requests that arrived, since the sink began or since a Mark.
type Counts struct {
	Requests uint64 // answered with success
	// Bytes of bodies as they came over the wire, compressed or not, without
	// HTTP framing; those of requests that were refused, too.
	Bytes uint64
	// Plain is Bytes after decompression. Of gzip it is read from
	// the end of the body (RFC 1952, ISIZE), so that nothing has to be
	// decompressed.
	Plain uint64
	// Refused: given up by the client while Stall was on, or not stored because
	// the file could not be written.
	Refused uint64
	// Bad requests: not OTLP in protobuf, larger than MaxBody, or cut off.
	Bad uint64
}

// counters only grow, so that several readers can take differences.
type counters struct {
	requests, bytes, plain, refused, bad atomic.Uint64

	mu   sync.Mutex
	last Counts // at the last Mark
}

// arrived counts a body, whatever becomes of it.
func (c *counters) arrived(wire, plain int) {
	c.bytes.Add(uint64(wire))
	c.plain.Add(uint64(plain))
}

func (c *counters) load() Counts {
	return Counts{
		Requests: c.requests.Load(), Bytes: c.bytes.Load(), Plain: c.plain.Load(),
		Refused: c.refused.Load(), Bad: c.bad.Load(),
	}
}

// Mark returns what arrived since the last Mark, or since the sink began. The
// numbers of one request that is under way may fall on both sides of it.
func (s *Sink) Mark() Counts {
	c := &s.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.load()
	d := Counts{
		Requests: now.Requests - c.last.Requests, Bytes: now.Bytes - c.last.Bytes, Plain: now.Plain - c.last.Plain,
		Refused: now.Refused - c.last.Refused, Bad: now.Bad - c.last.Bad,
	}
	c.last = now
	return d
}
