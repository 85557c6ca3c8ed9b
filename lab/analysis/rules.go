package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// minSpread is the least number of runs whose median can call one of them an
// outlier.
const minSpread = 3

// rule judges a single run.
type rule struct {
	Rule
	// applies says whether the rule is meant for the run.
	applies func(r *record.Run) bool
	// judge returns the value that the rule looks at, whether the run has it,
	// and whether it is beyond the limit.
	judge  func(r *record.Run) (value float64, has, out bool)
	reason func(r *record.Run, value float64) string
}

// rulesOf lists the rules that judge single runs, in the order in which they
// are applied. The spread comes after them, since it is judged among the runs
// that these have kept.
func rulesOf(e *experiment.Experiment, cpus int) []rule {
	loads := map[string]experiment.Load{}
	for _, l := range e.Loads {
		loads[l.Name] = l
	}
	fails := map[string]float64{} // on purpose, by workload
	for i := range e.Workloads {
		fails[e.Workloads[i].Name] = e.Workloads[i].Fails
	}
	q := e.Rules
	every := func(*record.Run) bool { return true }
	timed := func(r *record.Run) bool { return r.Kind != record.Checked }
	// In a closed loop the answers to many requests arrive together; the time
	// by which the generator is then late with the next requests is part of no
	// latency.
	own := func(r *record.Run) bool { return timed(r) && loads[r.Load].Rate > 0 }
	return []rule{
		{
			Rule:    Rule{Name: "failed", About: "runs that did not come to their end, or ran something else than they were asked to"},
			applies: every,
			judge:   func(r *record.Run) (float64, bool, bool) { return 0, true, r.Failed != "" },
			reason:  func(r *record.Run, _ float64) string { return r.Failed },
		},
		{
			Rule:    Rule{Name: "max_error_share", About: "failed requests of all, beyond those that the workload fails on purpose", Limit: q.ErrorShare, Unit: "share"},
			applies: every,
			judge: func(r *record.Run) (float64, bool, bool) {
				v, ok := r.Values[record.ErrorShare]
				v = max(0, v-fails[r.Workload])
				return v, ok, v > q.ErrorShare
			},
			reason: func(r *record.Run, v float64) string {
				if on := fails[r.Workload]; on > 0 {
					return fmt.Sprintf("%.3g%% of the requests failed beyond the %.3g%% that fail on purpose", 100*v, 100*on)
				}
				return fmt.Sprintf("%.3g%% of the requests failed", 100*v)
			},
		},
		{
			Rule:    Rule{Name: "min_achieved", About: "throughput of the offered load, less what fails on purpose, where the loop is open", Limit: q.Achieved, Unit: "share"},
			applies: func(r *record.Run) bool { return timed(r) && loads[r.Load].Rate > 0 },
			judge: func(r *record.Run) (float64, bool, bool) {
				got, ok := r.Values[record.Throughput]
				offered, has := r.Values[record.Offered]
				offered *= 1 - fails[r.Workload]
				if !ok || !has || offered <= 0 {
					return 0, false, false
				}
				return got / offered, true, got/offered < q.Achieved
			},
			reason: func(_ *record.Run, v float64) string {
				return fmt.Sprintf("%.1f%% of the offered load was answered", 100*v)
			},
		},
		{
			Rule:    Rule{Name: "max_generator_lag_p99", About: "p99 of what the load generator itself was late, where the loop is open", Limit: milliseconds(q.GeneratorLag), Unit: "ms"},
			applies: own,
			judge: func(r *record.Run) (float64, bool, bool) {
				v, ok := r.Values[record.GeneratorLagP99]
				return v, ok, v > milliseconds(q.GeneratorLag)
			},
			reason: func(_ *record.Run, v float64) string { return fmt.Sprintf("the generator was %.3g ms late (p99)", v) },
		},
		{
			Rule:    Rule{Name: "min_answers", About: "answers within the window", Limit: float64(q.Answers), Unit: "answers"},
			applies: timed,
			judge: func(r *record.Run) (float64, bool, bool) {
				return float64(r.Answers), true, r.Answers < q.Answers
			},
			reason: func(_ *record.Run, v float64) string { return fmt.Sprintf("%.0f answers within the window", v) },
		},
		{
			Rule: Rule{Name: "max_sampling_error", About: "sampled share against the one that the running tracer says it has, or that it counts where its rate changes, beyond what spans that it says it dropped explain",
				Limit: q.Sampled, Unit: "standard deviations"},
			applies: func(r *record.Run) bool {
				_, _, ok := shareDue(r)
				return ok && r.Kind != record.Profiled
			},
			judge: func(r *record.Run) (float64, bool, bool) {
				v, ok := samplingError(r)
				return v, ok, v > q.Sampled
			},
			reason: func(r *record.Run, v float64) string {
				due, counted, _ := shareDue(r)
				if counted {
					return fmt.Sprintf("traces of %.5g of the requests arrived, and the sampler decided to sample %.5g of them", r.Values[record.SampledShare], due)
				}
				return fmt.Sprintf("sampled %.5g of the requests, not %.5g: %.1f standard deviations off", r.Values[record.SampledShare], due, v)
			},
		},
		{
			Rule:    Rule{Name: "max_count_difference", About: "requests per second that the service counted against those that the load generator saw end, where the service tells", Limit: q.Counted, Unit: "share"},
			applies: func(r *record.Run) bool { _, ok := r.Values[record.ServerThroughput]; return ok },
			judge: func(r *record.Run) (float64, bool, bool) {
				good, ok := r.Values[record.Throughput]
				// The service counts requests of any status, throughput those answered well.
				ended := good / (1 - r.Values[record.ErrorShare])
				if !ok || !(ended > 0) {
					return 0, false, false
				}
				v := math.Abs(r.Values[record.ServerThroughput]/ended - 1)
				return v, true, v > q.Counted
			},
			reason: func(r *record.Run, v float64) string {
				return fmt.Sprintf("the service counted %.5g requests/s, %.2g%% off what the load generator saw", r.Values[record.ServerThroughput], 100*v)
			},
		},
		{
			Rule:    Rule{Name: "max_stolen", About: "CPU time that the hypervisor took, of the window's on all CPUs", Limit: q.Stolen, Unit: "share"},
			applies: func(r *record.Run) bool { return r.Kind == record.Measured },
			judge: func(r *record.Run) (float64, bool, bool) {
				cores, ok := r.Values[record.Stolen]
				if !ok || cpus < 1 {
					return 0, false, false
				}
				v := cores / float64(cpus)
				return v, true, v > q.Stolen
			},
			reason: func(_ *record.Run, v float64) string {
				return fmt.Sprintf("the hypervisor took %.2g%% of the CPU time", 100*v)
			},
		},
	}
}

