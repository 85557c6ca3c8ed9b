package rootcause

import (
	"cmp"
	"slices"
)

// Share is the default for which traces are slow: the slowest 2%, as in ChainScope 5.3.
const Share = 0.02

// MaxShare is the most: beyond it slow traces would be normal ones.
const MaxShare = 1 - normalTo

const (
	// minSlow is the least number of slow traces, as of samples in the laboratory
	// (lab/stats).
	minSlow    = 6
	maxEntries = 20
	maxRows    = 50 // of operations, and of services
	maxTails   = 30
	minTail    = 100 // spans, for a 99th percentile
	examples   = 3
	minShown   = 0.05 // share that a row explains, to have examples
)

// Diagnose compares the slowest share of the traces, above 0 to MaxShare, with the normal
// ones, for each entry operation.
func (s *Set) Diagnose(share float64) Diagnosis {
	d := Diagnosis{Share: share, Traces: len(s.traces) + s.without, NoRoot: s.without, Large: s.large, Retro: s.retro, More: s.more, Entries: []Entry{}}
	groups := map[place][]*observation{}
	for i := range s.traces {
		o := &s.traces[i]
		at := s.places.name(o.entry)
		groups[at] = append(groups[at], o)
	}
	type group struct {
		place
		traces   []*observation
		requests float64
	}
	var list []group
	for at, traces := range groups {
		g := group{place: at, traces: traces}
		for _, o := range traces {
			g.requests += o.weight
		}
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), cmp.Compare(a.service, b.service), cmp.Compare(a.operation, b.operation))
	})
	for _, g := range list[:min(len(list), maxEntries)] {
		d.Entries = append(d.Entries, s.entry(g.place, g.traces, share))
	}
	d.Others = len(list) - len(d.Entries)
	return d
}

// columns gives the places of traces numbers from 0, as they are shown.
type columns struct {
	places  []place
	of      map[place]int32
	service bool // one for all operations of a service
}

func (c *columns) column(p place) int32 {
	if c.service {
		p.operation = ""
	}
	n, ok := c.of[p]
	if !ok {
		n = int32(len(c.places))
		c.of[p] = n
		c.places = append(c.places, p)
	}
	return n
}

// entry diagnoses the traces of one entry operation.
func (s *Set) entry(at place, all []*observation, share float64) Entry {
	e := Entry{Service: at.service, Operation: at.operation, Operations: []Row{}, Services: []Row{}, Tails: []Tail{}, Examples: []string{},
		Verdict: Verdict{Causes: []Row{}, Notes: []string{}}}
	slices.SortFunc(all, func(a, b *observation) int {
		return cmp.Or(cmp.Compare(b.duration, a.duration), slices.Compare(a.id[:], b.id[:]))
	})
	whole := make([]*observation, 0, len(all))
	for _, o := range all {
		if o.whole {
			whole = append(whole, o)
			e.Requests += o.weight
		}
	}
	e.Traces, e.Incomplete = len(whole), len(all)-len(whole)
	m := measure(whole, share)
	e.Slow, e.Normal = m.slow, m.normal
	b := judge{share: share, all: all, whole: whole, m: m, entry: &e}
	if b.tooFew() {
		return e
	}
	operations := s.rank(m, share, false)
	services := s.rank(m, share, true)
	e.Operations, e.Rest = operations.rows, operations.rest
	e.Services = services.rows
	e.Tails = s.tails(whole, operations)
	for _, o := range nearest(whole, m) {
		e.Examples = append(e.Examples, o.id.String())
	}
	b.decide(operations, services)
	return e
}

// measured is which traces are slow and which are normal.
type measured struct {
	traces       []*observation // from the slowest
	slow, normal Part
	effective    float64 // slow traces, if all had the same weight
	total        float64 // weight
}

func measure(traces []*observation, share float64) measured {
	m := measured{traces: traces}
	for _, o := range traces {
		m.total += o.weight
	}
	at, squares, weights := 0.0, 0.0, 0.0
	slowTo, from, to := share*m.total, (1-normalTo)*m.total, (1-normalFrom)*m.total
	add := func(p *Part, d, part float64) {
		if p.Traces == 0 {
			p.To = d
		}
		p.Traces++
		p.From = d
		p.Mean += d * part
	}
	for _, o := range traces {
		end := at + o.weight
		if part := min(end, slowTo) - at; part > slowTo*1e-9 {
			add(&m.slow, o.duration, part/slowTo)
			weights += part
			squares += part * part
		}
		if part := min(end, to) - max(at, from); part > to*1e-9 {
			add(&m.normal, o.duration, part/(to-from))
		}
		at = end
	}
	if squares > 0 {
		m.effective = weights * weights / squares
	}
	return m
}

// ranking is the comparison by operation, or by service.
type ranking struct {
	*compared
	rows   []Row
	order  []int32 // column of each row
	others []int32 // columns beyond the rows
	of     map[place]int32
	rest   float64
	total  float64 // excess
}

