package analysis

import (
	"maps"
	"slices"

	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// byRound is a metric's values in the rounds that count.
type byRound map[int]float64

// values of a metric. An additive metric that none of the runs has is 0 in all
// of them if the variant is untraced and others of the cell have it.
func (b *bunch) values(m record.Metric) byRound {
	v := byRound{}
	for _, r := range b.measured {
		if x, ok := r.Values[m.Key]; ok {
			v[r.Round] = x
		}
	}
	if len(v) == 0 && m.Additive && b.role != Traced && b.p.measured[m.Key] {
		for _, r := range b.measured {
			v[r.Round] = 0
		}
	}
	return v
}

// untraced is the baseline's value in each round: the mean of its two runs, or
// the one that was kept.
func (p *place) untraced(m record.Metric) byRound {
	v, again := p.of(Baseline).values(m), p.of(Again).values(m)
	for round, y := range again {
		if x, ok := v[round]; ok {
			y = x/2 + y/2
		}
		v[round] = y
	}
	return v
}

// comparedAs is how a metric is compared with the baseline in a cell: by ratio
// unless it is additive, or the baseline is 0 somewhere.
func (p *place) comparedAs(m record.Metric) As {
	if m.Additive {
		return Difference
	}
	for _, b := range []*bunch{p.of(Baseline), p.of(Again)} {
		for _, x := range b.values(m) {
			if x <= 0 {
				return Difference
			}
		}
	}
	return Ratio
}

// both are the rounds that both sides have, in order.
func both(x, y byRound) []int {
	var rounds []int
	for r := range x {
		if _, ok := y[r]; ok {
			rounds = append(rounds, r)
		}
	}
	slices.Sort(rounds)
	return rounds
}

// of two values in a round; ok is false for what is no number.
func (a As) of(x, y float64) (v float64, ok bool) {
	if a == Ratio {
		return x / y, y != 0
	}
	return x - y, true
}

// against compares x with y, round by round.
func (a As) against(x, y byRound) byRound {
	v := byRound{}
	for _, r := range both(x, y) {
		if d, ok := a.of(x[r], y[r]); ok {
			v[r] = d
		}
	}
	return v
}

func (v byRound) rounds() []int { return slices.Sorted(maps.Keys(v)) }

// list is the values in the order of the rounds.
func (v byRound) list() []float64 {
	xs := make([]float64, 0, len(v))
	for _, r := range v.rounds() {
		xs = append(xs, v[r])
	}
	return xs
}

func (v byRound) series() []RoundValue {
	s := make([]RoundValue, 0, len(v))
	for _, r := range v.rounds() {
		s = append(s, RoundValue{Round: r, Value: v[r]})
	}
	return s
}

// estimatePairs is stats.RatioInterval or stats.PairedDifference.
func (a As) estimatePairs(x, y byRound) stats.Estimate {
	var xs, ys []float64
	for _, r := range both(x, y) {
		xs, ys = append(xs, x[r]), append(ys, y[r])
	}
	if a == Ratio {
		return stats.RatioInterval(xs, ys)
	}
	return stats.PairedDifference(xs, ys)
}

// control is the baseline's second run against its first.
func (p *place) control(m record.Metric, as As) (stats.Estimate, byRound) {
	x, y := p.of(Again).values(m), p.of(Baseline).values(m)
	return as.estimatePairs(x, y), as.against(x, y)
}

// lacks reports whether the baseline's runs, of which some count, have none of a metric, as of secrets
// that are stored: two variants that have it are compared without a control.
func (p *place) lacks(m record.Metric) bool {
	first, again := p.of(Baseline), p.of(Again)
	return len(first.measured)+len(again.measured) > 0 && len(first.values(m))+len(again.values(m)) == 0
}

// effect compares x with y, and the result with the control.
func (a *grid) effect(p *place, m record.Metric, as As, x, y byRound, against string) *Effect {
	est := as.estimatePairs(x, y)
	control, _ := p.control(m, as)
	none := p.lacks(m)
	if none {
		control = stats.Estimate{Median: as.neutral(), Lo: as.neutral(), Hi: as.neutral(), N: est.N}
	}
	e := &Effect{
		Against:   against,
		As:        as,
		Estimate:  est,
		Verdict:   judge(est, control, as),
		NoControl: none,
		Rounds:    as.against(x, y).series(),
	}
	if as == Difference && relatable(x, y) {
		r := Ratio.estimatePairs(x, y)
		e.Relative = &r
	}
	return e
}

// relatable reports whether a ratio of the two is meaningful.
func relatable(x, y byRound) bool {
	rounds := both(x, y)
	for _, r := range rounds {
		if y[r] <= 0 || x[r] < 0 {
			return false
		}
	}
	return len(rounds) > 0
}

func judge(effect, control stats.Estimate, as As) Verdict {
	return stats.Judge(effect, control, as.neutral())
}

// compareCells makes the table of every cell.
func (a *grid) compareCells() []Cell {
	cells := make([]Cell, 0, len(a.cellNames))
	for _, name := range a.cellNames {
		p := a.places[name]
		c := Cell{Name: name, Workload: p.workload, Load: p.load}
		c.Offered, c.Connections = a.offered(name)
		c.Control = a.controls(p)
		for _, variant := range p.order {
			c.Variants = append(c.Variants, a.variant(p, p.variants[variant]))
		}
		cells = append(cells, c)
	}
	return cells
}

func (a *grid) controls(p *place) []Control {
	out := []Control{}
	for _, m := range record.Metrics {
		as := p.comparedAs(m)
		est, rounds := p.control(m, as)
		if est.N == 0 {
			continue
		}
		out = append(out, Control{
			Metric:   m.Key,
			As:       as,
			Estimate: est,
			Floor:    judge(est, est, as).Floor,
			Rounds:   rounds.series(),
		})
	}
	return out
}

func (a *grid) variant(p *place, b *bunch) Variant {
	v := Variant{Name: b.name, Tracer: b.tracer, Rate: b.rate, Role: b.role, Runs: b.runs, Kept: len(b.measured), Metrics: []Measure{}}
	for _, m := range record.Metrics {
		xs := b.values(m)
		if len(xs) == 0 {
			if apart, from := b.apart(m); len(apart) > 0 {
				v.Metrics = append(v.Metrics, Measure{Metric: m.Key, Value: stats.Interval(apart), From: from})
			}
			continue
		}
		measure := Measure{Metric: m.Key, Value: stats.Interval(xs.list()), From: record.Measured}
		switch b.role {
		case Traced:
			if y := p.untraced(m); len(both(xs, y)) > 0 {
				measure.Effect = a.effect(p, m, p.comparedAs(m), xs, y, a.baseline)
			}
		case Again:
			if y := p.of(Baseline).values(m); len(both(xs, y)) > 0 {
				measure.Effect = a.effect(p, m, p.comparedAs(m), xs, y, a.baseline)
			}
		}
		v.Metrics = append(v.Metrics, measure)
	}
	return v
}

// apart are the values of runs that carry a cost of their own, for metrics that
// no measured run has: they are shown, not compared.
func (b *bunch) apart(m record.Metric) ([]float64, record.Kind) {
	for _, runs := range [][]*record.Run{b.checked, b.profiled} {
		var xs []float64
		for _, r := range runs {
			if x, ok := r.Values[m.Key]; ok {
				xs = append(xs, x)
			}
		}
		if len(xs) > 0 {
			return xs, runs[0].Kind
		}
	}
	return nil, ""
}
