package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store/weight"
)

// Bounds of Query.Limit.
const (
	defaultLimit = 20
	maxLimit     = 1000
)

// Search finds traces with a span that meets every condition of the query, the
// newest first: by the start of the trace's first span. It looks from the newest
// chunk down and stops when the page is full, or after two seconds; then
// Result.Truncated is set and Result.Next goes on. A state is a property of the
// trace: at most one of its spans should say it, as the collector does.
func (s *Store) Search(ctx context.Context, q Query) (r Result, err error) {
	err = s.read(ctx, func(v *view) error {
		r, err = v.search(ctx, q)
		return err
	})
	return r, err
}

func (v *view) search(ctx context.Context, q Query) (r Result, err error) {
	switch {
	case q.Limit < 0 || q.Limit > maxLimit:
		return r, fmt.Errorf("%w: a limit of %d traces, it may be 1 to %d", ErrInvalid, q.Limit, maxLimit)
	case q.Limit == 0:
		q.Limit = defaultLimit
	}
	after, err := parseCursor(q.After)
	if err != nil {
		return r, err
	}
	m, err := newMatch(q)
	if err != nil {
		return r, err
	}
	if q.Sort > BySpans || q.Sort != ByTime && q.After != "" {
		return r, fmt.Errorf("%w: only traces by time have further pages", ErrInvalid)
	}
	search := &searcher{v: v, m: v.restrict(m), after: after, deadline: time.Now().Add(v.s.searches), seen: map[pcommon.TraceID]bool{}}
	if q.Sort != ByTime {
		return search.ranked(ctx)
	}
	return search.run(ctx)
}

// searcher is a search that runs.
type searcher struct {
	v        *view
	m        *match
	after    cursor
	deadline time.Time
	seen     map[pcommon.TraceID]bool
	// What was found, sorted; at most one more than the limit, which tells that
	// there is another page.
	found      []foundTrace
	candidates []candidate
}

type foundTrace struct {
	cursor
	places []place
}

// full reports whether nothing that starts at from, or earlier, belongs on the
// page.
func (s *searcher) full(from uint64) bool {
	return len(s.found) > s.m.q.Limit && s.found[s.m.q.Limit].from > from
}

func (s *searcher) run(ctx context.Context) (Result, error) {
	chunks := s.v.chunks
	slices.SortFunc(chunks, func(a, b *zone) int { return cmp.Compare(b.maxFrom, a.maxFrom) })
	if !s.possible(chunks) {
		return Result{}, nil
	}
	for i, z := range chunks {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		// A trace's first start is not later than what its chunk has of it.
		if s.full(z.maxFrom) {
			break
		}
		// At least one step, or Next would lead back to here.
		if i > 0 && z.maxFrom < s.after.from && time.Now().After(s.deadline) {
			return s.truncated(ctx, z.maxFrom)
		}
		if !s.m.chunk(z) {
			continue
		}
		if err := s.v.skip(z, s.chunk(ctx, z)); err != nil {
			return Result{}, err
		}
	}
	var r Result
	if limit := s.m.q.Limit; len(s.found) > limit {
		s.found = s.found[:limit]
		r.Next = s.found[limit-1].String()
	}
	return s.summarize(ctx, r)
}

// possible reports whether any chunk has a trace of the state.
func (s *searcher) possible(chunks []*zone) bool {
	if s.m.q.State == "" {
		return len(chunks) > 0
	}
	bit := stateBit(s.m.q.State)
	return slices.ContainsFunc(chunks, func(z *zone) bool { return z.states&bit != 0 })
}

// truncated answers with what is certain: everything newer than reached.
func (s *searcher) truncated(ctx context.Context, reached uint64) (Result, error) {
	n := 0
	for n < len(s.found) && n < s.m.q.Limit && s.found[n].from > reached {
		n++
	}
	r := Result{Truncated: true, Reached: timeOf(reached), Next: notAfter(reached).String()}
	if n == s.m.q.Limit { // the page is full before that
		r = Result{Next: s.found[n-1].String()}
	}
	s.found = s.found[:n]
	return s.summarize(ctx, r)
}

func (s *searcher) summarize(ctx context.Context, r Result) (Result, error) {
	r.Traces = make([]Summary, len(s.found))
	for i, f := range s.found {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		var err error
		if r.Traces[i], err = s.v.summary(f.id, f.places); errors.Is(err, ErrCorrupt) {
			r.Traces[i] = Summary{TraceID: f.id, Start: timeOf(f.from), State: StateDamaged}
			s.v.damaged++
		} else if err != nil {
			return Result{}, err
		}
	}
	r.Damaged = s.v.damaged
	return r, nil
}

