// Package analysistest makes plausible records of an experiment with known
// effects, for tests of what reads records. It refuses to be mistaken for a
// measurement: its manifest says that the numbers are made up.
package analysistest

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

// Model says what is put into the records.
type Model struct {
	Seed uint64
	// Rounds replaces the profile's where it is not 0.
	Rounds int
	// Noise is the standard deviation of the logarithm of every value.
	Noise float64
	// Factor is what tracing does to an ordinary metric of a variant that is
	// not the baseline: 1 is nothing. nil: 1 for all.
	Factor func(workload, load, tracer string, rate float64, metric string) float64
}

// base values of ordinary metrics without tracing, before the workload's factor.
var base = map[string]float64{
	record.P50: 0.6, record.P95: 2.1, record.P99: 4.8, record.Max: 21,
	record.CPUService: 180, record.CPUMachine: 420, record.CPULab: 95,
	record.MemService: 14.2, record.MemServicePeak: 18.5,
	record.NetOut: 310,
}

// perWorkload is how much of CPU and time a workload takes; others are 1.
var perWorkload = map[string]float64{
	"api-cpu-intensive": 7, "api-deep-spans": 1.4, "api-large-payload": 2.2, "api-long-running": 1.2,
}

// Make makes all runs of a profile.
func Make(e *experiment.Experiment, profile string, m Model) (*record.Manifest, []record.Run, error) {
	cells, err := e.Cells(profile)
	if err != nil {
		return nil, nil, err
	}
	p := e.Profiles[profile]
	if m.Rounds > 0 {
		p.Rounds = m.Rounds
	}
	begin := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	g := &generator{m: m, p: p, now: begin}
	for i := range cells {
		g.cell(&cells[i])
	}
	man := &record.Manifest{
		Version: record.Version, Tare: "v0.0.0-test", Commit: "0123456789abcdef0123456789abcdef01234567",
		Experiment: e, Profile: profile, Seed: m.Seed,
		Machine:  record.Machine{CPUs: 4, Model: "Imaginary CPU @ 2.00GHz", MemGiB: 7.8, Kernel: "6.1.0", Arch: "amd64", Distro: "none", Virtual: "none"},
		Versions: map[string]string{"go": "go1.26", "nginx": "1.22.1"},
		Begin:    begin, End: g.now,
		LeftOut: map[string]string{"ghost": "made up: it cannot run here"},
		Notes:   []string{"These numbers are made up."},
	}
	return man, g.runs, nil
}

type generator struct {
	m    Model
	p    experiment.Profile
	now  time.Time
	runs []record.Run
}

func (g *generator) cell(c *experiment.Cell) {
	for round := range g.p.MostRounds() {
		for i, v := range c.Variants {
			if g.p.Holds(c, v, round) {
				g.add(c, v, record.Measured, round, i)
			}
		}
	}
	for i, v := range c.Variants {
		if g.p.Check > 0 && !v.Control && v.Tracer.Driver != "none" {
			g.add(c, v, record.Checked, 0, i)
		}
	}
	for round := range g.p.Profiled {
		for i, v := range c.Variants {
			if c.Workload.Profile != "" && !v.Control {
				g.add(c, v, record.Profiled, round, i)
			}
		}
	}
}

// rng depends on what it is for alone, so that one more variant does not change
// the others.
func (g *generator) rng(parts ...any) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, parts...)
	return rand.New(rand.NewPCG(g.m.Seed, h.Sum64())) //nolint:gosec // noise, not a secret
}

func (g *generator) add(c *experiment.Cell, v experiment.Variant, kind record.Kind, round, order int) {
	w, l := c.Workload, c.Load
	r := record.Run{
		ID:   fmt.Sprintf("%s/%s/%d/%s", kind, c.Name, round, v.Name),
		Kind: kind, Cell: c.Name, Workload: w.Name, Load: l.Name,
		Variant: v.Name, Tracer: v.Tracer.Name, Rate: v.Rate, Round: round, Order: order,
		Begin: g.now, Warmup: g.p.WarmupOf(w).Seconds(), Window: g.p.Window.Std().Seconds(),
		Asked: v.Environment(experiment.Placeholders{}), Values: map[string]float64{},
	}
	g.now = g.now.Add(g.p.WarmupOf(w) + g.p.Window.Std())
	drift := g.rng("drift", c.Name, round).NormFloat64() * 0.1
	noise := g.rng(r.ID)
	factor := func(metric string) float64 {
		f := math.Exp(drift/2 + g.m.Noise*noise.NormFloat64())
		if g.m.Factor != nil && v.Tracer.Driver != "none" {
			f *= g.m.Factor(w.Name, l.Name, v.Tracer.Name, v.Rate, metric)
		}
		return f
	}
	size := max(perWorkload[w.Name], 1)
	for _, m := range record.Metrics { // in order: the noise must not depend on a map's
		if b, ok := base[m.Key]; ok {
			r.Values[m.Key] = b * size * factor(m.Key)
		}
	}
	g.load(&r, l, factor)
	if v.Tracer.Driver != "none" {
		g.tracing(&r, w, v, noise)
	}
	g.runs = append(g.runs, r)
}

