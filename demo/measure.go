package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/lab/meter"
	"github.com/tare-trace/tare/lab/stats"
)

// variant is what a window measures. The two untraced ones are the same: what
// they differ by is what the machine does to a comparison.
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

// measure runs the rounds: each variant once, in random order.
func (st *stage) measure(ctx context.Context) (*cost, error) {
	rng := rand.New(rand.NewPCG(st.opts.Seed, 1)) //nolint:gosec // an order, not a secret
	var c cost
	st.sink.keep(false)
	for round := range st.opts.Rounds {
		for _, i := range rng.Perm(int(variants)) {
			v := variant(i)
			st.progress.begin(windowName(round, st.opts.Rounds, v))
			s, err := st.window(ctx, v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", windowName(round, st.opts.Rounds, v), err)
			}
			c[v] = append(c[v], s)
		}
	}
	return &c, nil
}

// window measures one variant. The agent is started for a traced window and
// stopped after it, so that nothing of it is left in an untraced one.
func (st *stage) window(ctx context.Context, v variant) (s sample, err error) {
	if v != traced {
		return st.underLoad(ctx, nil)
	}
	a, err := startAgent(ctx, st)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	return st.underLoad(ctx, a)
}

// reading is everything that is read at either end of a window.
type reading struct {
	machine  meter.Machine
	agent    meter.Process
	requests uint64
}

func (st *stage) read(g *load.Generator, a *agent) (r reading, err error) {
	if a != nil {
		if r.agent, err = meter.ReadProcess(a.process.PID()); err != nil {
			return r, err
		}
	}
	r.requests, _ = g.Done()
	r.machine, err = meter.ReadMachine()
	return r, err
}

// underLoad saturates the chain and measures after a warm-up; a may be nil.
func (st *stage) underLoad(ctx context.Context, a *agent) (sample, error) {
	g, err := st.load(ctx, load.Options{Duration: time.Hour}) // until Stop
	if err != nil {
		return sample{}, err
	}
	s, err := st.between(ctx, g, a)
	g.Stop()
	res, waitErr := g.Wait()
	st.next = res.Next
	if err := errors.Join(err, waitErr); err != nil {
		return sample{}, err
	}
	s.failed = res.Failed
	if res.OK == 0 {
		return sample{}, fmt.Errorf("not one request was answered: %v", res.Errors)
	}
	if a != nil {
		return s, st.readBack(ctx, a, res.OK+res.Failed)
	}
	return s, nil
}

// load starts the generator on the chain, with the next free number.
func (st *stage) load(ctx context.Context, o load.Options) (*load.Generator, error) {
	o.Addr = st.chain.Entry
	o.Connections = st.opts.Concurrency
	o.First = st.next
	o.AppendPath = st.chain.AppendPath
	return load.Start(ctx, o)
}

func (st *stage) between(ctx context.Context, g *load.Generator, a *agent) (sample, error) {
	if err := sleep(ctx, st.opts.Warmup); err != nil {
		return sample{}, err
	}
	from, err := st.read(g, a)
	if err != nil {
		return sample{}, err
	}
	if err := sleep(ctx, st.opts.Window); err != nil {
		return sample{}, err
	}
	to, err := st.read(g, a)
	if err != nil {
		if a != nil {
			err = errors.Join(err, a.alive())
		}
		return sample{}, err
	}
	w, err := from.machine.Until(to.machine)
	if err != nil {
		return sample{}, err
	}
	requests := float64(to.requests - from.requests)
	if requests == 0 {
		return sample{}, errors.New("no request was answered within the window: is it too short?")
	}
	const mib = 1 << 20
	return sample{
		rps:   requests / w.Elapsed.Seconds(),
		cpu:   float64(w.Busy) / float64(time.Microsecond) / requests,
		cores: (to.agent.CPU - from.agent.CPU).Seconds() / w.Elapsed.Seconds(),
		rss:   float64(to.agent.RSS) / mib,
		peak:  float64(to.agent.PeakRSS) / mib,
	}, nil
}

// readBack asks the running agent what it did: the configuration that was
// meant and the one that ran must be the same, or the number is of something
// else. The sampled share may be six standard deviations off.
func (st *stage) readBack(ctx context.Context, a *agent, requests uint64) error {
	if err := a.alive(); err != nil {
		return err
	}
	m, err := a.metrics(ctx)
	if err != nil {
		return err
	}
	roots := float64(m.sampled + m.unsampled)
	if roots < 0.98*float64(requests) || roots > 1.02*float64(requests) {
		return fmt.Errorf("the agent took %.0f root decisions on %d requests: it was blind, or took one more than once; what it wrote:\n%s",
			roots, requests, a.process.Output())
	}
	p := st.opts.Sample
	margin := 6*math.Sqrt(p*(1-p)/roots) + 1/roots
	if share := float64(m.sampled) / roots; math.Abs(share-p) > margin {
		return fmt.Errorf("the agent sampled %.4f of the requests, not %.4f", share, p)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
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
func (c *cost) into(r *Result, seed uint64) {
	rps := func(s sample) float64 { return s.rps }
	cpu := func(s sample) float64 { return s.cpu }
	col := func(v variant, f func(sample) float64) []float64 { return column(c[v], f) }

	baseRPS := means(col(untracedA, rps), col(untracedB, rps))
	baseCPU := means(col(untracedA, cpu), col(untracedB, cpu))
	r.RPS, r.CPU = stats.Median(col(traced, rps)), stats.Median(col(traced, cpu))
	r.Baseline = Rate{RPS: stats.Median(baseRPS), CPU: stats.Median(baseCPU)}
	r.Ratio = Ratios{
		RPS: stats.RatioInterval(col(traced, rps), baseRPS, seed),
		CPU: stats.RatioInterval(col(traced, cpu), baseCPU, seed),
	}
	r.Control = Ratios{
		RPS: stats.RatioInterval(col(untracedB, rps), col(untracedA, rps), seed),
		CPU: stats.RatioInterval(col(untracedB, cpu), col(untracedA, cpu), seed),
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
