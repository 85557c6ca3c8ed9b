package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// latency collects what becomes a Latency or an Edge.
type latency struct {
	durations histogram
	spans     uint64
	errors    float64
}

func (l *latency) add(duration uint64, failed bool, weight float64) {
	l.durations.add(duration, weight)
	l.spans++
	if failed {
		l.errors += weight
	}
}

func (l *latency) quantile(q float64) time.Duration { return durationOf(l.durations.quantile(q)) }

// Latencies returns what spans took that started in [from, to); a zero time is
// no bound. Without byOperation there is one Latency for each service: of its
// server and consumer spans, and of roots of any kind, that is of the requests
// it answers or begins. With it there is one for every operation, of all spans.
// service, unless empty, is the only one. The busiest come first.
//
// Quantiles are of requests: a span counts for as many as its trace stands for.
func (s *Store) Latencies(ctx context.Context, from, to time.Time, service string, byOperation bool) (list []Latency, err error) {
	err = s.read(ctx, func(v *view) error {
		m, err := newMatch(Query{Service: service, Start: from, End: to})
		if err != nil {
			return err
		}
		list, err = v.latencies(ctx, m, byOperation)
		return err
	})
	return list, err
}

type latencyKey struct {
	service, operation string
	kind               int32
}

func (v *view) latencies(ctx context.Context, m *match, byOperation bool) ([]Latency, error) {
	all := map[latencyKey]*latency{}
	err := v.each(ctx, m, func(c *chunkData, cols *spanColumns) error {
		return c.addLatencies(m, cols, byOperation, all)
	})
	if err != nil {
		return nil, err
	}
	list := make([]Latency, 0, len(all))
	for k, l := range all {
		if l.spans > 0 {
			list = append(list, l.latency(k))
		}
	}
	slices.SortFunc(list, func(a, b Latency) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(a.Service, b.Service),
			strings.Compare(a.Operation, b.Operation), cmp.Compare(a.Kind, b.Kind))
	})
	return list, nil
}

func (l *latency) latency(k latencyKey) Latency {
	return Latency{
		Service: k.service, Operation: k.operation, Kind: k.kind,
		Count: l.spans, Weight: l.durations.total, Errors: l.errors,
		P50: l.quantile(.5), P95: l.quantile(.95), P99: l.quantile(.99), Max: durationOf(l.durations.largest),
	}
}

// each calls f for every chunk that may have spans of the time, with the
// columns that tell when they were.
func (v *view) each(ctx context.Context, m *match, f func(c *chunkData, cols *spanColumns) error) error {
	for _, z := range v.chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !m.chunk(z) {
			continue
		}
		if err := v.skip(z, v.eachOf(z, m, f)); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) eachOf(z *zone, m *match, f func(c *chunkData, cols *spanColumns) error) error {
	c, err := v.chunk(z.chunk, z)
	if err != nil {
		return err
	}
	cols, err := m.columns(c)
	if err != nil {
		return err
	}
	if cols.duration, err = c.column(colDuration); err != nil {
		return err
	}
	if cols.flags, err = c.column(colFlags); err != nil {
		return err
	}
	if err := f(c, &cols); err != nil {
		return err
	}
	return v.drop(c)
}

func (c *chunkData) addLatencies(m *match, cols *spanColumns, byOperation bool, all map[latencyKey]*latency) error {
	names, err := c.dictionary()
	if err != nil {
		return err
	}
	// Where the spans of an operation go: all of them, or only its roots.
	to := make([]*latency, len(names.operations))
	rootsTo := make([]*latency, len(names.operations))
	for i := range names.operations {
		o := &names.operations[i]
		if !m.operation(o, names.services) {
			continue
		}
		k := latencyKey{service: names.services[o.service]}
		if byOperation {
			k.operation, k.kind = o.name, o.kind
		}
		l := all[k]
		if l == nil && len(all) >= maxAnswered {
			k = latencyKey{service: OtherServices}
			if m.q.Service != "" {
				k = latencyKey{service: m.q.Service, operation: OtherOperations}
			}
			l = all[k]
		}
		if l == nil {
			l = &latency{}
			all[k] = l
		}
		rootsTo[i] = l
		if byOperation || o.isEntry() {
			to[i] = l
		}
	}
	ops, err := c.column(colOperation)
	if err != nil {
		return err
	}
	return c.eachTrace(func(_, first, next int, weight float64) error {
		for i := first; i < next; i++ {
			o := ops.at(i)
			if o >= uint64(len(to)) {
				return corrupt("chunk %d has no operation %d", c.zone.chunk, o)
			}
			f := cols.flags.at(i)
			l := to[o]
			if l == nil && f&flagRoot != 0 {
				l = rootsTo[o]
			}
			if l != nil && m.span(cols, i) {
				l.add(cols.duration.at(i), f&flagError != 0, weight)
			}
		}
		return nil
	})
}

// eachTrace calls f for every trace that counts in estimates: with its number, its spans [first, next), and how many
// traces it stands for. Others would show durations, operations and calls of which it is not known how frequent they are.
func (c *chunkData) eachTrace(f func(t, first, next int, weight float64) error) error {
	names, err := c.dictionary()
	if err != nil {
		return err
	}
	first, err := c.column(colFirst)
	if err != nil {
		return err
	}
	weights, err := c.column(colWeight)
	if err != nil {
		return err
	}
	traces, spans := int(c.zone.traces), int(c.zone.spans)
	for t := range traces {
		at, next := first.at(t), uint64(spans)
		if t+1 < traces {
			next = first.at(t + 1)
		}
		w := weights.at(t)
		if at >= next || next > uint64(spans) || w >= uint64(len(names.weights)) {
			return corrupt("chunk %d, trace %d", c.zone.chunk, t)
		}
		if weight := weightOf(names.weights[w]).Traces(); weight > 0 {
			if err := f(t, int(at), int(next), weight); err != nil {
				return err
			}
		}
	}
	return nil
}