// rank compares slow and normal traces by place.
func (s *Set) rank(m measured, share float64, service bool) *ranking {
	col := columns{of: map[place]int32{}, service: service}
	named := make([]int32, len(s.places.all)) // column + 1 of a place
	t := &table{share: share}
	extra := &table{share: share} // what is only estimated: time with children, spans
	unlinked := map[int32]bool{}
	slowest := map[int32][]*observation{}
	for i, o := range m.traces {
		byColumn := map[int32]charge{}
		for _, c := range o.charges {
			if named[c.place] == 0 {
				named[c.place] = col.column(s.places.name(c.place)) + 1
			}
			n := named[c.place] - 1
			sum := byColumn[n]
			sum.self += c.self
			sum.within += c.within
			sum.spans += c.spans
			byColumn[n] = sum
			unlinked[n] = unlinked[n] || c.unlinked
		}
		row := make([]amount, 0, len(byColumn))
		more := make([]amount, 0, 2*len(byColumn))
		for n, c := range byColumn {
			row = append(row, amount{n, c.self})
			more = append(more, amount{2 * n, c.within}, amount{2*n + 1, float64(c.spans)})
			if i < m.slow.Traces && c.self > 0 {
				slowest[n] = append(slowest[n], o)
			}
		}
		slices.SortFunc(row, func(a, b amount) int { return cmp.Compare(a.column, b.column) })
		t.rows, extra.rows = append(t.rows, row), append(extra.rows, more)
		t.weights = append(t.weights, o.weight)
	}
	t.columns = len(col.places)
	within, withinNormal := make([]float64, 2*t.columns), make([]float64, 2*t.columns)
	extra.means(t.weights, within, withinNormal)
	r := &ranking{compared: t.compare(m.effective), of: col.of}
	r.total = sum(r.excess)
	for n := range col.places {
		r.order = append(r.order, int32(n))
	}
	slices.SortFunc(r.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(r.excess[b], r.excess[a]), cmp.Compare(a, b))
	})
	if len(r.order) > maxRows {
		r.order, r.others = r.order[:maxRows], r.order[maxRows:]
	}
	for _, n := range r.others {
		r.rest += ratio(r.excess[n], r.total)
	}
	for _, n := range r.order {
		p := col.places[n]
		row := Row{Kind: p.kind, Service: p.service, From: p.from, Operation: p.operation,
			Explains: r.interval(func(x []float64) float64 { return ratio(x[n], sum(x)) }),
			Excess:   r.interval(func(x []float64) float64 { return x[n] }),
			Normal:   r.normal[n], Slow: r.slow[n],
			Waits:       within[2*n] - withinNormal[2*n] - r.excess[n],
			SpansNormal: withinNormal[2*n+1], SpansSlow: within[2*n+1], Unlinked: unlinked[n]}
		if service || p.kind != Own {
			// Operations of one service that call each other would count twice; and what a
			// connection waits for is its callee.
			row.Waits = 0
		}
		self := func(o *observation) (ns float64) {
			for _, c := range o.charges {
				if named[c.place]-1 == n {
					ns += c.self
				}
			}
			return ns
		}
		if row.Explains.Value >= minShown {
			slices.SortStableFunc(slowest[n], func(a, b *observation) int { return cmp.Compare(self(b), self(a)) })
			for _, o := range slowest[n][:min(examples, len(slowest[n]))] {
				row.Examples = append(row.Examples, o.id.String())
			}
		}
		r.rows = append(r.rows, row)
	}
	return r
}

// ratio is a / b, 0 if b is not positive: then slow traces are not slower.
func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// nearest is the traces around the median.
func nearest(traces []*observation, m measured) []*observation {
	at := 0.0
	for i, o := range traces {
		if at += o.weight; at >= m.total/2 {
			from := max(0, i-examples/2)
			return traces[from:min(len(traces), from+examples)]
		}
	}
	return nil
}

// tails is how long the spans of each operation took themselves, the heaviest tails first.
func (s *Set) tails(traces []*observation, r *ranking) []Tail {
	type value struct{ self, weight float64 }
	spans := map[place][]value{}
	named := map[int32]place{}
	for _, o := range traces {
		for _, x := range o.spans {
			p, ok := named[x.place]
			if !ok {
				p = s.places.name(x.place)
				named[x.place] = p
			}
			spans[p] = append(spans[p], value{x.self, o.weight})
		}
	}
	var out []Tail
	for p, values := range spans {
		if len(values) < minTail {
			continue
		}
		slices.SortFunc(values, func(a, b value) int { return cmp.Compare(a.self, b.self) })
		total, spent := 0.0, 0.0
		for _, v := range values {
			total += v.weight
			spent += v.weight * v.self
		}
		t := Tail{Kind: p.kind, Service: p.service, From: p.from, Operation: p.operation, Spans: len(values)}
		at, slowest := 0.0, 0.0
		for _, v := range values {
			before := at
			at += v.weight
			if before < total/2 {
				t.P50 = v.self
			}
			if before < 0.99*total {
				t.P99 = v.self
			}
			if part := at - max(before, 0.99*total); part > 0 {
				slowest += part * v.self
			}
		}
		t.Ratio, t.Share = ratio(t.P99, t.P50), ratio(slowest, spent)
		if n, ok := r.of[p]; ok {
			t.Explains = ratio(r.excess[n], r.total)
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Tail) int {
		return cmp.Or(cmp.Compare(b.Ratio, a.Ratio), cmp.Compare(b.P99, a.P99),
			cmp.Compare(a.Service, b.Service), cmp.Compare(a.From, b.From), cmp.Compare(a.Operation, b.Operation))
	})
	return append([]Tail{}, out[:min(len(out), maxTails)]...)
}
