package store

import (
	"cmp"
	"slices"

	"github.com/tare-trace/tare/span/semconv"
)

// match is a query, prepared for comparing it with chunks.
type match struct {
	q          Query
	start, end uint64 // of spans, ns: [start, end]
	empty      bool   // no time is within
	attributes []*attributeMatch

	// Of the chunk at hand: operations, and blocks whose filter says that a
	// span in it may have the attributes.
	want   []bool
	called []bool // spans that measure a call that is asked for
	blocks []bool
	at     []int32
}

func newMatch(q Query) (*match, error) {
	m := &match{q: q, end: 1<<64 - 1}
	if !q.Start.IsZero() {
		m.start = uint64(max(q.Start.UnixNano(), 0))
	}
	if !q.End.IsZero() {
		end := q.End.UnixNano()
		m.empty = end <= 0
		m.end = uint64(max(end, 1)) - 1
	}
	conditions := slices.Clone(q.Conditions)
	for key, text := range q.Attributes {
		conditions = append(conditions, Condition{Key: key, Value: text})
	}
	for _, c := range conditions {
		a, err := newAttributeMatch(c)
		if err != nil {
			return nil, err
		}
		m.attributes = append(m.attributes, a)
	}
	return m, nil
}

// chunk reports whether something in a chunk with these bounds may match.
func (m *match) chunk(z *zone) bool {
	q := &m.q
	switch {
	case m.empty, z.maxStart < m.start, z.minStart > m.end,
		q.MinDuration > 0 && z.maxDuration < uint64(q.MinDuration),
		q.MaxDuration > 0 && z.minDuration > uint64(q.MaxDuration),
		q.Status == Failed && z.errors == 0,
		q.Status == NotFailed && z.errors == z.spans,
		q.Retro != 0 && z.states&retroBit == 0:
		return false
	}
	return true
}

// trace reports whether a trace meets the conditions on whole traces.
func (m *match) trace(state string, kept semconv.RetroSet) bool {
	return (m.q.State == "" || state == m.q.State) && (m.q.Retro == 0 || kept&m.q.Retro != 0)
}

// operation reports whether a span of it may match.
func (m *match) operation(o *operation, services []string) bool {
	q := &m.q
	switch {
	case q.Service != "" && q.Calls == "" && services[o.service] != q.Service,
		q.Operation != "" && o.name != q.Operation,
		q.Kind != 0 && o.kind != q.Kind,
		q.MinDuration > 0 && o.maxDuration < uint64(q.MinDuration),
		q.MaxDuration > 0 && o.minDuration > uint64(q.MaxDuration),
		q.Status == Failed && o.errors == 0,
		q.Status == NotFailed && o.errors == o.spans,
		q.Roots && o.roots == 0,
		o.maxStart < m.start:
		return false
	}
	return true
}

// candidate is a trace of a chunk with spans that meet the conditions on
// columns.
type candidate struct {
	from  uint64 // its first start in this chunk
	trace int
}

// spanColumns is what the conditions on a span need.
type spanColumns struct {
	needStart, needDuration, needFlags bool
	minStart                           uint64
	start, duration, flags             column
}

func (m *match) columns(c *chunkData) (s spanColumns, err error) {
	q, z := &m.q, c.zone
	s.minStart = z.minStart
	if s.needStart = z.minStart < m.start || z.maxStart > m.end; s.needStart {
		if s.start, err = c.column(colStart); err != nil {
			return s, err
		}
	}
	if s.needDuration = q.MinDuration > 0 || q.MaxDuration > 0; s.needDuration {
		if s.duration, err = c.column(colDuration); err != nil {
			return s, err
		}
	}
	if s.needFlags = q.Status != AnyStatus || q.Roots; s.needFlags {
		s.flags, err = c.column(colFlags)
	}
	return s, err
}

