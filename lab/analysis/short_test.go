package analysis

import (
	"slices"
	"testing"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

func effectOf(as As, lo, median, hi float64, distinguishable bool) Finding {
	return Finding{Effect: &Effect{As: as, Estimate: stats.Estimate{Lo: lo, Median: median, Hi: hi, N: 8}, Verdict: Verdict{Distinguishable: distinguishable}}}
}

func TestShort(t *testing.T) {
	say := experiment.Claim{Metric: record.CPUService, Say: "Tracing costs {} CPU."}
	with := func(change func(*experiment.Claim)) experiment.Claim {
		c := say
		change(&c)
		return c
	}
	few := effectOf(Ratio, 1.1, 1.2, 1.3, false)
	few.Effect.Estimate.N = 2
	missed := effectOf(Ratio, 1.1, 1.2, 1.3, true)
	missed.Target = "missed"
	met := effectOf(Ratio, 1, 1.01, 1.015, true)
	met.Target = "met"
	for _, c := range []struct {
		name     string
		claim    experiment.Claim
		findings []Finding
		missing  []string
		want     string
	}{
		{"more", say, []Finding{effectOf(Ratio, 1.44, 1.6, 1.72, true)}, nil, "Tracing costs 44% to 72% more CPU."},
		{"less", say, []Finding{effectOf(Ratio, 0.8, 0.85, 0.9, true)}, nil, "Tracing costs 10% to 20% less CPU."},
		{"noise", say, []Finding{effectOf(Ratio, 0.99, 1.01, 1.03, false)}, nil, "Tracing costs between 1% less and 3% more CPU: we cannot tell it from noise."},
		{
			"some", say,
			[]Finding{effectOf(Ratio, 0.99, 1.01, 1.03, false), effectOf(Ratio, 1.2, 1.3, 1.4, true)}, nil,
			"Tracing costs 20% to 40% more CPU: we can tell it from noise in 1 of 2 comparisons; the other one is between 1% less and 3% more.",
		},
		{
			"some, and some of few rounds", say,
			[]Finding{effectOf(Ratio, 0.9, 1.01, 1.03, false), few, effectOf(Ratio, 1.2, 1.3, 1.4, true), effectOf(Ratio, 1.3, 1.4, 1.5, true)}, nil,
			"Tracing costs 20% to 50% more CPU: we can tell it from noise in 2 of 4 comparisons; the other 2 are between 10% less and 30% more, 1 of them of too few rounds to tell.",
		},
		{
			"some, the others of few rounds or the same", say, []Finding{few, effectOf(Ratio, 1, 1, 1, false), effectOf(Ratio, 1.2, 1.3, 1.4, true)}, nil,
			"Tracing costs 20% to 40% more CPU: we can tell it from noise in 1 of 3 comparisons; the other 2 are 0% to 30% more, 1 of them of too few rounds to tell.",
		},
		{
			"none, and some of few rounds", say, []Finding{effectOf(Ratio, 0.9, 1.01, 1.03, false), few}, nil,
			"Tracing costs between 10% less and 30% more CPU: we cannot tell it from noise in any of 2 comparisons, 1 of them of too few rounds to tell.",
		},
		{
			"no more than chance makes", say,
			append(slices.Repeat([]Finding{effectOf(Ratio, 0.9, 1.01, 1.03, false)}, 7), effectOf(Ratio, 1.2, 1.3, 1.4, true)), nil,
			"Tracing costs between 10% less and 40% more CPU: we cannot tell it from noise in 7 of 8 comparisons.",
		},
		{"same", say, []Finding{effectOf(Ratio, 1, 1, 1, false)}, nil, "Tracing costs no more and no less CPU."},
		{"difference", say, []Finding{effectOf(Difference, 1.5, 2, 2.5, true)}, nil, "Tracing costs 1.5 to 2.5 µs/request more CPU."},
		{"few rounds", say, []Finding{few}, nil, "Tracing costs 10% to 30% more CPU: too few rounds to tell."},
		{
			"both ways", say,
			[]Finding{effectOf(Ratio, 1.2, 1.3, 1.4, true), effectOf(Difference, -2, -1, -0.5, true)}, nil,
			"Tracing costs more in 1 and less in 1 of 2 comparisons CPU.",
		},
		{
			"targets", with(func(c *experiment.Claim) { c.AtMost = 1.02 }),
			[]Finding{missed, met}, nil,
			"Tracing costs 0% to 30% more CPU. Target (at most 2% more): missed in 1 of 2; met in 1 of 2.",
		},
		{
			"no sentence", experiment.Claim{Metric: record.CPUService, Where: experiment.Subset{Tracers: []string{"tare"}}, Against: "otel"},
			[]Finding{effectOf(Ratio, 0.5, 0.6, 0.7, true)}, nil,
			"CPU of the service with tare, against otel: 30% to 50% less.",
		},
		{
			"share of what another adds", experiment.Claim{Metric: record.CPUService, Against: "otel", ShareOfAdded: true, AtMost: 0.25},
			[]Finding{{Value: &stats.Estimate{Lo: -0.1, Median: 0.1, Hi: 0.3, N: 8}, Target: "met by the median, not by the whole interval"}}, nil,
			"CPU of the service: −10% to 30% of what otel adds. Target (at most 25%): met by the median, not by the whole interval.",
		},
		{
			"unbounded share", experiment.Claim{Metric: record.CPUService, Against: "otel", ShareOfAdded: true},
			[]Finding{{Value: &stats.Estimate{Lo: 0.09, Median: 1, Hi: unbounded, N: 8}}}, nil,
			"CPU of the service: 9% or more of what otel adds.",
		},
		{
			"one unbounded share of three", experiment.Claim{Metric: record.CPUService, Against: "otel", ShareOfAdded: true},
			[]Finding{
				{Value: &stats.Estimate{Lo: 0.1, Median: 0.2, Hi: 0.3, N: 8}},
				{Value: &stats.Estimate{Lo: -0.24, Median: 0.2, Hi: unbounded, N: 8}},
				{Value: &stats.Estimate{Lo: 0.2, Median: 0.3, Hi: 0.5, N: 8}},
			}, nil,
			"CPU of the service: 10% to 50% of what otel adds: in 1 of 3 comparisons there is no upper limit.",
		},
		{
			"one run", experiment.Claim{Metric: record.KernelPrograms},
			[]Finding{{Value: &stats.Estimate{Lo: 7.5, Median: 7.5, Hi: 7.5, N: 1}}}, nil,
			"Kernel programs: 7.5 µs/request (of 1 run).",
		},
		{
			"all", experiment.Claim{Metric: record.Complete, Say: "{} traces are complete."},
			[]Finding{{Proportion: &Proportion{Share: 1, N: 20000}}, {Proportion: &Proportion{Share: 1, N: 274}}}, nil,
			"All of 20,274 traces are complete.",
		},
		{
			"most", experiment.Claim{Metric: record.Complete, Say: "{} traces are complete."},
			[]Finding{{Proportion: &Proportion{Share: 0.992, N: 20000}}}, nil,
			"99.2% of 20,000 traces are complete.",
		},
		{
			"none", experiment.Claim{Metric: record.Wrong, Say: "{} traces are wrong."},
			[]Finding{{Proportion: &Proportion{Share: 0, N: 1000000}}}, nil,
			"None of 1,000,000 traces are wrong.",
		},
		{"missing", say, nil, []string{"api-basic/50rps, head: no run that counts"}, "We cannot tell: api-basic/50rps, head: no run that counts."},
		{"not in the profile", say, nil, nil, "This profile does not measure it."},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, ok := record.MetricOf(c.claim.Metric)
			if !ok {
				t.Fatalf("no metric %s", c.claim.Metric)
			}
			got := short(&Summary{}, c.claim, m, &ClaimAnswer{Findings: c.findings, Missing: c.missing})
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestAim(t *testing.T) {
	ratio, sum, value := effectOf(Ratio, 1, 1, 1, false), effectOf(Difference, 1, 1, 1, false), Finding{Value: &stats.Estimate{}}
	counted := Finding{Proportion: &Proportion{}}
	for _, c := range []struct {
		finding Finding
		metric  string
		claim   experiment.Claim
		want    string
	}{
		{ratio, record.CPUService, experiment.Claim{AtMost: 1}, "no more"},
		{ratio, record.CPUService, experiment.Claim{AtLeast: 1}, "no less"},
		{ratio, record.CPUService, experiment.Claim{AtMost: 1.5}, "at most 50% more"},
		{ratio, record.CPUService, experiment.Claim{AtLeast: 1.5}, "at least 50% more"},
		{ratio, record.CPUService, experiment.Claim{AtLeast: 0.98}, "at most 2% less"},
		{ratio, record.CPUService, experiment.Claim{AtMost: 0.5}, "at least 50% less"},
		{sum, record.CoresTracer, experiment.Claim{AtMost: 0.05}, "at most 0.05 cores"},
		{sum, record.CoresService, experiment.Claim{As: "added", AtLeast: 2}, "at least 2 cores"},
		{value, record.CPUService, experiment.Claim{ShareOfAdded: true, AtMost: 0.25}, "at most 25%"},
		{value, record.SpansShare, experiment.Claim{AtLeast: 0.999}, "at least 99.9%"},
		{value, record.P99, experiment.Claim{AtMost: 5}, "at most 5 ms"},
		{counted, record.Complete, experiment.Claim{AtLeast: 0.999}, "at least 99.9%"},
	} {
		m, _ := record.MetricOf(c.metric)
		if got := aim(c.finding, m, c.claim); got != c.want {
			t.Errorf("%+v: %q, want %q", c.claim, got, c.want)
		}
	}
}
