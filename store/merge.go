package store

import (
	"cmp"
	"errors"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Chunks of fewer than mergeBelow spans are merged, as soon as there are
// mergeCount of about the same size: so every span is rewritten a few times at
// most, and there are never more than some dozen small chunks for every share
// of the age that spans are kept.
const (
	mergeBelow = 4096
	mergeCount = 16
	mergeBytes = 64 << 20 // of the sources' spans together: what is held in memory
	// What is merged was written within this share of the shortest age that spans are kept: a chunk, or what it
	// has of a service, goes when the newest of it is old enough.
	mergeAge = 10
)

// class is the chunk's size, in powers of eight; -1 if it is not merged.
func (z *zone) class() int {
	if !z.mergeable() {
		return -1
	}
	class := 0
	for n := z.spans; n >= 8; n /= 8 {
		class++
	}
	return class
}

func (z *zone) mergeable() bool { return z.spans < mergeBelow && z.raw < mergeBytes/mergeCount }

// mergeOnce merges the chunks of one class, if there are enough.
func (s *Store) mergeOnce() (bool, error) {
	byClass := map[int][]*zone{}
	for _, z := range s.list() {
		if c := z.class(); c >= 0 && !s.damage.has(z.chunk) {
			byClass[c] = append(byClass[c], z)
		}
	}
	for class := 0; len(byClass) > 0 && class <= 5; class++ {
		chunks := byClass[class]
		if len(chunks) < mergeCount {
			continue
		}
		// Neighbours in time together, the oldest first: bounds stay narrow, and
		// retention removes what is of one age.
		slices.SortFunc(chunks, func(a, b *zone) int { return cmp.Compare(a.written, b.written) })
		for from := 0; from+mergeCount <= len(chunks); from++ {
			if n := s.together(chunks[from:]); n >= mergeCount {
				return true, s.merge(chunks[from : from+n])
			}
		}
	}
	return false, nil
}

// together is how many of the chunks, from the first on, may be one.
func (s *Store) together(chunks []*zone) int {
	n, raw := 0, uint64(0)
	first := chunks[0].first
	for _, z := range chunks {
		first, raw = min(first, z.first), raw+z.raw
		if raw > mergeBytes || s.opt.shortest() > 0 && z.written-first > uint64(s.opt.shortest())/mergeAge {
			break
		}
		n++
	}
	return n
}

// merge makes one chunk of several, atomically: whoever reads sees either them
// or it. What is computed from the spans of a trace is computed anew, from all
// spans that are together now.
func (s *Store) merge(sources []*zone) error {
	_, err := s.rewrite(sources, nil)
	return err
}

// rewrite makes one chunk of the sources, without the spans that the rules remove, and returns how many spans these
// were. There must be others.
func (s *Store) rewrite(sources []*zone, rules []rule) (removed uint64, err error) {
	// The disk may be too full for this; then it waits.
	size := uint64(0)
	for _, z := range sources {
		size += z.bytes
	}
	if err := s.checkDisk(s.writeNeeds(int(size))); err != nil {
		return 0, err
	}
	b := newBuilder()
	defer b.release()
	v, err := s.view()
	if err != nil {
		return 0, err
	}
	first, written := sources[0].first, uint64(0)
	for _, z := range sources {
		first, written = min(first, z.first), max(written, z.written)
		removed += uint64(z.spans)
		if err := b.addChunk(v, z, rules); errors.Is(err, ErrCorrupt) {
			// It stays as it is, and is not tried again.
			return 0, errors.Join(v.skip(z, err), v.close())
		} else if err != nil {
			return 0, errors.Join(err, v.close())
		}
	}
	// Its records are referred to, but they are copies of what the engine holds.
	if err := v.close(); err != nil {
		return 0, err
	}
	if len(b.rows) == 0 {
		return 0, corrupt("chunk %d has no spans", sources[0].chunk)
	}
	removed -= uint64(len(b.rows))
	batch := s.db.NewBatch()
	for _, z := range sources {
		if err := s.deleteChunk(batch, z); err != nil {
			return 0, errors.Join(err, batch.Close())
		}
	}
	z, err := b.build(s.next.Add(1)-1, first, written, batchWriter{batch})
	if err != nil {
		return 0, errors.Join(engineError("merging", err), batch.Close())
	}
	if err := s.ledger.before(ledgerMerged, sources, z.chunk); err != nil {
		return 0, errors.Join(err, batch.Close())
	}
	// Not synced: the log is in order, so that after a power cut either the
	// sources are there or this.
	if err := s.apply(batch, &change{gone: sources, added: z}); err != nil {
		return 0, errors.Join(engineError("merging", err), batch.Close())
	}
	if err := s.ledger.write([]entry{entryOf(ledgerAck, z)}); err != nil {
		s.log.Warn("store: if files are damaged, it will not be noticed that this chunk is missing", "chunk", z.chunk, "error", err)
	}
	s.log.Debug("store: wrote chunks anew", "chunks", len(sources), "spans", z.spans, "removed", removed)
	return removed, engineError("merging", batch.Close())
}

// addChunk adds the spans of a chunk that the rules leave.
func (b *builder) addChunk(v *view, z *zone, rules []rule) error {
	c, err := v.chunk(z.chunk, z)
	if err != nil {
		return err
	}
	called, err := c.calledBySpan()
	if err != nil {
		return err
	}
	copies := &copier{builder: b, lens: lens{rules: rules}, written: z.written, called: called}
	groups, err := c.resources()
	if err != nil {
		return err
	}
	at, err := c.traceTable()
	if err != nil {
		return err
	}
	for t := range int(z.traces) {
		record, err := c.record(at.place(t))
		if err != nil {
			return err
		}
		if err := copies.add(groups, record); err != nil {
			return err
		}
	}
	return v.drop(c)
}

// copier adds records of a chunk to a builder.
type copier struct {
	*builder
	lens    lens           // what it leaves out
	written uint64         // of the chunk
	called  map[int]string // by span of the chunk, which traced service it called
	next    int            // span
}

func (c *copier) add(groups []group, record []byte) error {
	return eachRun(record, groups, func(g uint32, run []byte) error {
		limit, err := c.lens.limitOf(groups[g].resource)
		if err != nil {
			return err
		}
		to := int32(-1)
		return eachSpan(run, func(span, whole []byte) error {
			n := c.next
			c.next++
			if limit > 0 && min(startOf(span), c.written) < limit {
				return nil
			}
			if to < 0 { // nothing stays of a resource of which all spans go
				if to, err = c.group(groups[g].resource, groups[g].scope); err != nil {
					return err
				}
			}
			if err := c.addSpan(to, c.resource[c.resourceIn[to]].service, span, whole); err != nil {
				return err
			}
			if service, ok := c.called[n]; ok {
				c.rows[len(c.rows)-1].called = 1 + indexIn(&c.names.services, c.service, service)
			}
			return nil
		})
	})
}

// limitOf is limit, for a ResourceSpans without scopes.
func (l *lens) limitOf(resource []byte) (uint64, error) {
	if len(l.rules) == 0 {
		return 0, nil
	}
	id, err := identityOf(resource)
	return l.limit(id.service), err
}

// calledBySpan returns which service each span of the chunk called that measures a call to a traced one.
func (c *chunkData) calledBySpan() (map[int]string, error) {
	if c.zone.edges == 0 {
		return nil, nil
	}
	names, err := c.dictionary()
	if err != nil {
		return nil, err
	}
	edges, spans, err := c.callColumns()
	if err != nil {
		return nil, err
	}
	called := map[int]string{}
	for i := range int(c.zone.edges) {
		e := edges.at(i)
		if e >= uint64(len(names.edges)) {
			return nil, corrupt("chunk %d has no edge %d", c.zone.chunk, e)
		}
		if e := names.edges[e]; e.traced && !e.behind {
			called[int(spans.at(i))] = e.to //nolint:gosec // looked up only
		}
	}
	return called, nil
}

// traceTable is the columns that say where a chunk's traces are.
type traceTable struct {
	chunk                      uint64
	ids, block, offset, length column
}

func (c *chunkData) traceTable() (t traceTable, err error) {
	t.chunk = c.zone.chunk
	for col, to := range map[int]*column{colTraceID: &t.ids, colBlock: &t.block, colOffset: &t.offset, colBytes: &t.length} {
		if *to, err = c.column(col); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (t *traceTable) id(i int) pcommon.TraceID { return pcommon.TraceID(t.ids.b[16*i : 16*i+16]) }

func (t *traceTable) place(i int) place {
	return place{
		chunk: t.chunk, ordinal: uint32(i), block: uint32(t.block.at(i)),
		offset: uint32(t.offset.at(i)), length: uint32(t.length.at(i)),
	}
}
