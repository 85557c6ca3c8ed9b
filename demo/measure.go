package demo

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/tare-trace/tare/lab/bench"
	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// variant is what a window measures. The two untraced ones are the same: their
// difference is the noise of the machine.
type variant int

const (
	untracedA variant = iota
	untracedB
	traced
	variants
)

func (v variant) String() string {
	return [variants]string{"untraced", "untraced again", "traced"}[v]
}

func windowName(round, rounds int, v variant) string {
	return fmt.Sprintf("round %d/%d: %s", round+1, rounds, v)
}

// sample is what one window found.
type sample struct {
	rps    float64
	cpu    float64 // µs of whole-machine CPU per request
	failed uint64

	// Of the agent, in traced windows.
	cores     float64
	rss, peak float64 // MiB
}

// cost is the samples of all rounds, by variant.
type cost [variants][]sample

const trialStep = "trying the agent"

// try traces a few requests: whether the agent works here is known before untraced
// rounds are measured in vain.
func (st *stage) try(ctx context.Context) error {
	st.progress.Begin(trialStep)
	j := st.job(record.Checked, true)
	j.Requests = 20
	if err := st.lab.Run(ctx, j, &record.Run{ID: "trial"}); err != nil {
		return fmt.Errorf("nothing was measured, since the agent does not work here: %w", err)
	}
	return nil
}

// measure runs the rounds: each variant once, in random order.
func (st *stage) measure(ctx context.Context) (*cost, error) {
	rng := rand.New(rand.NewPCG(st.opts.Seed, 1)) //nolint:gosec // an order, not a secret
	var c cost
	for round := range st.opts.Rounds {
		for _, i := range rng.Perm(int(variants)) {
			v := variant(i)
			st.progress.Begin(windowName(round, st.opts.Rounds, v))
			s, err := st.window(ctx, v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", windowName(round, st.opts.Rounds, v), err)
			}
			c[v] = append(c[v], s)
		}
	}
	return &c, nil
}

// window measures one variant with the laboratory's means: the chain is started
// for it, and the agent beside it if it is the traced one.
func (st *stage) window(ctx context.Context, v variant) (sample, error) {
	j := st.job(record.Measured, v == traced)
	j.Warmup, j.Window = st.opts.Warmup, st.opts.Window
	var rec record.Run
	if err := st.lab.Run(ctx, j, &rec); err != nil {
		return sample{}, err
	}
	return sampleOf(&rec), nil
}

func sampleOf(r *record.Run) sample {
	return sample{
		rps: r.Values[record.Throughput], cpu: r.Values[record.CPUMachine], failed: r.Failures,
		cores: r.Values[record.CoresTracer], rss: r.Values[record.MemTracer], peak: r.Values[record.MemTracerPeak],
	}
}

// job is a run of the chain, saturated by its connections.
func (st *stage) job(kind record.Kind, traced bool) bench.Job {
	tracer := &experiment.Tracer{Name: "none", Driver: "none"}
	if traced {
		tracer = &experiment.Tracer{Name: "tare", Driver: "tare", Rates: []float64{st.opts.Sample}}
	}
	return bench.Job{
		Kind:      kind,
		MoreRoots: true,
		Workload:  &experiment.Workload{Name: st.opts.Chain, Kind: st.opts.Chain},
		Load:      experiment.Load{Name: "closed", Connections: st.opts.Concurrency},
		Variant:   experiment.Variant{Name: tracer.Name, Tracer: tracer, Rate: st.opts.Sample},
	}
}

func column(samples []sample, f func(sample) float64) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = f(s)
	}
	return out
}

func means(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = (a[i] + b[i]) / 2
	}
	return out
}

// into fills in the result. The traced window of a round is compared with
// the mean of the round's two untraced ones.
func (c *cost) into(r *Result) {
	rps := func(s sample) float64 { return s.rps }
	cpu := func(s sample) float64 { return s.cpu }
	col := func(v variant, f func(sample) float64) []float64 { return column(c[v], f) }

	baseRPS := means(col(untracedA, rps), col(untracedB, rps))
	baseCPU := means(col(untracedA, cpu), col(untracedB, cpu))
	r.RPS, r.CPU = stats.Median(col(traced, rps)), stats.Median(col(traced, cpu))
	r.Baseline = Rate{RPS: stats.Median(baseRPS), CPU: stats.Median(baseCPU)}
	r.Ratio = Ratios{
		RPS: stats.RatioInterval(col(traced, rps), baseRPS),
		CPU: stats.RatioInterval(col(traced, cpu), baseCPU),
	}
	r.Control = Ratios{
		RPS: stats.RatioInterval(col(untracedB, rps), col(untracedA, rps)),
		CPU: stats.RatioInterval(col(untracedB, cpu), col(untracedA, cpu)),
	}
	r.Agent.Cores = stats.Median(col(traced, func(s sample) float64 { return s.cores }))
	for v := range c {
		for _, s := range c[v] {
			r.Agent.RSS = max(r.Agent.RSS, s.rss)
			r.Agent.PeakRSS = max(r.Agent.PeakRSS, s.peak)
			r.WindowFailed += s.failed
		}
	}
	if r.WindowFailed > 0 {
		r.warn("%d requests failed within the measured rounds", r.WindowFailed)
	}
}
