package analysis_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/analysis/analysistest"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/workloads/planted"
)

// Planted values are added up over the runs of a variant, in the order of package planted,
// and each variant has a column in which what it was not planted for is zero.
func TestPlantedValuesAreAddedUp(t *testing.T) {
	m, runs := generate(t, "privacy", "quick", analysistest.Model{Seed: 5, Noise: 0.01})
	rounds := 0
	for i := range runs {
		switch r := &runs[i]; r.Variant {
		case "head@1":
			rounds++
			r.Planted = &record.Planted{
				Secrets: map[string]planted.Count{"card": {Planted: 10, Stored: 10}, "new kind": {Planted: 1}, "name": {Planted: 3, Stored: 2}},
				Places:  map[string]planted.Count{"SQL": {Planted: 4}},
				Decoys:  map[string]planted.Count{"UUID": {Planted: 5, Stored: 4}},
			}
		case "tare":
			r.Planted = &record.Planted{Secrets: map[string]planted.Count{"card": {Planted: 10}}}
		}
	}
	got := analyse(t, m, runs).Planted
	want := []struct {
		group, name string
		head        planted.Count
	}{
		{"secrets", "name", planted.Count{Planted: 3 * rounds, Stored: 2 * rounds}},
		{"secrets", "card", planted.Count{Planted: 10 * rounds, Stored: 10 * rounds}},
		{"places", "SQL", planted.Count{Planted: 4 * rounds}},
		{"decoys", "UUID", planted.Count{Planted: 5 * rounds, Stored: 4 * rounds}},
		{"secrets", "new kind", planted.Count{Planted: rounds}},
	}
	if len(got) != len(want) || rounds == 0 {
		t.Fatalf("%d rows, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		if g.Group != w.group || g.Name != w.name || len(g.Of) != 2 || g.Of[0] != (analysis.PlantedPart{"head@1", w.head}) || g.Of[1].Variant != "tare" {
			t.Errorf("row %d is %+v, want %+v", i, g, w)
		}
	}
	if c := got[1].Of[1]; c.Planted != 10*rounds || c.Stored != 0 {
		t.Errorf("of the agent: %+v", c)
	}
	assert.Equal(t, (planted.Count{}), got[0].Of[1].Count, "not planted for the agent")
}
