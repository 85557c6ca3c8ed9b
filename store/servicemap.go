package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// Map returns who called whom by calls that started in [from, to); a zero time
// is no bound. Start and End of the answer are these. The busiest come first.
//
// A call is found where caller and callee are stored together: by one write, or
// after small writes were merged. So a trace that came in several large writes
// may lack a call, or show it as one to an untraced peer.
//
// Services and calls that no span shows are added from what agents measured of all requests
// ([Store.WriteMetrics]), and say so: Measured.
func (s *Store) Map(ctx context.Context, from, to time.Time) (r Map, err error) {
	err = s.read(ctx, func(v *view) error {
		m, err := newMatch(Query{Start: from, End: to})
		if err != nil {
			return err
		}
		nodes, err := v.latencies(ctx, m, false)
		if err != nil {
			return err
		}
		edges, err := v.edges(ctx, m)
		if err != nil {
			return err
		}
		r = Map{Start: from, End: to, Nodes: nodes, Edges: edges}
		return v.addRequests(ctx, &r)
	})
	return r, err
}

type edgeKey struct {
	from, to string
	traced   bool
}

// edgeSum is of the calls of an edge, of which some may not be linked to the caller's requests.
type edgeSum struct {
	latency
	linked bool // one at least is
}

func (v *view) edges(ctx context.Context, m *match) ([]Edge, error) {
	all := map[edgeKey]*edgeSum{}
	err := v.each(ctx, m, func(c *chunkData, cols *spanColumns) error {
		if c.zone.edges == 0 {
			return nil
		}
		return c.addEdges(m, cols, all)
	})
	if err != nil {
		return nil, err
	}
	list := make([]Edge, 0, len(all))
	for k, l := range all {
		if l.spans > 0 {
			list = append(list, Edge{
				From: k.from, To: k.to, Traced: k.traced, Unlinked: !l.linked,
				Count: l.spans, Weight: l.durations.total, Errors: l.errors,
				P50: l.quantile(.5), P95: l.quantile(.95), P99: l.quantile(.99),
			})
		}
	}
	slices.SortFunc(list, busiest)
	return list, nil
}

func busiest(a, b Edge) int {
	return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
}

func (c *chunkData) addEdges(m *match, cols *spanColumns, all map[edgeKey]*edgeSum) error {
	names, err := c.dictionary()
	if err != nil {
		return err
	}
	to := make([]*edgeSum, len(names.edges))
	for i, e := range names.edges {
		k := edgeKey{names.services[e.from], e.to, e.traced}
		if all[k] == nil && len(all) >= maxAnswered {
			k = edgeKey{OtherServices, OtherServices, e.traced}
		}
		if all[k] == nil {
			all[k] = &edgeSum{}
		}
		to[i] = all[k]
	}
	edges, spans, err := c.callColumns()
	if err != nil {
		return err
	}
	n, calls := 0, int(c.zone.edges)
	// Calls stand in the order of their traces.
	return c.eachTrace(func(_, first, next int, weight float64) error {
		for ; n < calls && spans.at(n) < uint64(next); n++ {
			e, i := edges.at(n), int(spans.at(n))
			if e >= uint64(len(to)) {
				return corrupt("chunk %d has no edge %d", c.zone.chunk, e)
			}
			if i >= first && m.span(cols, i) { // calls of traces that do not count are in between
				to[e].add(cols.duration.at(i), cols.flags.at(i)&flagError != 0, weight)
				to[e].linked = to[e].linked || !names.edges[e].behind
			}
		}
		return nil
	})
}
