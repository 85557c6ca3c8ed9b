package report

import (
	"os"
	"testing"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/analysis/analysistest"
	"github.com/tare-trace/tare/lab/experiment"
)

func TestLook(t *testing.T) {
	dir := os.Getenv("LOOK")
	if dir == "" {
		t.Skip()
	}
	all, err := experiment.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		for _, profile := range []string{"smoke", "quick", "full"} {
			m, runs, err := analysistest.Make(e, profile, analysistest.Model{Seed: 7, Noise: 0.03, Factor: func(w, l, tr string, rate float64, metric string) float64 {
				if metric == "cpu_service_us" || metric == "cpu_machine_us" {
					return 1 + 0.2*rate
				}
				return 1
			}})
			if err != nil {
				t.Fatal(err)
			}
			s, err := analysis.Analyse(m, runs)
			if err != nil {
				t.Fatal(err)
			}
			d := dir + "/" + e.Name + "-" + profile
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := Write(d, m, s, runs); err != nil {
				t.Fatal(err)
			}
			t.Log(e.Name, profile, len(runs))
			WriteFindings(os.Stdout, m, s)
		}
	}
}
