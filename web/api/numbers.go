package api

import (
	"math"
	"net/http"
	"time"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/internal/answer"
)

// lastHour is the default time range of map and latencies.
const lastHour = time.Hour

// calls are the numbers of a node or an edge of the map. Requests, errors and rates are
// estimates, weighted by sampling probability.
type calls struct {
	Requests  float64 `json:"requests"`
	Rate      float64 `json:"rate"` // per second
	Errors    float64 `json:"errors"`
	ErrorRate float64 `json:"error_rate"` // share of the requests
	P50       *int64  `json:"p50_ns"`     // null: not known
	P95       *int64  `json:"p95_ns"`
	P99       *int64  `json:"p99_ns"`
}

type node struct {
	Name   string `json:"name"`
	Traced bool   `json:"traced"`
	// Measured: no span shows it; agents measured all its requests.
	Measured bool `json:"measured"`
	calls
}

type edge struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Traced   bool   `json:"traced"`
	Unlinked bool   `json:"unlinked"` // the caller's calls are not linked to its requests
	Measured bool   `json:"measured"` // no span shows them; agents measured all of them
	calls
	Spans uint64 `json:"spans"`
}

type serviceMap struct {
	Nodes []node
	Edges []edge
}

func (a *api) serviceMap(r *http.Request) (any, error) {
	now := time.Now()
	p := newParams(r)
	from, to := numbersRange(p, now)
	if err := p.done(); err != nil {
		return nil, err
	}
	m, err := a.Store.Map(r.Context(), from, to)
	if err != nil {
		return nil, err
	}
	measured := 0.0
	if !m.MeasuredSince.IsZero() {
		measured = seconds(from, to, now, m.MeasuredSince)
	}
	drawn := drawMap(m, a.covered(from, to, now), measured)
	nodes, left, err := answer.Fit(drawn.Nodes)
	if err != nil {
		return nil, err
	}
	edges, leftEdges, err := answer.Fit(drawn.Edges)
	return map[string]any{"nodes": nodes, "edges": edges, "left_out": left + leftEdges}, err
}

// drawMap adds nodes that the store's map only implies: callees that sent no spans, and
// callers that no traced service called. Spans, and what was measured, cover so many seconds.
func drawMap(m store.Map, spans, measured float64) serviceMap {
	seconds := func(isMeasured bool) float64 {
		if isMeasured {
			return measured
		}
		return spans
	}
	out := serviceMap{Nodes: make([]node, 0, len(m.Nodes)), Edges: make([]edge, 0, len(m.Edges))}
	at := map[string]int{}
	for _, n := range m.Nodes {
		at[n.Service] = len(out.Nodes)
		out.Nodes = append(out.Nodes, node{n.Service, true, n.Measured, number(n.Weight, n.Errors, seconds(n.Measured), n.P50, n.P95, n.P99)})
	}
	implied := map[string]int{} // edges towards a node that is added here
	for _, e := range m.Edges {
		c := number(e.Weight, e.Errors, seconds(e.Measured), e.P50, e.P95, e.P99)
		out.Edges = append(out.Edges, edge{e.From, e.To, e.Traced, e.Unlinked, e.Measured, c, e.Count})
		if _, ok := at[e.From]; !ok {
			at[e.From] = len(out.Nodes)
			out.Nodes = append(out.Nodes, node{Name: e.From, Traced: true, Measured: e.Measured})
		}
		i, ok := at[e.To]
		if !ok {
			i = len(out.Nodes)
			at[e.To] = i
			out.Nodes = append(out.Nodes, node{Name: e.To, Traced: e.Traced, Measured: e.Measured, calls: c})
			implied[e.To] = 1
			continue
		}
		if implied[e.To] == 0 {
			continue
		}
		// With several callers, counts can be added but quantiles cannot.
		implied[e.To]++
		n := &out.Nodes[i]
		n.Traced = n.Traced || e.Traced
		n.Measured = n.Measured && e.Measured
		n.Requests += c.Requests
		n.Rate += c.Rate
		n.Errors += c.Errors
		n.ErrorRate = share(n.Errors, n.Requests)
		n.P50, n.P95, n.P99 = nil, nil, nil
	}
	return out
}

func number(requests, errors, seconds float64, p50, p95, p99 time.Duration) calls {
	requests, errors = finite(requests), finite(errors)
	c := calls{Requests: requests, Errors: errors, ErrorRate: share(errors, requests)}
	if seconds > 0 {
		c.Rate = requests / seconds
	}
	for to, d := range map[**int64]time.Duration{&c.P50: p50, &c.P95: p95, &c.P99: p99} {
		ns := int64(d)
		*to = &ns
	}
	return c
}

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// finite replaces NaN and infinities, which JSON cannot represent, by 0.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// numbersRange is the requested range, else the last hour.
func numbersRange(p *params, now time.Time) (from, to time.Time) {
	from, to = p.timeRange(now)
	if to.IsZero() {
		to = now.Add(time.Millisecond)
	}
	if from.IsZero() {
		from = to.Add(-lastHour)
	}
	if p.err == nil && !from.Before(to) {
		p.fail("start", from.Format(time.RFC3339Nano), "a time before end, and before now")
	}
	return from, to
}

// covered returns how many seconds of the range can have spans: from the oldest stored
// span until now. Otherwise rates would be too low.
func (a *api) covered(from, to, now time.Time) float64 {
	return seconds(from, to, now, a.Store.Stats().Oldest)
}

// seconds of the range from the oldest on, until now.
func seconds(from, to, now, oldest time.Time) float64 {
	if oldest.After(from) {
		from = oldest
	}
	if to.After(now) {
		to = now
	}
	return max(to.Sub(from).Seconds(), 0)
}

type latency struct {
	Service   string  `json:"service"`
	Operation string  `json:"operation"`
	Kind      string  `json:"kind"`
	Spans     uint64  `json:"spans"`
	Requests  float64 `json:"requests"`
	Errors    float64 `json:"errors"`
	P50       int64   `json:"p50_ns"`
	P95       int64   `json:"p95_ns"`
	P99       int64   `json:"p99_ns"`
	Max       int64   `json:"max_ns"`
}

func (a *api) latencies(r *http.Request) (any, error) {
	p := newParams(r)
	name := p.text("service")
	by := p.among("by", "operation")
	from, to := numbersRange(p, time.Now())
	if err := p.done(); err != nil {
		return nil, err
	}
	found, err := a.Store.Latencies(r.Context(), from, to, name, by == "operation")
	if err != nil {
		return nil, err
	}
	out := make([]latency, 0, len(found))
	for _, l := range found {
		kind := ""
		if l.Operation != "" || l.Kind != 0 {
			kind = kindName(l.Kind)
		}
		out = append(out, latency{l.Service, l.Operation, kind, l.Count, finite(l.Weight), finite(l.Errors),
			int64(l.P50), int64(l.P95), int64(l.P99), int64(l.Max)})
	}
	return listed("latencies", out)
}
