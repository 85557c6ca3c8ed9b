package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	buckets "github.com/tare-trace/tare/otel/histogram"
)

// Overview is how many traces a query finds over its whole time, when they began and
// how long they took. A trace that came in several writes counts once for each until
// they are merged.
type Overview struct {
	Traces, Errors uint64  // Errors: traces in which a span failed
	Weight         float64 // how many traces these stand for
	// The time from Start to End in columns of equal width, and the traces of each
	// column by duration.
	Start, End time.Time
	Columns    int
	Cells      []Cell // by column, then duration; only those with traces
	// Truncated: attributes could not be compared within the time limit. What began
	// after Reached is counted, of the rest only some.
	Truncated bool
	Reached   time.Time
	// Damaged is how many chunks could not be read, and are not counted, or not all of them.
	Damaged int
}

// Cell is the traces that began within one column, and took from Low to High.
type Cell struct {
	Column         int
	Low, High      time.Duration
	Traces, Errors uint64
}

const (
	maxColumns   = 500
	overviewTime = 250 * time.Millisecond // for comparing attributes
	heat         = buckets.Buckets(1)     // rows: two for each power of two
	heatRows     = 128
)

// Overview counts the traces that Search would find, without its limit.
func (s *Store) Overview(ctx context.Context, q Query, columns int) (o Overview, err error) {
	if columns < 1 || columns > maxColumns {
		return o, fmt.Errorf("%w: %d columns, there may be 1 to %d", ErrInvalid, columns, maxColumns)
	}
	m, err := newMatch(q)
	if err != nil {
		return o, err
	}
	err = s.read(ctx, func(v *view) error {
		c := &counter{searcher: searcher{v: v, m: v.restrict(m), deadline: time.Now().Add(overviewTime)}, Overview: &o}
		o.Columns = columns
		return c.run(ctx)
	})
	return o, err
}

// counter is an overview that is being made.
type counter struct {
	searcher
	*Overview
	start, width uint64 // of the columns, ns
	traces       [][heatRows]uint64
	errors       [][heatRows]uint64
}

func (c *counter) run(ctx context.Context) error {
	other := func(z *zone) bool { return !c.m.chunk(z) }
	chunks, err := c.v.exact(slices.DeleteFunc(c.v.chunks, other))
	if err != nil {
		return err
	}
	chunks = slices.DeleteFunc(chunks, other)
	if len(chunks) == 0 || !c.possible(chunks) {
		return nil
	}
	slices.SortFunc(chunks, func(a, b *zone) int { return cmp.Compare(b.maxFrom, a.maxFrom) })
	from, to := c.m.start, min(c.m.end, 1<<63-1)
	if c.m.q.Start.IsZero() {
		from = slices.MinFunc(chunks, func(a, b *zone) int { return cmp.Compare(a.minStart, b.minStart) }).minStart
	}
	if c.m.q.End.IsZero() {
		to = min(chunks[0].maxFrom, 1<<63-1)
	}
	c.start, c.width = from, (max(to, from)-from)/uint64(c.Columns)+1
	c.Start, c.End = timeOf(from), timeOf(from+c.width*uint64(c.Columns))
	c.traces, c.errors = make([][heatRows]uint64, c.Columns), make([][heatRows]uint64, c.Columns)
	for _, z := range chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := c.chunk(ctx, z)
		if errors.Is(err, errTime) {
			c.Truncated, c.Reached = true, timeOf(z.maxFrom)
			break
		}
		if err := c.v.skip(z, err); err != nil {
			return err
		}
	}
	c.Damaged = c.v.damaged
	for column := range c.traces {
		for row, n := range c.traces[column] {
			if n > 0 {
				c.Cells = append(c.Cells, Cell{column, durationOf(heat.Start(row)), durationOf(heat.Start(row+1) - 1), n, c.errors[column][row]})
			}
		}
	}
	return nil
}

func (c *counter) chunk(ctx context.Context, z *zone) error {
	d, err := c.v.chunk(z.chunk, z)
	if err != nil {
		return err
	}
	z = d.zone // of what is seen
	from, length, verdicts, err := d.extents()
	if err != nil {
		return err
	}
	weights, err := d.column(colWeight)
	if err != nil {
		return err
	}
	table, err := d.traceTable()
	if err != nil {
		return err
	}
	failed, err := d.failed()
	if err != nil {
		return err
	}
	n := 0
	err = c.m.traces(d, func(t int) error {
		v := verdicts.at(t)
		if v >= uint64(len(d.names.verdicts)) {
			return corrupt("chunk %d, trace %d", z.chunk, t)
		}
		w := weights.at(t)
		if w >= uint64(len(d.names.weights)) {
			return corrupt("chunk %d, trace %d", z.chunk, t)
		}
		weight := weightOf(d.names.weights[w])
		if !c.m.trace(d.names.verdicts[v].state, weight.Kept()) {
			return nil
		}
		if len(c.m.attributes) > 0 {
			if n++; n%64 == 0 && time.Now().After(c.deadline) {
				return cmp.Or(ctx.Err(), errTime)
			}
			if ok, err := c.m.attributesOf(d, &table, t); err != nil || !ok {
				return err
			}
		}
		at := z.minStart + from.at(t)
		column := 0 // also of a trace that began before, and of which a span matches
		if at > c.start {
			column = int(min((at-c.start)/c.width, uint64(c.Columns-1)))
		}
		row := heat.Of(length.at(t))
		c.traces[column][row]++
		c.Traces++
		if failed != nil && failed[t] {
			c.errors[column][row]++
			c.Errors++
		}
		c.Weight += weight.Traces()
		return nil
	})
	return cmp.Or(err, c.v.drop(d))
}

// exact returns the bounds of what is seen of the chunks, and leaves out those of which nothing is.
func (v *view) exact(chunks []*zone) ([]*zone, error) {
	if v.lens == nil {
		return chunks, nil
	}
	seen := chunks[:0]
	for _, z := range chunks {
		c, err := v.chunk(z.chunk, z)
		if err := v.skip(z, err); err != nil {
			return nil, err
		}
		if c != nil && c.zone.spans > 0 {
			seen = append(seen, c.zone)
		}
	}
	return seen, nil
}

// failed tells in which traces of the chunk a span failed; nil: in none.
func (c *chunkData) failed() ([]bool, error) {
	if c.zone.errors == 0 {
		return nil, nil
	}
	flags, err := c.column(colFlags)
	if err != nil {
		return nil, err
	}
	first, err := c.column(colFirst)
	if err != nil {
		return nil, err
	}
	// Few spans fail: the trace is looked for where one did.
	failed, traces := make([]bool, c.zone.traces), int(c.zone.traces)
	for i := range int(c.zone.spans) {
		if flags.at(i)&flagError != 0 {
			t := sort.Search(traces, func(t int) bool { return first.at(t) > uint64(i) }) - 1
			if t < 0 {
				return nil, corrupt("chunk %d has spans of no trace", c.zone.chunk)
			}
			failed[t] = true
		}
	}
	return failed, nil
}
