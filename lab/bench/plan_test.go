package bench

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

func planOf(t *testing.T, name, profile string) ([]planned, []experiment.Cell, experiment.Profile) {
	t.Helper()
	e, err := experiment.Open(name)
	require.NoError(t, err)
	cells, err := e.Cells(profile)
	require.NoError(t, err)
	return schedule(cells, e.Profiles[profile], 7), cells, e.Profiles[profile]
}

func ids(runs []planned) []string {
	out := make([]string, len(runs))
	for i, r := range runs {
		out[i] = r.id()
	}
	return out
}

func TestScheduleHoldsEveryVariantOnceInEveryRound(t *testing.T) {
	for _, name := range []string{"thesis", "coroot", "chainscope-nginx", "chainscope-hotel", "null"} {
		runs, cells, p := planOf(t, name, "quick")
		seen := map[string]bool{}
		measured := 0
		for _, r := range runs {
			if seen[r.id()] {
				t.Errorf("%s is there twice", r.id())
			}
			seen[r.id()] = true
			if r.kind == record.Measured {
				measured++
			}
		}
		want := 0
		for _, c := range cells {
			want += len(c.Variants) * p.Rounds
		}
		assert.Equal(t, want, measured, "%s: measured runs", name)
		// The runs of a group are next to each other.
		var groups []string
		for _, r := range runs {
			if len(groups) == 0 || groups[len(groups)-1] != r.group() {
				if slices.Contains(groups, r.group()) {
					t.Fatalf("%s: the runs of %s are apart", name, r.group())
				}
				groups = append(groups, r.group())
			}
		}
	}
}

// Strategies, rates, loads and endpoints of the thesis, from its sections 4.4.1 to 4.4.5: each
// combination is one configuration of its table 4.1.
func configurationsOfTheThesis() map[string]bool {
	all := map[string]bool{}
	for _, endpoint := range []string{"api-basic", "api-large-payload", "api-cpu-intensive", "api-long-running", "api-deep-spans"} {
		for _, load := range []string{"50rps", "500rps", "1000rps"} {
			for strategy, rates := range map[string]string{
				"noop": "", "head": "@0.01 @0.05 @0.1 @0.3 @0.5 @1", "parent": "@0.01 @0.05 @0.1 @0.5 @1", "adaptive": "@0.01 @0.1 @0.3 @0.5",
			} {
				for rate := range strings.SplitSeq(rates, " ") {
					all[endpoint+"/"+load+" "+strategy+rate] = true
				}
			}
		}
	}
	return all
}

// The profiles matrix and source have the thesis' 240 configurations and no others; the first of them fits
// into a part of a night.
func TestTheThesisConfigurations(t *testing.T) {
	want := configurationsOfTheThesis()
	require.Len(t, want, 240, "configurations of the thesis")
	for profile, longest := range map[string]time.Duration{"matrix": 3 * time.Hour, "source": 6 * 24 * time.Hour} {
		runs, _, p := planOf(t, "thesis", profile)
		rounds := map[string]int{}
		for _, r := range runs {
			if env := r.variant.Environment(experiment.Placeholders{}); profile == "source" && r.variant.Tracer.Name == "adaptive" && env["ADAPTIVE_UPDATE_INTERVAL"] != "30" {
				t.Fatalf("%s is not adapted every 30 s, as the thesis does: %v", r.variant.Name, env)
			}
			if !r.variant.Control {
				rounds[r.cell.Name+" "+r.variant.Name]++
			}
		}
		assert.True(t, maps.EqualFunc(rounds, want, func(int, bool) bool { return true }), "%s has %d configurations that are not those of the thesis", profile, len(rounds))
		for name, n := range rounds {
			most := p.Rounds
			if profile == "source" && !strings.Contains(name, "head") && !strings.Contains(name, "parent") {
				most = 3 // adaptive sampling, and what it is compared with
			}
			if n != most {
				t.Errorf("%s: %s in %d rounds, want %d", profile, name, n, most)
			}
		}
		if d := about(runs); d > longest {
			t.Errorf("%s takes %v, longer than %v", profile, d, longest)
		}
	}
}

func TestQuickProfilesAreQuick(t *testing.T) {
	for _, name := range []string{"thesis", "payload", "strategies", "pipelines"} {
		if runs, _, _ := planOf(t, name, "quick"); about(runs) > 40*time.Minute {
			t.Errorf("%s takes %v", name, about(runs))
		}
	}
}

func TestScheduleIsTheSameForTheSameSeed(t *testing.T) {
	a, cells, p := planOf(t, "thesis", "quick")
	b, _, _ := planOf(t, "thesis", "quick")
	assert.Equal(t, ids(b), ids(a), "two schedules of one seed differ")
	assert.False(t, slices.Equal(ids(a), ids(schedule(cells, p, 8))), "another seed gives the same order")
}

func TestResumeMakesAnInterruptedGroupAnew(t *testing.T) {
	runs, cells, _ := planOf(t, "null", "quick")
	perGroup := len(cells[0].Variants)
	var done []record.Run
	for _, r := range runs[:perGroup+1] { // one group and a part of the next
		done = append(done, record.Run{ID: r.id()})
	}
	left, kept := unfinished(runs, done)
	if len(kept) != perGroup || len(left) != len(runs)-perGroup {
		t.Fatalf("%d kept and %d left of %d, with groups of %d", len(kept), len(left), len(runs), perGroup)
	}
	assert.Equal(t, runs[perGroup].id(), left[0].id(), "goes on")
	if left, _ := unfinished(runs, nil); len(left) != len(runs) {
		t.Errorf("%d of %d left, with nothing done", len(left), len(runs))
	}
}