// span reports whether a span of a wanted operation meets the other conditions.
func (m *match) span(s *spanColumns, i int) bool {
	q := &m.q
	if q.Calls != "" && !m.called[i] {
		return false
	}
	if s.needDuration {
		d := s.duration.at(i)
		if q.MinDuration > 0 && d < uint64(q.MinDuration) || q.MaxDuration > 0 && d > uint64(q.MaxDuration) {
			return false
		}
	}
	if s.needFlags {
		f := s.flags.at(i)
		if q.Status == Failed && f&flagError == 0 || q.Status == NotFailed && f&flagError != 0 || q.Roots && f&flagRoot == 0 {
			return false
		}
	}
	if s.needStart {
		if start := s.minStart + s.start.at(i); start < m.start || start > m.end {
			return false
		}
	}
	return true
}

// candidates appends the traces of the chunk that may match, the newest first,
// down to the oldest start that is asked for.
func (m *match) candidates(c *chunkData, oldest uint64, found []candidate) ([]candidate, error) {
	from, err := c.column(colFrom)
	if err != nil {
		return nil, err
	}
	err = m.traces(c, func(t int) error {
		if start := c.zone.minStart + from.at(t); start >= oldest {
			found = append(found, candidate{start, t})
		}
		return nil
	})
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Compare(b.from, a.from) })
	return found, err
}

// all reports whether every span of a chunk with these bounds matches.
func (m *match) all(z *zone) bool {
	q := &m.q
	return !m.empty && z.minStart >= m.start && z.maxStart <= m.end && q.Service == "" && q.Operation == "" && q.Kind == 0 &&
		q.MinDuration == 0 && q.MaxDuration == 0 && q.Status == AnyStatus && !q.Roots && q.Calls == "" && len(m.attributes) == 0
}

// traces calls f for the traces of the chunk that may match: only attributes, and
// conditions on whole traces, are still to be compared.
func (m *match) traces(c *chunkData, f func(t int) error) error {
	if _, err := c.dictionary(); err != nil {
		return err
	}
	if m.all(c.zone) {
		for t := range int(c.zone.traces) {
			if err := f(t); err != nil {
				return err
			}
		}
		return nil
	}
	if some, err := m.filter(c); err != nil || !some {
		return err
	}
	if some, err := m.operations(c); err != nil || !some {
		return err
	}
	if some, err := m.calls(c); err != nil || !some {
		return err
	}
	if some, err := m.spans(c); err != nil || !some {
		return err
	}
	first, err := c.column(colFirst)
	if err != nil {
		return err
	}
	block, err := c.column(colBlock)
	if err != nil {
		return err
	}
	t, next := -1, uint64(0)
	for _, i := range m.at {
		if uint64(i) < next { // the trace is found
			continue
		}
		for t < 0 || next <= uint64(i) {
			t++
			if next = uint64(c.zone.spans); t+1 < int(c.zone.traces) {
				next = first.at(t + 1)
			}
			if t >= int(c.zone.traces) {
				return corrupt("chunk %d has spans of no trace", c.zone.chunk)
			}
		}
		if len(m.attributes) > 0 {
			if b := block.at(t); b >= uint64(len(m.blocks)) || !m.blocks[b] {
				continue
			}
		}
		if err := f(t); err != nil {
			return err
		}
	}
	return nil
}

// operations finds those of the chunk that may match, and reports whether there
// are any.
func (m *match) operations(c *chunkData) (bool, error) {
	names, err := c.dictionary()
	if err != nil {
		return false, err
	}
	m.want = slices.Grow(m.want[:0], len(names.operations))[:len(names.operations)]
	some := false
	for i := range names.operations {
		m.want[i] = m.operation(&names.operations[i], names.services)
		some = some || m.want[i]
	}
	return some, nil
}

