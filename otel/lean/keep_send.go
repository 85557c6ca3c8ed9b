package lean

import (
	"unsafe"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tare-trace/tare/otel/keep"
)

// send queues the spans that a step exports, and counts those that it drops. No lock is held.
func (k *keeper) send(s *keepShard, out *export) {
	if out.held == nil && out.lost+out.unwanted == 0 {
		return
	}
	sh := k.p.near.Get().(*shard)
	sh.recordOnly.Add(uint64(out.unwanted))
	sh.undecided.Add(uint64(out.lost))
	if out.held != nil {
		k.sendHeld(s, sh, out.handed)
	}
	for _, h := range out.more {
		k.sendHeld(s, sh, h)
	}
	k.p.near.Put(sh)
}

func (k *keeper) sendHeld(s *keepShard, sh *shard, h handed) {
	r := k.p.records.Get().(*record)
	for _, span := range h.held.spans {
		r.buf = append(r.buf[:0], h.held.buf[span.start:span.end]...)
		r.remote = span.remote
		k.finish(r, span.sc, h.reason)
		k.p.queue.add(sh, span.scope, r.buf)
	}
	if r.reset() {
		k.p.records.Put(r)
	}
	s.mu.Lock()
	s.reuse(h.held)
	s.mu.Unlock()
}

// sweep decides traces that are too old; with all, every trace, for Shutdown.
func (k *keeper) sweep(now int64, all bool) {
	for i := range k.shards {
		s := &k.shards[i]
		for {
			var out export
			s.mu.Lock()
			s.closed = s.closed || all
			t := s.open.Oldest
			if t == nil || !all && now-t.since <= int64(k.maxAge) {
				s.mu.Unlock()
				break
			}
			cause := keep.TooOld
			if all {
				cause = keep.ShutDown
			}
			s.evict(t, cause, &out)
			s.mu.Unlock()
			k.send(s, &out)
		}
	}
}

// KeepStats counts what WithKeep's policy has decided so far; without one it is zero. Its
// RememberedTraces stay 0: here a span that ends late has a pointer to its trace's decision.
// Unlearned is not counted.
func (p *TracerProvider) KeepStats() keep.Stats {
	var all keep.Stats
	if p.keeper == nil {
		return all
	}
	for i := range p.keeper.shards {
		s := &p.keeper.shards[i]
		s.mu.Lock()
		all.OpenTraces += s.open.Len
		all.BufferedSpans += s.spans
		all.BufferedBytes += s.bytes
		for i, n := range s.stats.TracesKept {
			all.TracesKept[i] += n
		}
		for i, n := range s.stats.TracesDropped {
			all.TracesDropped[i] += n
		}
		for i, n := range s.stats.SpansDropped {
			all.SpansDropped[i] += n
		}
		all.TracesPartial += s.stats.TracesPartial
		all.SpansPassed += s.stats.SpansPassed
		all.SpansKept += s.stats.SpansKept
		s.mu.Unlock()
	}
	return all
}

// httpStatus reads the response's status code back, by its stable name or the one before
// semantic conventions v1.21; 0 without.
func (r *record) httpStatus() int {
	at := r.find("http.response.status_code")
	if old := r.find("http.status_code"); at < 0 || old >= 0 && old < at {
		at = old
	}
	if at < 0 {
		return 0
	}
	return int(r.read(r.attrs[at]).Value.AsInt64())
}

// readAttributes reads all attributes back, for rules that look at them. They share the record's
// memory, and are valid until it changes.
func (r *record) readAttributes() []attribute.KeyValue {
	r.kvs = r.kvs[:0]
	for _, e := range r.attrs {
		r.kvs = append(r.kvs, r.read(e))
	}
	return r.kvs
}

// read decodes an attribute that this package has encoded.
func (r *record) read(e extent) attribute.KeyValue {
	field, _ := cutField(r.buf[e.start:e.end])
	return decodeKeyValue(field)
}

// alias is b as a string, without a copy.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
