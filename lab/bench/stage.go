package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/resolver"
	"github.com/tare-trace/tare/lab/sink"
	"github.com/tare-trace/tare/lab/tracer"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

// Stage is what all runs share: the network namespace of the services, the sink
// of their spans, and the number of the next request.
type Stage struct {
	// Tare is the executable whose agent is run.
	Tare string
	// Network is where services run; nil: loopback, where bytes cannot be
	// counted.
	Network *workloads.Network
	// Results is the directory that CPU profiles are kept in, under profiles/;
	// "": they are not kept.
	Results string
	// Progress, if set, is called with the share of a run that is done, and the
	// run's tracer.
	Progress func(done float64, s tracer.Session)
	// Say, if set, is told what takes long to start.
	Say func(format string, args ...any)

	dir   string
	names *resolver.Resolver // of the collector; nil: it is known by its address
	sink  *sink.Sink
	next  uint64 // the first request number that was not sent
}

// NewStage opens the sink and, if isolated, a network namespace for the
// services. The note is for readers of the results, if there is something that
// they must know. An empty tare stands for this executable.
func NewStage(tare string, isolated bool) (st *Stage, note string, err error) {
	st = &Stage{Tare: tare, next: 1}
	if st.Tare == "" {
		if st.Tare, err = os.Executable(); err != nil {
			return nil, "", fmt.Errorf("path of this executable: %w", err)
		}
	}
	if st.dir, err = os.MkdirTemp("", "tare-bench-"); err != nil {
		return nil, "", err
	}
	host := "127.0.0.1"
	if isolated && os.Geteuid() == 0 {
		if st.Network, err = workloads.NewNetwork("bench"); err != nil {
			return nil, "", errors.Join(err, st.Close())
		}
		host = st.Network.Gateway
	} else if isolated {
		note = "not root: services ran on loopback beside the load generator, and the bytes that left them were not counted"
	}
	st.sink, err = sink.New(sink.Options{Addr: net.JoinHostPort(host, "0"), File: filepath.Join(st.dir, "spans.bin")})
	if err != nil {
		return nil, "", errors.Join(err, st.Close())
	}
	return st, note, nil
}

// Resolve starts a server of names, which all services and tracers ask from now on.
func (st *Stage) Resolve(ctx context.Context) (err error) {
	if st.Network == nil {
		return errors.New("collector_fault: the names of collectors need a network namespace: run with sudo")
	}
	if st.names, err = resolver.New(ctx, st.Network.Gateway); err != nil {
		return err
	}
	st.Network.Resolv = st.names.Resolv
	return nil
}

// Close removes everything that the stage made.
func (st *Stage) Close() error {
	var errs []error
	if st.sink != nil {
		errs = append(errs, st.sink.Close())
	}
	if st.names != nil {
		errs = append(errs, st.names.Close())
	}
	if st.Network != nil {
		errs = append(errs, st.Network.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(st.dir))...)
}

// Sink receives the spans of the current run.
func (st *Stage) Sink() *sink.Sink { return st.sink }

// Job is one run: a variant beside a workload under a load.
type Job struct {
	Kind     record.Kind
	Workload *experiment.Workload
	Load     experiment.Load // with the rate that is to be sent
	Variant  experiment.Variant
	Warmup   time.Duration
	Window   time.Duration
	Requests uint64 // instead of a window, in a checked run: those after the warm-up
	Keep     bool   // the spans, if the tracer sends any, to count them and to compare them with the ground truth
	// MoreRoots: more root decisions than requests are a result and no failure. Where a
	// tracer does not find what caused a call, the call begins a trace of its own.
	MoreRoots bool
	// Started, if set, is called with the workload before tracing is switched
	// on.
	Started func(*workloads.Chain)
	// Inspect, if set, is called with the spans of a chain that has a shape,
	// and the result of comparing them with it; the stage's sink still holds
	// all spans.
	Inspect func(spans []span.Span, report fidelity.Report) error
}

// Run makes one run and writes its results into rec, as far as it came.
func (st *Stage) Run(ctx context.Context, j Job, rec *record.Run) (err error) {
	r := &run{stage: st, job: j, rec: rec}
	defer func() { err = errors.Join(err, r.stop(ctx)) }()
	for _, step := range []func(context.Context) error{
		r.prepare,
		r.startBehind,
		r.startWorkload,
		r.startTracer,
		r.sendLoad,
		r.readBack,
		r.stop, // services and tracers then send the spans that they still hold
		r.countSpans,
		r.diagnose,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}
