package analysis_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/analysis/analysistest"
	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

func figureOf(t *testing.T, s *analysis.Summary, id string) analysis.Figure {
	t.Helper()
	for _, f := range s.Figures {
		if f.ID == id {
			return f
		}
	}
	t.Fatalf("there is no figure %s", id)
	return analysis.Figure{}
}

// All figures of the thesis, as many plots, lines and points as it has.
func TestTheThesisFiguresCanBeDrawn(t *testing.T) {
	m, runs := generate(t, "thesis", "full", analysistest.Model{Seed: 7, Noise: 0.02, Factor: growing})
	s := analyse(t, m, runs)
	for id, want := range map[string]struct {
		panels int
		series string // of the first panel
		points int    // of all series of the first panel
	}{
		"5.1":  {1, "50 requests/s|500 requests/s|1000 requests/s", 18},
		"5.2":  {1, "50 requests/s|500 requests/s|1000 requests/s", 18},
		"5.3":  {2, "50 requests/s, none|50 requests/s, head|500 requests/s, none|500 requests/s, head|1000 requests/s, none|1000 requests/s, head", 21},
		"5.4":  {2, "50 requests/s, none|50 requests/s, head|500 requests/s, none|500 requests/s, head|1000 requests/s, none|1000 requests/s, head", 21},
		"5.5":  {3, "head|parent", 11},
		"5.6":  {3, "head|parent", 11},
		"5.7":  {6, "head|parent", 11},
		"5.8":  {3, "head|parent", 11},
		"5.9":  {5, "head|adaptive", 10},
		"5.10": {2, "head|adaptive", 10},
		"5.11": {5, "head|adaptive", 10},
		"5.12": {1, "head, 10%|head, 30%|adaptive, 10%|adaptive, 30%", 20},
		"5.13": {3, "head|adaptive", 10},
	} {
		f := figureOf(t, s, id)
		if len(f.Panels) != want.panels {
			t.Errorf("figure %s has %d plots, want %d", id, len(f.Panels), want.panels)
			continue
		}
		var names []string
		points := 0
		for _, series := range f.Panels[0].Series {
			names = append(names, series.Name)
			points += len(series.Points)
			for _, p := range series.Points {
				if p.N != 6 || p.Lo > p.Y || p.Hi < p.Y {
					t.Errorf("figure %s, %s: %+v", id, series.Name, p)
				}
			}
		}
		if got := strings.Join(names, "|"); got != want.series || points != want.points {
			t.Errorf("figure %s: %s with %d points, want %s with %d", id, got, points, want.series, want.points)
		}
	}
	first := figureOf(t, s, "5.1").Panels[0]
	if !first.Percent || !first.Neutral || first.Floor <= 0 {
		t.Errorf("5.1 is a percentage beside a floor: %+v", first)
	}
	last := first.Series[0].Points[5]
	if last.X != 1 || math.Abs(last.Y-0.2) > 0.06 || last.Distinguishable == nil || !*last.Distinguishable {
		t.Errorf("5.1 at 100%%: %+v", last)
	}
}

// The whole matrix of the thesis fills its figures of head and parent-based sampling: every rate at every load.
func TestTheMatrixFillsTheThesisFigures(t *testing.T) {
	e := mustOpen(t, "thesis")
	m, runs, err := analysistest.Make(e, "matrix", analysistest.Model{Seed: 7, Rounds: 2, Noise: 0.02})
	require.NoError(t, err)
	s := analyse(t, m, runs)
	for _, q := range s.Answers { // of tracers that are not in the matrix
		if q.ID == "RQ5" || q.ID == "I1" {
			assert.Equal(t, "This profile does not measure it.", q.Sentence(), q.ID)
		}
	}
	rates := map[string]int{}
	for _, tr := range e.Tracers {
		rates[tr.Name] = max(1, len(tr.Rates)) // without rates, one level
	}
	for id, tracers := range map[string][]string{
		"5.1": {"head"}, "5.2": {"head"}, "5.3": {"noop", "head"}, "5.4": {"noop", "head"},
		"5.5": {"head", "parent"}, "5.6": {"head", "parent"}, "5.7": {"head", "parent"}, "5.8": {"head", "parent"},
	} {
		want := 0 // points of each metric
		for _, tracer := range tracers {
			want += len(e.Loads) * rates[tracer]
		}
		points := map[string]int{}
		for _, p := range figureOf(t, s, id).Panels {
			for _, series := range p.Series {
				points[p.Metric] += len(series.Points)
			}
		}
		for metric, n := range points {
			if n != want {
				t.Errorf("figure %s has %d points of %s, want %d", id, n, metric, want)
			}
		}
		if len(points) == 0 {
			t.Errorf("figure %s is empty", id)
		}
	}
}