// shareDue is the share of the requests of which traces must arrive: what the
// sampler counted, or else what is configured.
func shareDue(r *record.Run) (share float64, counted, ok bool) {
	if share, ok = r.Values[record.SampledDecided]; ok {
		return share, true, true
	}
	share, ok = r.Values[record.SampledAsked]
	return share, false, ok
}

// samplingError is how far the observed share is from the one that is due, in
// binomial standard deviations of as many decisions as there were answers (in
// the whole run, as the share is of that). At 0 and 1 a deviation has no width,
// nor where the sampler counted its decisions, and the window's edges may still
// cut off a trace: there the width is that of a share of one in n. Spans that
// the tracer counted as dropped are no error of its sampler: only what is missing
// beyond them counts.
func samplingError(r *record.Run) (float64, bool) {
	seen, ok := r.Values[record.SampledShare]
	asked, counted, _ := shareDue(r)
	n := float64(r.Answers)
	switch {
	case counted && r.Requests > 0: // those that failed were decided about, too
		n = float64(r.Requests)
	case r.Requests > r.Failures:
		n = float64(r.Requests - r.Failures)
	}
	if !ok || n < 1 {
		return 0, false
	}
	off := math.Abs(seen - asked)
	if seen < asked {
		off -= r.Values[record.SpansDropped] / n
	}
	off = max(0, off-1/n)
	p := min(max(asked, 1/n), 1-1/n)
	if counted {
		p = 1 / n
	}
	if p <= 0 || p >= 1 { // a single answer
		return 0, false
	}
	return off / math.Sqrt(p*(1-p)/n), true
}

