package store

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// rank is a trace by what it is sorted by.
type rank struct {
	value uint64
	cursor
}

func (r rank) before(s rank) bool {
	if r.value != s.value {
		return r.value > s.value
	}
	return s.after(r.cursor)
}

// ranks is a heap of the traces found so far, the last of them on top.
type ranks []rank

func (r ranks) Len() int           { return len(r) }
func (r ranks) Less(i, j int) bool { return r[j].before(r[i]) }
func (r ranks) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *ranks) Push(x any)        { *r = append(*r, x.(rank)) }
func (r *ranks) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}

var errTime = errors.New("store: the time of a search is over")

// ranked searches all chunks for the traces that are first in the order of the query.
// Attributes are compared only of those that would be among them.
func (s *searcher) ranked(ctx context.Context) (Result, error) {
	chunks := s.v.chunks
	slices.SortFunc(chunks, func(a, b *zone) int { return cmp.Compare(b.maxFrom, a.maxFrom) })
	var top ranks
	if !s.possible(chunks) {
		return Result{}, nil
	}
	var r Result
	for _, z := range chunks {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		if !s.m.chunk(z) {
			continue
		}
		err := s.rankChunk(ctx, z, &top)
		if errors.Is(err, errTime) {
			r.Truncated, r.Reached = true, timeOf(z.maxFrom)
			break
		}
		if err := s.v.skip(z, err); err != nil {
			return Result{}, err
		}
	}
	// A trace of several chunks is ranked again as a whole.
	summaries := make([]Summary, 0, len(top))
	seen := map[pcommon.TraceID]bool{}
	for _, x := range top {
		if seen[x.id] {
			continue
		}
		seen[x.id] = true
		places, err := s.v.places(ctx, x.id)
		var sum Summary
		if err == nil {
			sum, err = s.v.summary(x.id, places)
		}
		if errors.Is(err, ErrCorrupt) {
			sum, err = Summary{TraceID: x.id, Start: timeOf(x.from), State: StateDamaged}, nil
			s.v.damaged++
		}
		if err != nil {
			return Result{}, err
		}
		if s.m.trace(sum.State, sum.Retro) {
			summaries = append(summaries, sum)
		}
	}
	slices.SortFunc(summaries, func(a, b Summary) int {
		by := cmp.Compare(b.Duration, a.Duration)
		if s.m.q.Sort == BySpans {
			by = cmp.Compare(b.Spans, a.Spans)
		}
		return cmp.Or(by, b.Start.Compare(a.Start), cmp.Compare(a.TraceID.String(), b.TraceID.String()))
	})
	r.Traces, r.Damaged = summaries[:min(len(summaries), s.m.q.Limit)], s.v.damaged
	return r, nil
}

// rankChunk adds the traces of a chunk to those found.
func (s *searcher) rankChunk(ctx context.Context, z *zone, top *ranks) error {
	c, err := s.v.chunk(z.chunk, z)
	if err != nil {
		return err
	}
	z = c.zone // of what is seen
	table, err := c.traceTable()
	if err != nil {
		return err
	}
	from, length, _, err := c.extents()
	if err != nil {
		return err
	}
	first, err := c.column(colFirst)
	if err != nil {
		return err
	}
	n := 0
	err = s.m.traces(c, func(t int) error {
		x := rank{length.at(t), cursor{z.minStart + from.at(t), table.id(t)}}
		if s.m.q.Sort == BySpans {
			next := uint64(z.spans)
			if t+1 < int(z.traces) {
				next = first.at(t + 1)
			}
			x.value = next - first.at(t)
		}
		// Parts of one trace take each a place: there are places for two of each.
		full := len(*top) > 2*s.m.q.Limit
		if full && !x.before((*top)[0]) {
			return nil
		}
		if ok, err := s.mayBe(c, t); err != nil || !ok {
			return err
		}
		if len(s.m.attributes) > 0 {
			if n++; n%64 == 0 && time.Now().After(s.deadline) {
				return cmp.Or(ctx.Err(), errTime)
			}
			if ok, err := s.m.attributesOf(c, &table, t); err != nil || !ok {
				return err
			}
		}
		if heap.Push(top, x); full {
			heap.Pop(top)
		}
		return nil
	})
	return cmp.Or(err, s.v.drop(c))
}

// extents returns when the traces of a chunk began, how long they are, and what the
// collector found out about them. The dictionary is read, too.
func (c *chunkData) extents() (from, length, verdicts column, err error) {
	if _, err = c.dictionary(); err != nil {
		return from, length, verdicts, err
	}
	if from, err = c.column(colFrom); err != nil {
		return from, length, verdicts, err
	}
	if length, err = c.column(colLength); err != nil {
		return from, length, verdicts, err
	}
	verdicts, err = c.column(colVerdict)
	return from, length, verdicts, err
}
