package bench

import (
	"errors"
	"fmt"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/lab/tracer"
	"github.com/tare-trace/tare/workloads"
)

// runnable says what of an experiment this laboratory cannot run, nil if it can
// run all of it: it asks the tracers, chains and load generators that the file
// names. What is missing on this machine is found later, by preflight.
func runnable(e *experiment.Experiment) error {
	errs := []error{tracer.Check(e.Tracers)}
	for i := range e.Workloads {
		w := &e.Workloads[i]
		if err := workloads.Check(w.Kind, chainOptions(w, w.Env, w.Command)); err != nil {
			errs = append(errs, fmt.Errorf("workload %s: %w", w.Name, err))
		}
		if w.Diagnose && !workloads.CanBeLate(w.Kind) {
			errs = append(errs, fmt.Errorf("workload %s: diagnose: nothing in a chain of kind %s can be late", w.Name, w.Kind))
		}
	}
	for _, l := range e.Loads {
		d, err := load.Find(l.Tool)
		if err == nil && l.Rate != 0 && !d.CanRate() {
			err = fmt.Errorf("%s is a closed loop and cannot hold a rate: leave out the tool, or the rate", l.Tool)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("load %s: %w", l.Name, err))
		}
	}
	return errors.Join(errs...)
}

// chainOptions are those of a workload, with its environment and command line as
// they are given, or as they are when the placeholders are replaced.
func chainOptions(w *experiment.Workload, env map[string]string, argv []string) workloads.Options {
	o := workloads.Options{Env: env, Path: w.RequestPath(), ReadyWithin: w.ReadyWithin.Std()}
	if len(argv) > 0 || w.Health != "" || w.Port != 0 {
		o.Command = &workloads.Command{Name: w.Name, Argv: argv, Health: w.Health, Port: w.Port}
	}
	return o
}