// calls finds the spans of the chunk that measure the calls that are asked for,
// and reports whether there are any.
func (m *match) calls(c *chunkData) (bool, error) {
	n := int(c.zone.edges)
	if m.q.Calls == "" || n == 0 {
		return m.q.Calls == "", nil
	}
	names, err := c.dictionary()
	if err != nil {
		return false, err
	}
	want, some := make([]bool, len(names.edges)), false
	for i, e := range names.edges {
		want[i] = e.to == m.q.Calls && (m.q.Service == "" || names.services[e.from] == m.q.Service)
		some = some || want[i]
	}
	if !some {
		return false, nil
	}
	edges, spans, err := c.callColumns()
	if err != nil {
		return false, err
	}
	m.called = slices.Grow(m.called[:0], int(c.zone.spans))[:c.zone.spans]
	clear(m.called)
	for i := range n {
		e, at := edges.at(i), spans.at(i)
		if e >= uint64(len(want)) || at >= uint64(c.zone.spans) {
			return false, corrupt("chunk %d has no edge %d, or no span %d", c.zone.chunk, e, at)
		}
		m.called[at] = m.called[at] || want[e]
	}
	return true, nil
}

// spans finds those of the chunk that meet the conditions on columns, and
// reports whether there are any.
func (m *match) spans(c *chunkData) (bool, error) {
	ops, err := c.column(colOperation)
	if err != nil {
		return false, err
	}
	cols, err := m.columns(c)
	if err != nil {
		return false, err
	}
	m.at = ops.within(int(c.zone.spans), m.want, m.at[:0])
	m.at = slices.DeleteFunc(m.at, func(i int32) bool { return !m.span(&cols, int(i)) })
	return len(m.at) > 0, nil
}

// filter finds the blocks that may have the attributes, and reports whether
// there are any.
func (m *match) filter(c *chunkData) (bool, error) {
	if len(m.attributes) == 0 {
		return true, nil
	}
	n := int(c.zone.blocks)
	m.blocks = slices.Grow(m.blocks[:0], n)[:n]
	for i := range m.blocks {
		m.blocks[i] = true
	}
	for _, a := range m.attributes {
		if some, err := a.narrow(c, m.blocks); err != nil || !some {
			return false, err
		}
	}
	return true, nil
}

// attributesOf reports whether a span of the trace meets the conditions on
// columns and those on attributes.
func (m *match) attributesOf(c *chunkData, table *traceTable, t int) (bool, error) {
	first, err := c.column(colFirst)
	if err != nil {
		return false, err
	}
	ops, err := c.column(colOperation)
	if err != nil {
		return false, err
	}
	cols, err := m.columns(c)
	if err != nil {
		return false, err
	}
	at, next := c.spansOf(first, t)
	return m.withAttributes(c, table.place(t), func(n int) bool {
		i, ok := c.spanAt(n, at, next)
		return ok && ops.at(i) < uint64(len(m.want)) && m.want[ops.at(i)] && m.span(&cols, i)
	})
}

// withAttributes calls f with the number of each span of the record that meets the
// conditions on attributes, until it returns true.
func (m *match) withAttributes(c *chunkData, p place, f func(i int) bool) (bool, error) {
	groups, record, err := c.spansAt(p)
	if err != nil {
		return false, err
	}
	return attributeMatches(m.attributes, groups, record, f)
}

// eachWith calls f with the place in the chunk of each span of trace t that meets the conditions on attributes.
// filter must have been called.
func (m *match) eachWith(c *chunkData, t int, f func(i int) error) error {
	table, err := c.traceTable()
	if err != nil {
		return err
	}
	p := table.place(t)
	if int(p.block) >= len(m.blocks) || !m.blocks[p.block] {
		return nil
	}
	first, err := c.column(colFirst)
	if err != nil {
		return err
	}
	var failed error
	at, next := c.spansOf(first, t)
	_, err = m.withAttributes(c, p, func(n int) bool {
		if i, ok := c.spanAt(n, at, next); ok {
			failed = f(i)
		} else if c.projection == nil {
			failed = corrupt("chunk %d, trace %d", c.zone.chunk, t)
		}
		return failed != nil
	})
	return cmp.Or(failed, err)
}