// Workloads of different sizes are points of one line.
func TestAnAxisOfSizes(t *testing.T) {
	m, runs := generate(t, "payload", "quick", analysistest.Model{Seed: 7, Noise: 0.02})
	for i := range m.Experiment.Figures {
		m.Experiment.Figures[i].Y = []string{record.CPUService} // the records that are made up have no other CPU
	}
	m.Experiment.Figures[1].Form = "bar"
	s := analyse(t, m, runs)
	lines, bars := figureOf(t, s, "S1").Panels, figureOf(t, s, "S2").Panels
	if len(lines) != 1 || len(lines[0].Series) != 4 || lines[0].XLabel != "size of the payload" {
		t.Fatalf("%+v", lines)
	}
	for _, series := range lines[0].Series {
		var xs []float64
		for _, p := range series.Points {
			xs = append(xs, p.X)
		}
		if !slices.Equal(xs, []float64{1e3, 1e4, 1e5, 1e6}) || strings.Contains(series.Name, "answer") {
			t.Errorf("%s at %v", series.Name, xs)
		}
	}
	if want := []string{"1 KB", "10 KB", "100 KB", "1 MB"}; len(bars) != 1 || !slices.Equal(bars[0].Labels, want) {
		t.Errorf("bars: %+v, want labels %v", bars, want)
	}
	for size, want := range map[float64]string{1: "1 bytes", 999: "999 bytes", 1500: "1.5 KB", 64e6: "64 MB"} {
		assert.Equal(t, want, analysis.Tick(size, "size"), size)
	}
}

// A tracer without a rate is one level for every rate.
func TestFlatSeries(t *testing.T) {
	m, runs := generate(t, "thesis", "full", analysistest.Model{Seed: 7, Noise: 0.02})
	for _, series := range figureOf(t, analyse(t, m, runs), "5.3").Panels[0].Series {
		none := strings.Contains(series.Name, "none")
		if series.Flat != none || none && (len(series.Points) != 1 || series.Points[0].Distinguishable != nil) {
			t.Errorf("%s: %+v", series.Name, series)
		}
	}
}

// A mean is over the cells that have every variant, first within rounds.
func TestMeanOverCells(t *testing.T) {
	m, runs := generate(t, "thesis", "quick", analysistest.Model{Seed: 7, Noise: 0.02})
	s := analyse(t, m, runs)
	p := figureOf(t, s, "5.10").Panels[0]
	assert.True(t, strings.HasSuffix(p.Title, "mean of api-basic, api-cpu-intensive"), "the mean is of other workloads than those that have all variants: %q", p.Title)
	var want []float64
	for round := range 6 {
		sum := 0.0
		for i := range runs {
			r := &runs[i]
			if r.Round == round && r.Variant == "head@1" && (r.Cell == "api-basic/500rps" || r.Cell == "api-cpu-intensive/500rps") {
				sum += r.Values[record.CoresService]
			}
		}
		want = append(want, sum/2)
	}
	slices.Sort(want)
	got := p.Series[0].Points[len(p.Series[0].Points)-1]
	if got.X != 1 || math.Abs(got.Y-(want[2]+want[3])/2) > 1e-9 || got.N != 6 {
		t.Errorf("%+v, want the median of %v", got, want)
	}
}

// Where nothing has an effect, nearly all marks are hollow; where all do, none is.
func TestMarksAreHollowWhereNothingIsSeen(t *testing.T) {
	for factor, hollow := range map[float64]bool{1: true, 1.5: false} {
		m, runs := generate(t, "thesis", "full", analysistest.Model{Seed: 7, Noise: 0.02, Factor: func(string, string, string, float64, string) float64 { return factor }})
		n, seen := 0, 0
		for _, series := range figureOf(t, analyse(t, m, runs), "5.1").Panels[0].Series {
			for _, p := range series.Points {
				n++
				if *p.Distinguishable {
					seen++
				}
			}
		}
		if hollow && seen > 2 || !hollow && seen != n {
			t.Errorf("with a factor of %v, %d of %d marks are filled", factor, seen, n)
		}
	}
}

func TestFiguresOfTheOtherExperiments(t *testing.T) {
	for _, c := range []struct{ experiment, profile string }{{"chainscope-nginx", "quick"}, {"coroot", "quick"}, {"null", "quick"}} {
		m, runs := generate(t, c.experiment, c.profile, analysistest.Model{Seed: 7, Noise: 0.02})
		s := analyse(t, m, runs)
		if len(s.Figures) != len(m.Experiment.Figures) {
			t.Errorf("%s: %d of %d figures", c.experiment, len(s.Figures), len(m.Experiment.Figures))
		}
		for _, f := range s.Figures {
			if len(f.Panels) == 0 || f.Missing != "" {
				t.Errorf("%s, figure %s: %q", c.experiment, f.ID, f.Missing)
			}
			for _, p := range f.Panels {
				for _, series := range p.Series {
					for _, pt := range series.Points {
						if len(p.Labels) > 0 && (pt.X < 0 || int(pt.X) >= len(p.Labels)) {
							t.Errorf("%s, figure %s: the point %+v has no label of %v", c.experiment, f.ID, pt, p.Labels)
						}
					}
				}
			}
		}
	}
}

