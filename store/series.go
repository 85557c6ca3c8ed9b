package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// SeriesQuery asks what spans took over time.
type SeriesQuery struct {
	Services    []string // at least one
	Kinds       []int32  // OTLP's span kinds; none: all
	ByOperation bool     // a series for each operation, instead of one for each service
	Conditions  []Condition
	// A point every Step from Start to End, each of the spans that started in the
	// Window before it, which is rounded up to whole steps.
	Start, End   time.Time
	Step, Window time.Duration
	Quantile     float64 // of durations, from 0 to 1
}

// Series is what the spans of a service, or of one of its operations, took over time.
type Series struct {
	Service, Operation string
	Points             []Point
}

// Point is what spans of a window took. Requests and errors are weighted by sampling
// probability, as in [Latency].
type Point struct {
	Time             time.Time // the window's end
	Requests, Errors float64
	Rate             float64 // requests per second
	Duration         time.Duration
}

// Bounds of a SeriesQuery.
const (
	maxPoints = 11_000  // as Prometheus has
	maxCounts = 1 << 21 // durations that differ, in all steps of all series
	maxSeries = 10 * 365 * 24 * time.Hour
)

// Series returns what the spans of each service, or operation, took over time. The
// busiest come first.
func (s *Store) Series(ctx context.Context, q SeriesQuery) (list []Series, err error) {
	span := q.End.Sub(q.Start)
	switch {
	case len(q.Services) == 0:
		return nil, fmt.Errorf("%w: no service", ErrInvalid)
	case q.Step <= 0, q.Window <= 0, span < 0, max(q.Step, q.Window, span) > maxSeries:
		return nil, fmt.Errorf("%w: a step of %v, a window of %v, %v long: each must be above 0, up to %v", ErrInvalid, q.Step, q.Window, span, maxSeries)
	case span/q.Step >= maxPoints || q.Window/q.Step >= maxPoints:
		return nil, fmt.Errorf("%w: more than %d points: choose a longer step", ErrInvalid, maxPoints)
	}
	r := &series{q: q, points: int(span/q.Step) + 1, window: int((q.Window + q.Step - 1) / q.Step), of: map[latencyKey]*steps{}}
	r.from = q.Start.UnixNano() - int64(r.window)*int64(q.Step)
	m, err := newMatch(Query{Conditions: q.Conditions, Start: time.Unix(0, max(r.from, 0)), End: q.End})
	if err != nil {
		return nil, err
	}
	err = s.read(ctx, func(v *view) error {
		return v.each(ctx, v.restrict(m), func(c *chunkData, cols *spanColumns) error { return r.add(m, c, cols) })
	})
	if err != nil {
		return nil, err
	}
	return r.list(), nil
}

type series struct {
	q              SeriesQuery
	points, window int
	from           int64 // where the first step begins, ns
	of             map[latencyKey]*steps
	counts         int
}

// steps are the spans of a series by step.
type steps struct {
	requests, errors []float64
	durations        map[uint32]float64 // step<<durationBits + bucket
	total            float64
}

const durationBits = 12 // of a bucket's number

func (r *series) add(m *match, c *chunkData, cols *spanColumns) error {
	names, err := c.dictionary()
	if err != nil {
		return err
	}
	to := make([]*steps, len(names.operations))
	some := false
	for i := range names.operations {
		o := &names.operations[i]
		service := names.services[o.service]
		if !slices.Contains(r.q.Services, service) || len(r.q.Kinds) > 0 && !slices.Contains(r.q.Kinds, o.kind) {
			continue
		}
		k := latencyKey{service: service}
		if r.q.ByOperation {
			k.operation = o.name
		}
		if r.of[k] == nil {
			n := r.points + r.window - 1
			r.of[k] = &steps{requests: make([]float64, n), errors: make([]float64, n), durations: map[uint32]float64{}}
		}
		to[i], some = r.of[k], true
	}
	if !some {
		return nil
	}
	ops, err := c.column(colOperation)
	if err != nil {
		return err
	}
	start, err := c.column(colStart)
	if err != nil {
		return err
	}
	if some, err = m.filter(c); err != nil || !some {
		return err
	}
	return c.eachTrace(func(t, first, next int, weight float64) error {
		add := func(i int) error {
			o := ops.at(i)
			if o >= uint64(len(to)) {
				return corrupt("chunk %d has no operation %d", c.zone.chunk, o)
			}
			if to[o] == nil || !m.span(cols, i) {
				return nil
			}
			// A step ends with the point, which belongs to it.
			at := (int64(c.zone.minStart+start.at(i)) - r.from - 1) / int64(r.q.Step)
			if at < 0 || at >= int64(len(to[o].requests)) {
				return nil
			}
			return r.span(to[o], int(at), cols.duration.at(i), cols.flags.at(i)&flagError != 0, weight)
		}
		if len(m.attributes) > 0 {
			return m.eachWith(c, t, add)
		}
		for i := first; i < next; i++ {
			if err := add(i); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *series) span(s *steps, at int, duration uint64, failed bool, weight float64) error {
	s.requests[at] += weight
	s.total += weight
	if failed {
		s.errors[at] += weight
	}
	k := uint32(at)<<durationBits | uint32(bins.Of(duration))
	was := s.durations[k]
	if s.durations[k] = was + weight; was == 0 {
		if r.counts++; r.counts > maxCounts {
			return fmt.Errorf("%w: too many operations and steps at once: choose a longer step, or fewer services", ErrInvalid)
		}
	}
	return nil
}

func (r *series) list() []Series {
	totals := map[latencyKey]float64{}
	keys := make([]latencyKey, 0, len(r.of))
	for k, s := range r.of {
		if s.total > 0 {
			keys, totals[k] = append(keys, k), s.total
		}
	}
	slices.SortFunc(keys, func(a, b latencyKey) int {
		return cmp.Or(cmp.Compare(totals[b], totals[a]), strings.Compare(a.service, b.service), strings.Compare(a.operation, b.operation))
	})
	list := make([]Series, 0, len(keys))
	for _, k := range keys {
		list = append(list, Series{k.service, k.operation, r.pointsOf(r.of[k])})
	}
	return list
}

// pointsOf moves the window over the steps.
func (r *series) pointsOf(s *steps) []Point {
	buckets := make([][]uint32, len(s.requests)) // of each step
	for k := range s.durations {
		at := k >> durationBits
		buckets[at] = append(buckets[at], k)
	}
	var window [1 << durationBits]float64
	move := func(at int, sign float64) {
		for _, k := range buckets[at] {
			window[k&(1<<durationBits-1)] += sign * s.durations[k]
		}
	}
	points := make([]Point, r.points)
	for at := range s.requests {
		move(at, 1)
		p := at - r.window + 1
		if p < 0 {
			continue
		}
		if p > 0 {
			move(p-1, -1)
		}
		x := Point{Time: r.q.Start.Add(time.Duration(p) * r.q.Step)}
		for i := p; i <= at; i++ {
			x.Requests += s.requests[i]
			x.Errors += s.errors[i]
		}
		x.Rate = x.Requests / (time.Duration(r.window) * r.q.Step).Seconds()
		rank, sum := r.q.Quantile*x.Requests, 0.0
		for b, n := range window {
			// What is left of weights that were taken away is not a request.
			if sum += n; n > 1e-6 && sum >= rank*(1-1e-9) {
				from, next := bins.Start(b), bins.Start(b+1)
				x.Duration = durationOf(min(from+(next-from)/2, math.MaxInt64))
				break
			}
		}
		points[p] = x
	}
	return points
}
