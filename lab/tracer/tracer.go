// Package tracer switches tracers under test on and off beside a workload, and
// asks them what they do. A driver is one file: it implements Driver and stands in
// the table below; nobody else asks for a driver's name. The package refuses to
// believe a command line: the configuration of a tracer is what the running
// process says it is.
package tracer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/workloads"
)

// Target is the workload that a tracer is switched on for, and how.
type Target struct {
	Chain    *workloads.Chain
	Workload *experiment.Workload
	Variant  experiment.Variant
	Sink     experiment.Placeholders // where spans go, a collector behind the tracer or the sink; its Rate is not used
	Tare     string                  // path of the tare executable; tare-agent is beside it
	Resolv   string                  // a tracer on the host has it in place of /etc/resolv.conf; "": the host's
	// Statistics asks for figures whose measurement has a cost of its own, such
	// as the run time of kernel programs.
	Statistics bool
	// Say, if set, is told what a tracer does that takes long to start.
	Say func(format string, args ...any)
}

// Facts about a driver that are needed to plan runs.
type Facts struct {
	// Baseline: other tracers may be compared with it.
	Baseline bool
	// Traces: the spans that arrive are traces of the requests that were sent,
	// so they can be counted and compared with the ground truth.
	Traces bool
	// Within: they are of instrumentation within the services, which does not see
	// what others see on the wire.
	Within bool
	// CallsByMethod: where not every request is sampled, a call of gRPC may name its
	// method and not its request.
	CallsByMethod bool
	// Programs: it has programs in the kernel, whose run time checked runs measure.
	Programs bool
	// Takes is about how long it takes to start and to stop it, for the progress line.
	Takes time.Duration
}

// Driver is a way to trace.
type Driver interface {
	Facts(t *experiment.Tracer) Facts
	// Check says what an experiment file lacks that the driver needs, nil if
	// nothing.
	Check(t *experiment.Tracer) error
	// Available says why the tracer cannot run on this machine, nil if it can;
	// where only another kernel is needed, it is a NotOffered.
	Available(ctx context.Context, t *experiment.Tracer, h *Host) error
	// Start switches the tracer on. The workload runs already, with the
	// variant's environment, and gets no requests yet.
	Start(ctx context.Context, t Target) (Session, error)
}

// Session is a tracer that is switched on.
type Session interface {
	// PIDs are the tracer's own processes, beside those of the workload.
	PIDs() []int
	// ReadBack asks the running tracer; the workload is still there.
	ReadBack(ctx context.Context) (Reading, error)
	// Alive is an error if the tracer has ended by itself.
	Alive() error
	// Stop switches it off and waits until it has sent the spans that it still
	// holds. It may be called more than once.
	Stop() error
}

// Reading is what a running tracer reports about itself.
type Reading struct {
	Asked  map[string]string // how it was switched on
	Config map[string]any    // what runs
	// Rate is the sampling rate in force, 0…1, if the tracer reports it.
	Rate    float64
	HasRate bool
	// Sampled and Unsampled are root decisions. HasRoots: the tracer counts
	// one for every request. Expected: the rate changes, and traces must arrive of
	// all requests that were sampled.
	Sampled, Unsampled uint64
	HasRoots           bool
	Expected           bool
	// Dropped spans; by reason in Lost. Counts: the tracer counts them.
	Dropped uint64
	Counts  bool
	Lost    map[string]uint64
	// Measured requests by service, as the tracer's own metrics count them; nil if it has no such metrics.
	Measured map[string]uint64
	Unlinked map[string]uint64 // what was sent while requests were sampled and not linked to one, by reason
	Programs []record.Program
}

// drivers by their names in an experiment file.
var drivers = map[string]Driver{
	"none":      none{},
	"env":       env{},
	"tare":      tare{},
	"collector": collector{},
	"command":   command{},
}

// Find finds the driver of a tracer.
func Find(t *experiment.Tracer) (Driver, error) {
	d, ok := drivers[t.Driver]
	if !ok {
		names := slices.Sorted(maps.Keys(drivers))
		return nil, fmt.Errorf("tracer %s: driver: %q is unknown: there are %s", t.Name, t.Driver, strings.Join(names, ", "))
	}
	return d, nil
}

// FactsOf the driver of a tracer; none are known of an unknown driver.
func FactsOf(t *experiment.Tracer) Facts {
	if d, ok := drivers[t.Driver]; ok {
		return d.Facts(t)
	}
	return Facts{}
}

// Check says what is wrong with the tracers of an experiment, nil if nothing.
func Check(tracers []experiment.Tracer) error {
	var errs []error
	for i := range tracers {
		t := &tracers[i]
		d, err := Find(t)
		if err == nil {
			err = errors.Join(d.Check(t), checkBehind(t, d.Facts(t)))
			if _, ok := d.(command); !ok && t.Process != nil {
				err = errors.Join(err, fmt.Errorf("tracer %s: process: only the driver command starts one", t.Name))
			}
		}
		errs = append(errs, err)
	}
	if len(tracers) > 0 && !FactsOf(&tracers[0]).Baseline {
		baselines := slices.DeleteFunc(slices.Sorted(maps.Keys(drivers)), func(name string) bool { return !drivers[name].Facts(&experiment.Tracer{}).Baseline })
		errs = append(errs, fmt.Errorf("tracers: the first must have the driver %s: it is the baseline that all others are compared with", strings.Join(baselines, " or ")))
	}
	return errors.Join(errs...)
}

// needsEnv is the check of drivers that the environment of the service switches
// on.
func needsEnv(t *experiment.Tracer) error {
	if len(t.Env) == 0 {
		return fmt.Errorf("tracer %s: env: say which environment switches it on", t.Name)
	}
	return noAgent(t)
}

// noAgent refuses what only an agent has.
func noAgent(t *experiment.Tracer) error {
	if t.Roots != 0 || len(t.Flags) > 0 || t.StopAt != "" || t.Neighbour {
		return fmt.Errorf("tracer %s: flags, roots, stop_at, neighbour: the driver %s has no agent that they could be of", t.Name, t.Driver)
	}
	return nil
}

// checkBehind is the check of a collector behind the tracer.
func checkBehind(t *experiment.Tracer, f Facts) error {
	if t.Collector && !f.Traces {
		return fmt.Errorf("tracer %s: collector: no span comes to it, of the driver %s or with stop_at or neighbour", t.Name, t.Driver)
	}
	if t.Keep != nil && !t.Collector {
		return fmt.Errorf("tracer %s: keep: it is the collector that keeps traces: add collector: true", t.Name)
	}
	if t.Store && !t.Collector {
		return fmt.Errorf("tracer %s: store: it is the collector that stores: add collector: true", t.Name)
	}
	if len(t.Processors) > 0 && !t.Collector {
		return fmt.Errorf("tracer %s: processors: they are the collector's: add collector: true", t.Name)
	}
	return nil
}
