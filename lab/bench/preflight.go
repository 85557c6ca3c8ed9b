package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/tracer"
	"github.com/tare-trace/tare/workloads"
)

// preflight runs every workload once with every tracer, at one of its rates, shortly: what
// cannot run is found now and not after an hour. Tracers for which another kernel is needed are
// left out, and optional tracers and workloads that cannot run.
func (b *bench) preflight(ctx context.Context) error {
	b.say("trying every workload once with every tracer")
	tried := map[string]error{} // by workload and tracer
	host := tracer.NewHost(b.stage.Tare)
	b.cells = slices.DeleteFunc(b.cells, func(c experiment.Cell) bool {
		err := absent(c.Workload)
		if err == nil {
			return false
		}
		if _, known := b.manifest.LeftOut[c.Workload.Name]; !known {
			b.say("left out: %s: %s", c.Workload.Name, firstLine(err))
		}
		b.manifest.LeftOut[c.Workload.Name] = err.Error()
		return true
	})
	if len(b.cells) == 0 {
		return errors.New("no workload can run here")
	}
	for i := range b.cells {
		c := &b.cells[i]
		var keep []experiment.Variant
		for _, v := range c.Variants {
			if v.Control {
				keep = append(keep, v)
				continue
			}
			key := c.Workload.Name + " " + v.Tracer.Name
			err, known := tried[key]
			if !known {
				err = b.try(ctx, host, c, v)
				tried[key] = err
			}
			var elsewhere *tracer.NotOffered
			switch {
			case ctx.Err() != nil:
				return fmt.Errorf("interrupted: %w", ctx.Err())
			case err == nil:
				keep = append(keep, v)
			case errors.As(err, &elsewhere):
				if _, known := b.manifest.NotOffered[v.Tracer.Name]; !known {
					b.say("left out: %s: %s", v.Tracer.Name, firstLine(err))
				}
				b.manifest.NotOffered[v.Tracer.Name] = elsewhere.Reason
			case c.Workload.Optional:
				what := c.Workload.Name + " with " + v.Name
				if _, known := b.manifest.LeftOut[what]; !known {
					b.say("left out: %s: %s", what, firstLine(err))
				}
				b.manifest.LeftOut[what] = err.Error()
			case v.Tracer.Optional:
				if _, known := b.manifest.LeftOut[v.Name]; !known {
					b.say("left out: %s: %s", v.Name, firstLine(err))
				}
				b.manifest.LeftOut[v.Name] = err.Error()
			default:
				return fmt.Errorf("%s with %s cannot run: %w", c.Workload.Name, v.Name, err)
			}
		}
		c.Variants = keep
	}
	return nil
}

// absent says what an optional workload lacks on this machine, nil if nothing.
func absent(w *experiment.Workload) error {
	if !w.Optional {
		return nil
	}
	return workloads.Absent(w.Kind, "")
}

// try makes one short run, and notes the versions of what runs.
func (b *bench) try(ctx context.Context, host *tracer.Host, c *experiment.Cell, v experiment.Variant) error {
	driver, err := tracer.Find(v.Tracer)
	if err != nil {
		return err
	}
	if err := driver.Available(ctx, v.Tracer, host); err != nil {
		return err
	}
	j := Job{
		Kind: record.Checked, Workload: c.Workload, Variant: v, Requests: 20,
		Load: experiment.Load{Name: "trial", Connections: 2}, Keep: true,
		Started: func(c *workloads.Chain) { maps.Copy(b.manifest.Versions, c.Versions(ctx)) },
	}
	return b.stage.Run(ctx, j, &record.Run{ID: "trial"})
}

// calibrations bounds the search for the most that the machine holds: to a sixth
// of what was asked for. Below that, something else is wrong.
const calibrations = 9

// calibrate finds, for loads that ask for it, the greatest rate that every
// variant of the cell holds: the rate that was asked for, or less in steps of a
// fifth.
func (b *bench) calibrate(ctx context.Context) error {
	for i := range b.cells {
		c := &b.cells[i]
		if _, known := b.manifest.Calibrated[c.Name]; known || !c.Load.OrMost {
			continue
		}
		rate, held, err := b.most(ctx, c)
		if err != nil {
			return err
		}
		b.manifest.Calibrated[c.Name] = rate
		if share := c.Load.OfMost; share != 0 {
			b.manifest.Calibrated[c.Name] = max(1, math.Floor(rate*share))
		}
		switch {
		case !held:
			b.note(fmt.Sprintf("%s: no rate of those that were tried is held by every variant; %.0f requests/s is used: is something else running?", c.Name, rate))
		case rate != c.Load.Rate:
			b.note(fmt.Sprintf("%s: %.0f requests/s were tried; %.0f is the most that this machine holds with every variant (tried in steps of a fifth)", c.Name, c.Load.Rate, rate))
		}
	}
	return nil
}

func (b *bench) most(ctx context.Context, c *experiment.Cell) (rate float64, held bool, err error) {
	rate = c.Load.Rate
	for range calibrations {
		b.say("%s: does every variant hold %.0f requests/s?", c.Name, rate)
		held = true
		for _, v := range c.Variants {
			if v.Control {
				continue
			}
			ok, err := b.holds(ctx, c, v, rate)
			if err != nil {
				return 0, false, err
			}
			if !ok {
				b.say("  %s does not", v.Name)
				held = false
				break
			}
		}
		if held {
			return rate, true, nil
		}
		rate = max(1, math.Floor(rate*0.8))
	}
	return rate, false, nil
}

// holds: at least 99% of the requests that are due are answered well, and they do
// not pile up: half of them are answered within 10 ms.
func (b *bench) holds(ctx context.Context, c *experiment.Cell, v experiment.Variant, rate float64) (bool, error) {
	l := *c.Load
	l.Rate = rate
	var rec record.Run
	err := b.stage.Run(ctx, Job{
		Kind: record.Measured, Workload: c.Workload, Load: l, Variant: v,
		Warmup: time.Second, Window: 3 * time.Second, Keep: false,
	}, &rec)
	if ctx.Err() != nil {
		return false, errors.Join(errors.New("interrupted"), ctx.Err())
	}
	if err != nil {
		return false, err
	}
	x := rec.Values
	return x[record.Throughput] >= 0.99*x[record.Offered] && x[record.ErrorShare] < 0.001 && x[record.P50] < 10, nil
}