// The parts of a CPU profile add up to what was put in, and the added ones to the
// difference from the baseline.
func TestCPUProfile(t *testing.T) {
	m, runs := generate(t, "coroot", "full", analysistest.Model{Seed: 7, Noise: 0.02})
	s := analyse(t, m, runs)
	for _, p := range s.CPU {
		assert.Equal(t, 10, p.N, "%s: n", p.Variant)
		if p.Variant == "none" {
			assert.Nil(t, p.Added, "the baseline has more than itself")
			continue
		}
		shares := 0.0
		for _, c := range p.Categories {
			if c.Category == "OpenTelemetry: span processor" && p.Variant == "otel@1" && math.Abs(c.Added.Median-22) > 1.5 {
				t.Errorf("span processor: %+v, 22 µs/request were put in", c)
			}
			if c.Share != nil {
				shares += *c.Share
			}
		}
		if p.Variant == "otel@1" && math.Abs(shares-1) > 0.15 { // medians do not add up exactly
			t.Errorf("the shares of %s sum to %v", p.Variant, shares)
		}
	}
	f := figureOf(t, s, "C7")
	if f.Form != "stack" || len(f.Panels) != 1 || !slices.Equal(f.Panels[0].Labels, []string{"otel at 1%", "otel at 100%", "lean at 1%", "lean at 100%", "tare at 0%", "tare at 1%", "tare at 100%", "metrics at 0%"}) {
		t.Errorf("%s: %+v", f.Form, f.Panels)
	}
}

func TestKernelProgramsByRate(t *testing.T) {
	m, runs := generate(t, "chainscope-nginx", "quick", analysistest.Model{Seed: 7, Noise: 0.02})
	s := analyse(t, m, runs)
	p := figureOf(t, s, "13a").Panels[0]
	if len(p.Series) != 3 || len(p.Series[0].Points) != 5 || p.Series[0].Name != "sock_ops" {
		t.Fatalf("%+v", p)
	}
	for i, x := range []float64{0.001, 0.01, 0.1, 0.5, 1} {
		if pt := p.Series[0].Points[i]; pt.X != x || math.Abs(pt.Y-(540+900*x)) > 50 {
			t.Errorf("sock_ops at %v: %+v", x, pt)
		}
	}
	// The metric of the same comes from checked runs, as no measured one has it.
	m5 := variantOf(t, s, "nginx/closed-32", "tare@1").Measure(record.KernelPrograms)
	if m5 == nil || m5.From != record.Checked || m5.Effect != nil {
		t.Errorf("%+v", m5)
	}
}

func TestAFigureThatSelectsNothingSaysSo(t *testing.T) {
	m, runs := generate(t, "thesis", "smoke", analysistest.Model{Seed: 7})
	f := figureOf(t, analyse(t, m, runs), "5.2") // smoke does not run this workload
	if len(f.Panels) != 0 || f.Missing == "" {
		t.Errorf("%+v", f)
	}
	m.Experiment.Figures = []experiment.Figure{{ID: "x", X: "rate", As: "value", Y: []string{"no_such_metric"}}}
	if _, err := analysis.Analyse(m, runs); err == nil || !strings.Contains(err.Error(), "no_such_metric") {
		t.Errorf("an unknown metric: %v", err)
	}
}

// Rates over time are those of one run, the first that counts, and no median.
func TestRatesOverTime(t *testing.T) {
	m, runs := generate(t, "thesis", "smoke", analysistest.Model{Seed: 7, Noise: 0.02})
	m.Experiment.Figures = []experiment.Figure{
		{ID: "over time", X: "time", Y: []string{"rates"}, As: "value", Panel: "workload", Where: experiment.Subset{Tracers: []string{"head", "adaptive"}}},
		{ID: "of nothing", X: "time", Y: []string{"rates"}, As: "value", Where: experiment.Subset{Tracers: []string{"head"}}},
	}
	for i := range runs {
		r := &runs[i]
		if r.Tracer != "adaptive" {
			continue
		}
		for n := range 4 {
			r.Sampler = append(r.Sampler, record.SamplerState{At: 0.1 * float64(n), Rate: 0.1 * float64(1+n%2*(1+r.Round))})
		}
		if r.Round == 0 && r.Workload == "api-basic" {
			r.Failed = "the service died"
		}
	}
	s := analyse(t, m, runs)
	f := figureOf(t, s, "over time")
	if len(f.Panels) != 2 || f.Panels[0].Title != "api-basic" || f.Panels[1].Title != "api-deep-spans" {
		t.Fatalf("%+v", f)
	}
	for i, peak := range []float64{0.3, 0.2} { // of the second round, and of the first
		p := f.Panels[i]
		if len(p.Series) != 1 || len(p.Series[0].Points) != 4 {
			t.Fatalf("%+v", p)
		}
		for n, pt := range p.Series[0].Points {
			want := []float64{0.1, peak}[n%2]
			if math.Abs(pt.X-0.1*float64(n)) > 1e-12 || math.Abs(pt.Y-want) > 1e-12 || pt.Lo != pt.Y || pt.Hi != pt.Y || pt.N != 1 {
				t.Errorf("%s: %+v, want a rate of %v", p.Title, pt, want)
			}
		}
	}
	if f := figureOf(t, s, "of nothing"); len(f.Panels) != 0 || f.Missing == "" {
		t.Errorf("%+v", f)
	}
}
