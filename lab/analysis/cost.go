package analysis

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// mostPackages are shown of a profile by package.
const mostPackages = 15

// cpuProfiles sums up the CPU profiles of the profiled runs. The profiler costs
// something itself, in the baseline as well: what was added is a difference
// between profiled runs of one round.
func cpuProfiles(a *grid) []CPUProfile {
	byCategory := func(r *record.Run) []record.Share { return r.Shares }
	byPackage := func(r *record.Run) []record.Share { return r.Packages }
	var out []CPUProfile
	for _, cell := range a.cellNames {
		p := a.places[cell]
		base, basePackages := sharesOf(p.of(Baseline).profiled, byCategory), sharesOf(p.of(Baseline).profiled, byPackage)
		for _, name := range p.order {
			b := p.variants[name]
			shares := sharesOf(b.profiled, byCategory)
			if len(shares.rounds) == 0 {
				continue
			}
			prof := CPUProfile{Cell: cell, Variant: name, N: len(shares.rounds)}
			comparable := b.role == Traced && len(base.rounds) > 0
			if comparable {
				d := Difference.estimatePairs(shares.total(), base.total())
				prof.Added = &d
			}
			prof.Categories = prof.parts(shares, base, comparable)
			prof.Packages = prof.parts(sharesOf(b.profiled, byPackage), basePackages, comparable)
			prof.Packages = prof.Packages[:min(mostPackages, len(prof.Packages))]
			out = append(out, prof)
		}
	}
	return out
}

// parts of a profile, the greatest first.
func (p *CPUProfile) parts(shares, base shareSamples, comparable bool) []CPUCategory {
	names := maps.Clone(shares.micros)
	if comparable {
		// What the baseline spends its time on and the variant does not
		// must not vanish from the difference.
		for name := range base.micros {
			names[name] = shares.of(name)
		}
	}
	var parts []CPUCategory
	for _, name := range slices.Sorted(maps.Keys(names)) {
		xs := shares.of(name)
		c := CPUCategory{Category: name, Value: stats.Interval(xs.list())}
		if comparable {
			d := Difference.estimatePairs(xs, base.of(name))
			c.Added = &d
		}
		parts = append(parts, c)
	}
	p.rank(parts)
	return parts
}

// rank sorts by what was added, or by size, and fills in the shares of what was
// added on the whole.
func (p *CPUProfile) rank(parts []CPUCategory) {
	if all := p.Added; all != nil && all.Lo > 0 {
		for i := range parts {
			if c := &parts[i]; c.Added != nil {
				share := c.Added.Median / all.Median
				c.Share = &share
			}
		}
	}
	weight := func(c CPUCategory) float64 {
		if c.Added != nil {
			return c.Added.Median
		}
		return c.Value.Median
	}
	slices.SortStableFunc(parts, func(x, y CPUCategory) int {
		return cmp.Or(cmp.Compare(weight(y), weight(x)), strings.Compare(x.Category, y.Category))
	})
}

// shareSamples are µs/request by category (or package) and round.
type shareSamples struct {
	rounds []int
	micros map[string]byRound
}

func sharesOf(runs []*record.Run, of func(*record.Run) []record.Share) shareSamples {
	s := shareSamples{micros: map[string]byRound{}}
	for _, r := range runs {
		if len(of(r)) == 0 {
			continue
		}
		s.rounds = append(s.rounds, r.Round)
		for _, share := range of(r) {
			if s.micros[share.Category] == nil {
				s.micros[share.Category] = byRound{}
			}
			s.micros[share.Category][r.Round] += share.Micros
		}
	}
	return s
}

// of a category: where a profile lacks it, it took no time that could be seen.
func (s shareSamples) of(category string) byRound {
	v := byRound{}
	for _, round := range s.rounds {
		v[round] = s.micros[category][round]
	}
	return v
}

// total of all categories.
func (s shareSamples) total() byRound {
	v := byRound{}
	for _, round := range s.rounds {
		for _, category := range slices.Sorted(maps.Keys(s.micros)) { // in order: sums of floats are not associative
			v[round] += s.micros[category][round]
		}
	}
	return v
}

// programCosts are the kernel programs' own times, of all runs in which the
// kernel kept them.
func programCosts(a *grid) []ProgramCost {
	var out []ProgramCost
	for _, cell := range a.cellNames {
		p := a.places[cell]
		for _, name := range p.order {
			b := p.variants[name]
			ns, runs := map[string][]float64{}, map[string][]float64{}
			for _, of := range [][]*record.Run{b.measured, b.profiled, b.checked} {
				for _, r := range of {
					for _, prog := range r.Programs {
						if prog.Runs == 0 {
							continue // no time per run
						}
						ns[prog.Name] = append(ns[prog.Name], prog.NsPerRun)
						if r.Requests > 0 {
							runs[prog.Name] = append(runs[prog.Name], float64(prog.Runs)/float64(r.Requests))
						}
					}
				}
			}
			for _, prog := range slices.Sorted(maps.Keys(ns)) {
				out = append(out, ProgramCost{
					Cell: cell, Variant: name, Tracer: b.tracer, Rate: b.rate, Program: prog,
					NsPerRun:       stats.Interval(ns[prog]),
					RunsPerRequest: stats.Interval(runs[prog]),
				})
			}
		}
	}
	return out
}

// own is what the laboratory itself cost, over all measured runs that count.
func own(a *grid) Own {
	var o Own
	over := func(key string) *stats.Estimate {
		var xs []float64
		for i := range a.runs {
			r := &a.runs[i]
			if x, ok := r.Values[key]; ok && a.kept[i] && r.Kind == record.Measured {
				xs = append(xs, x)
			}
		}
		if len(xs) == 0 {
			return nil
		}
		e := stats.Interval(xs)
		return &e
	}
	o.MeterCores, o.GeneratorLagP99 = over(record.CoresMeter), over(record.GeneratorLagP99)
	for i := range a.runs {
		if a.kept[i] && len(a.runs[i].Limits) > 0 {
			o.Limited++
		}
	}
	return o
}
