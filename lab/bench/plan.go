package bench

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/lab/progress"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/tracer"
)

// overhead is a guess of what a run takes besides warm-up and window: to start and
// stop the service and to count what came.
const overhead = 300 * time.Millisecond

// planned is a run that is to be made.
type planned struct {
	kind    record.Kind
	cell    *experiment.Cell
	variant experiment.Variant
	round   int
	order   int
	warmup  time.Duration
	window  time.Duration
	check   uint64 // requests, of a checked run
}

func (p planned) id() string {
	return fmt.Sprintf("%s/%s/%d/%s", p.kind, p.cell.Name, p.round, p.variant.Name)
}

// group is what must be measured close in time to be compared: the runs of one
// cell in one round. A group that was interrupted is begun anew.
func (p planned) group() string { return fmt.Sprintf("%s/%s/%d", p.kind, p.cell.Name, p.round) }

func (p planned) about() time.Duration {
	// Where requests take long, those in flight at the end are waited for, too.
	d := p.warmup + p.window + p.cell.Workload.Warmup.Std() + overhead
	if p.kind == record.Checked {
		each := 200 * time.Microsecond
		if rate := p.cell.Load.Rate; rate > 0 { // if it is held
			each = time.Duration(float64(time.Second) / rate)
		}
		d = 10*time.Second + time.Duration(p.check)*each
	}
	return d + tracer.FactsOf(p.variant.Tracer).Takes
}

// schedule lists all runs: round after round, the cells of a round in random
// order, and the variants of a cell in random order next to each other. The same
// seed gives the same order, which is what a resumed experiment goes on with.
// Checked and profiled runs come at the end, since they are not compared in time.
func schedule(cells []experiment.Cell, p experiment.Profile, seed uint64) []planned {
	rng := rand.New(rand.NewPCG(seed, 0x6f726465)) //nolint:gosec // an order, not a secret
	var runs []planned
	add := func(kind record.Kind, rounds int, window time.Duration, wanted func(c *experiment.Cell, v experiment.Variant, round int) bool) {
		for round := range rounds {
			for _, i := range rng.Perm(len(cells)) {
				c := &cells[i]
				order := 0
				for _, j := range rng.Perm(len(c.Variants)) {
					v := c.Variants[j]
					if !wanted(c, v, round) {
						continue
					}
					runs = append(runs, planned{
						kind: kind, cell: c, variant: v, round: round, order: order,
						warmup: p.WarmupOf(c.Workload), window: window, check: p.Check,
					})
					order++
				}
			}
		}
	}
	add(record.Measured, p.MostRounds(), p.Window.Std(), p.Holds)
	if p.Check > 0 {
		add(record.Checked, 1, 0, func(c *experiment.Cell, v experiment.Variant, _ int) bool {
			d, err := load.Find(c.Load.Tool)
			facts := tracer.FactsOf(v.Tracer)
			return err == nil && d.CanNumber() && !v.Tracer.Fault.Broken() && (facts.Traces || facts.Programs)
		})
	}
	add(record.Profiled, p.Profiled, p.ProfileWindow.Std(), func(c *experiment.Cell, v experiment.Variant, _ int) bool {
		return c.Workload.Profile != "" && !v.Control
	})
	return runs
}

// about is how long the runs take together.
func about(runs []planned) time.Duration {
	var d time.Duration
	for _, r := range runs {
		d += r.about()
	}
	return d
}

// steps are the runs as the progress line wants them.
func steps(runs []planned) []progress.Step {
	out := make([]progress.Step, len(runs))
	for i, r := range runs {
		out[i] = progress.Step{Name: r.id(), About: r.about()}
	}
	return out
}