// load fills in what is offered and answered, and the laboratory's own metrics.
func (g *generator) load(r *record.Run, l *experiment.Load, factor func(string) float64) {
	rps := 12000 * factor(record.Throughput)
	offered := rps
	if l.Rate > 0 {
		rps, offered = l.Rate, l.Rate
	}
	v := r.Values
	if l.Rate > 0 {
		v[record.SentP50], v[record.SentP95], v[record.SentP99] = 0.9*v[record.P50], 0.8*v[record.P95], 0.5*v[record.P99]
	}
	v[record.Throughput], v[record.Offered], v[record.ErrorShare] = rps, offered, 0
	v[record.CoresService] = v[record.CPUService] * rps / 1e6
	v[record.CoresMachine] = v[record.CPUMachine] * rps / 1e6
	v[record.NetOutRate] = v[record.NetOut] * rps / 1e6
	v[record.CoresMeter], v[record.Stolen] = 0.004*factor(record.CoresMeter), 0.01
	v[record.GeneratorLagP99] = 0.2 * factor(record.GeneratorLagP99)
	v[record.NetExport], v[record.NetReported] = 0, 0
	v[record.CPUTracer], v[record.CPUAgent], v[record.CoresTracer] = 0, 0, 0
	v[record.MemTracer], v[record.MemTracerPeak] = 0, 0
	r.Answers = uint64(rps * r.Window)
	r.Requests = uint64(rps * (r.Window + r.Warmup))
	if r.Kind == record.Profiled {
		r.Shares = []record.Share{
			{Category: "net/http", Micros: 70 * factor("share")}, {Category: "runtime: garbage collection", Micros: 30 * factor("share")},
			{Category: "system calls", Micros: 60 * factor("share")}, {Category: "handler", Micros: 20 * factor("share")},
		}
	}
}

// tracing fills in what only a tracer has.
func (g *generator) tracing(r *record.Run, w *experiment.Workload, v experiment.Variant, noise *rand.Rand) {
	n := float64(r.Requests)
	rate := v.Rate
	if v.Tracer.Name == "adaptive" {
		rate = min(1, 1.5*rate)
	}
	spans := float64(max(w.Spans, 1))
	sampled := math.Round(min(n, max(0, n*rate+math.Sqrt(n*rate*(1-rate))*noise.NormFloat64())))
	val := r.Values
	val[record.SampledAsked], val[record.SampledShare] = rate, sampled/n
	val[record.SpansPerRequest] = spans * sampled / n
	val[record.SpansReceived] = spans * sampled / (r.Window + r.Warmup)
	val[record.SpansDropped] = 0
	if w.Spans > 0 && sampled > 0 {
		val[record.SpansShare] = 1
	}
	val[record.NetExport] = spans * 420 * sampled / n
	if v.Tracer.Driver == "tare" {
		val[record.CPUTracer] = 2 + 30*rate*(1+0.05*noise.NormFloat64())
		val[record.CPUAgent], val[record.NetReported] = val[record.CPUTracer], val[record.NetExport]
		val[record.CoresTracer] = val[record.CPUTracer] * val[record.Throughput] / 1e6
		val[record.MemTracer], val[record.MemTracerPeak] = 38, 44
	}
	if v.Tracer.Name == "metrics" {
		val[record.MeasuredShare] = 1
	}
	if r.Shares != nil {
		val[record.BatchShare], val[record.RedisShare] = 0.1*rate, 0.07*rate
		r.Shares = append(r.Shares,
			record.Share{Category: "OpenTelemetry: span processor", Micros: 22 * rate * (1 + 0.05*noise.NormFloat64())},
			record.Share{Category: "OpenTelemetry: instrumentation", Micros: 14 * (0.3 + 0.7*rate) * (1 + 0.05*noise.NormFloat64())})
		r.Shares[0].Micros *= 1 + 0.05*rate
	}
	if r.Kind == record.Checked {
		lost := int(sampled) / 400
		r.Fidelity = map[string]int{"complete": int(sampled) - lost, "wrong": 0, "no span arrived": lost, "orphaned spans": lost}
		val[record.Complete], val[record.Wrong] = 1-float64(lost)/max(1, sampled), 0
		if v.Tracer.Driver == "tare" {
			for i, name := range []string{"tcp_recvmsg", "tcp_sendmsg", "sock_ops"} {
				ns := 180*float64(i+1) + 900*rate + 10*noise.NormFloat64()
				r.Programs = append(r.Programs, record.Program{Name: name, Runs: 4 * r.Requests, NsPerRun: ns})
				val[record.KernelPrograms] += 4 * ns / 1e3
			}
			r.Lost = map[string]uint64{"ring buffer full": uint64(lost)}
		}
	}
}
