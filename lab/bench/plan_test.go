package bench

import (
	"slices"
	"testing"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

func planOf(t *testing.T, name, profile string) ([]planned, []experiment.Cell, experiment.Profile) {
	t.Helper()
	e, err := experiment.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	cells, err := e.Cells(profile)
	if err != nil {
		t.Fatal(err)
	}
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
		if measured != want {
			t.Errorf("%s: %d measured runs, want %d", name, measured, want)
		}
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

func TestScheduleIsTheSameForTheSameSeed(t *testing.T) {
	a, cells, p := planOf(t, "thesis", "quick")
	b, _, _ := planOf(t, "thesis", "quick")
	if !slices.Equal(ids(a), ids(b)) {
		t.Error("two schedules of one seed differ")
	}
	if slices.Equal(ids(a), ids(schedule(cells, p, 8))) {
		t.Error("another seed gives the same order")
	}
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
	if left[0].id() != runs[perGroup].id() {
		t.Errorf("goes on with %s, not with %s", left[0].id(), runs[perGroup].id())
	}
	if left, _ := unfinished(runs, nil); len(left) != len(runs) {
		t.Errorf("%d of %d left, with nothing done", len(left), len(runs))
	}
}