// applyRules returns which runs are kept, by index.
func applyRules(m *record.Manifest, runs []record.Run) ([]bool, []Rule, Runs) {
	kept := make([]bool, len(runs))
	for i := range kept {
		kept[i] = true
	}
	e := m.Experiment
	var out []Rule
	for _, q := range rulesOf(e, m.Machine.CPUs) {
		on := q.Name == "failed" || q.Limit > 0
		for i := range runs {
			r := &runs[i]
			// A failed run is listed once, not by whatever else is wrong with it.
			if !on || !kept[i] || !q.applies(r) {
				continue
			}
			v, has, beyond := q.judge(r)
			switch {
			case !has:
				q.Unjudged++
			case beyond:
				kept[i] = false
				q.Excluded = append(q.Excluded, Exclusion{Run: r.ID, Value: v, Reason: q.reason(r, v)})
			}
		}
		out = append(out, q.Rule)
	}
	out = append(out, spread(e, runs, kept))
	for _, q := range out {
		slices.SortFunc(q.Excluded, func(x, y Exclusion) int { return strings.Compare(x.Run, y.Run) })
	}
	return kept, out, count(runs, kept)
}

// spread excludes measured runs whose first metric is far from the median of
// their cell and variant. All of a group are judged by the one median, so the
// order of the runs does not matter.
func spread(e *experiment.Experiment, runs []record.Run, kept []bool) Rule {
	q := Rule{Name: "max_spread", About: "distance from the median of the variant, of it", Limit: e.Rules.Spread, Unit: "share"}
	if len(e.Metrics) == 0 || q.Limit <= 0 {
		return q
	}
	key := e.Metrics[0]
	if m, ok := record.MetricOf(key); ok {
		q.About = fmt.Sprintf("distance of the %s from the median of the variant, of it", m.Name)
	}
	type group struct{ cell, variant string }
	values := map[group][]float64{}
	for i := range runs {
		r := &runs[i]
		if !kept[i] || r.Kind != record.Measured {
			continue
		}
		if v, ok := r.Values[key]; ok {
			g := group{r.Cell, r.Variant}
			values[g] = append(values[g], v)
		} else {
			q.Unjudged++
		}
	}
	for i := range runs {
		r := &runs[i]
		v, ok := r.Values[key]
		of := values[group{r.Cell, r.Variant}]
		if !kept[i] || r.Kind != record.Measured || !ok || len(of) < minSpread {
			continue
		}
		median := stats.Median(of)
		if median == 0 {
			continue
		}
		if off := math.Abs(v/median - 1); off > q.Limit {
			kept[i] = false
			q.Excluded = append(q.Excluded, Exclusion{Run: r.ID, Value: off,
				Reason: fmt.Sprintf("%.4g where the median is %.4g: %.0f%% off", v, median, 100*off)})
		}
	}
	return q
}

func count(runs []record.Run, kept []bool) Runs {
	var c Runs
	for i := range runs {
		all, left := &c.Measured, &c.MeasuredKept
		switch runs[i].Kind {
		case record.Profiled:
			all, left = &c.Profiled, &c.ProfiledKept
		case record.Checked:
			all, left = &c.Checked, &c.CheckedKept
		}
		*all++
		if kept[i] {
			*left++
		}
	}
	return c
}
