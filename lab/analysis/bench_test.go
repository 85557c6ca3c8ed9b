package analysis_test

import (
	"testing"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/analysis/analysistest"
)

// The whole grid of the thesis: 1,530 runs of some 25 metrics.
func BenchmarkAnalyse(b *testing.B) {
	e, m := "thesis", analysistest.Model{Seed: 1, Noise: 0.03}
	man, runs, err := analysistest.Make(mustOpen(b, e), "full", m)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := analysis.Analyse(man, runs); err != nil {
			b.Fatal(err)
		}
	}
}