// chunk adds what the chunk has to what was found.
func (s *searcher) chunk(ctx context.Context, z *zone) error {
	c, err := s.v.chunk(z.chunk, z)
	if err != nil {
		return err
	}
	c.pinned = true
	defer func() { c.pinned = false }()
	oldest := uint64(0)
	if limit := s.m.q.Limit; len(s.found) > limit {
		oldest = s.found[limit].from
	}
	s.candidates, err = s.m.candidates(c, oldest, s.candidates[:0])
	if err != nil {
		return err
	}
	if len(s.candidates) == 0 {
		return s.v.drop(c)
	}
	table, err := c.traceTable()
	if err != nil {
		return err
	}
	for n, x := range s.candidates {
		if n%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if s.full(x.from) {
			break
		}
		id := table.id(x.trace)
		if s.seen[id] {
			continue
		}
		if ok, err := s.mayBe(c, x.trace); err != nil {
			return err
		} else if !ok {
			continue
		}
		if len(s.m.attributes) > 0 {
			if ok, err := s.m.attributesOf(c, &table, x.trace); err != nil {
				return err
			} else if !ok {
				continue
			}
		}
		if err := s.trace(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// mayBe reports whether the trace may meet the conditions on whole traces: what the chunk has of it says so, or does
// not say it: every span says whether its trace was kept retroactively, and few say why.
func (s *searcher) mayBe(c *chunkData, t int) (bool, error) {
	q := &s.m.q
	if q.State != "" {
		verdicts, err := c.column(colVerdict)
		if err != nil {
			return false, err
		}
		if v := verdicts.at(t); v < uint64(len(c.names.verdicts)) {
			if state := c.names.verdicts[v].state; state != "" && state != q.State {
				return false, nil
			}
		}
	}
	if q.Retro == 0 {
		return true, nil
	}
	weights, err := c.column(colWeight)
	if err != nil {
		return false, err
	}
	w := weights.at(t)
	if w >= uint64(len(c.names.weights)) {
		return true, nil
	}
	kept := weightOf(c.names.weights[w]).Kept()
	return kept&q.Retro != 0 || kept == semconv.RetroKept, nil
}

// trace adds the trace if, all of it considered, it belongs to the page.
func (s *searcher) trace(ctx context.Context, id pcommon.TraceID) error {
	s.seen[id] = true
	places, err := s.v.places(ctx, id)
	if err != nil {
		return err
	}
	f := foundTrace{cursor: cursor{from: 1<<64 - 1, id: id}, places: places}
	var v verdict
	var w weight.Trace
	for _, p := range places {
		part, err := s.v.part(p)
		if err != nil {
			return err
		}
		f.from = min(f.from, part.from)
		v.join(part.verdict)
		w.Add(part.weight.Adjusted, false, part.weight.Retro)
	}
	if !f.after(s.after) || !s.m.trace(v.state, w.Kept()) {
		return nil
	}
	limit := s.m.q.Limit
	at, _ := slices.BinarySearchFunc(s.found, f, func(a, b foundTrace) int {
		switch {
		case a.id == b.id:
			return 0
		case a.after(b.cursor):
			return 1
		}
		return -1
	})
	if at > limit {
		return nil
	}
	s.found = slices.Insert(s.found, at, f)
	if len(s.found) > limit+1 {
		s.found = s.found[:limit+1]
	}
	return nil
}

// part is what a chunk says of a trace.
type part struct {
	from, end uint64
	first, n  int // its spans in the chunk
	top       int
	weight    weight.Trace
	verdict   verdict
}

// part reads what stands at the place.
func (v *view) part(p place) (part, error) {
	c, err := v.chunk(p.chunk, nil)
	if err != nil {
		return part{}, err
	}
	names, err := c.dictionary()
	if err != nil {
		return part{}, err
	}
	if p.ordinal >= c.zone.traces {
		return part{}, corrupt("chunk %d has no trace %d", p.chunk, p.ordinal)
	}
	var n [6]uint64
	for i, col := range [...]int{colFirst, colFrom, colLength, colTop, colVerdict, colWeight} {
		column, err := c.column(col)
		if err != nil {
			return part{}, err
		}
		n[i] = column.at(int(p.ordinal))
		if col == colFirst {
			if next := int(p.ordinal) + 1; next < int(c.zone.traces) {
				p.length = uint32(column.at(next))
			} else {
				p.length = c.zone.spans
			}
		}
	}
	first, next := n[0], uint64(p.length)
	if first >= next || next > uint64(c.zone.spans) || n[3] >= next-first ||
		n[4] >= uint64(len(names.verdicts)) || n[5] >= uint64(len(names.weights)) {
		return part{}, corrupt("chunk %d, trace %d", p.chunk, p.ordinal)
	}
	from := c.zone.minStart + n[1]
	return part{
		from: from, end: from + n[2], first: int(first), n: int(next - first), top: int(first + n[3]),
		verdict: names.verdicts[n[4]], weight: weightOf(names.weights[n[5]]),
	}, nil
}
