// Package tracer switches tracers under test on and off beside a workload, and
// asks them what they do. A driver is one file: it implements Driver and stands in
// the table below. It refuses to believe a command line: what a tracer runs with
// is what the running process says of itself.
package tracer

import (
	"context"
	"fmt"
	"slices"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/workloads"
)

// Target is what a tracer is switched on beside.
type Target struct {
	Chain    *workloads.Chain
	Workload *experiment.Workload
	Variant  experiment.Variant
	Sink     experiment.Placeholders // where spans go; its Rate is not used
	Tare     string                  // path of the tare executable; tare-agent is beside it
	// Statistics asks for what costs something to know, such as the run time
	// of kernel programs.
	Statistics bool
}

// Driver is a way to trace.
type Driver interface {
	// Available says why the tracer cannot run on this machine, nil if it can.
	Available(ctx context.Context, t *experiment.Tracer) error
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
	// Stop switches it off and waits; what it still holds is sent first. It
	// may be called more than once.
	Stop() error
}

// Reading is what a tracer says of itself.
type Reading struct {
	Asked  map[string]string // how it was switched on
	Config map[string]any    // what runs
	// Rate is the sampling rate that runs, 0…1, if the tracer tells.
	Rate    float64
	HasRate bool
	// Sampled and Unsampled are root decisions, where the tracer counts them.
	Sampled, Unsampled uint64
	// Dropped spans, where the tracer counts them; by reason in Lost.
	Dropped  uint64
	Counts   bool // Sampled, Unsampled and Dropped are known
	Lost     map[string]uint64
	Programs []record.Program
}

// drivers by their names in an experiment file.
var drivers = map[string]Driver{
	"none":      none{},
	"env":       env{},
	"tare":      tare{},
	"collector": collector{},
}

// Find finds the driver of a tracer.
func Find(t *experiment.Tracer) (Driver, error) {
	d, ok := drivers[t.Driver]
	if !ok {
		return nil, fmt.Errorf("tracer %s: no driver %q: there are %v", t.Name, t.Driver, Names())
	}
	return d, nil
}

// Names of the drivers, sorted.
func Names() []string {
	var names []string
	for n := range drivers {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
