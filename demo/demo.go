// Package demo shows and measures the tracer on a real chain of services: it
// starts the chain, lets the agent trace it as a user would (the binary, its
// configuration file, OTLP), and reports one trace, the fidelity of all, and
// what the tracing cost. It imports nothing of the agent: it reads the agent's
// /metrics and the spans that it sends.
//
// After that it runs all of Tare on the chain, as a user would, for its page.
//
// It refuses to flatter: the cost is the median of interleaved rounds with its
// interval, beside a control that compares the untraced chain with itself, and
// a traced window in which the agent did not see the requests is an error, not
// a cheap window.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tare-trace/tare/lab/bench"
	"github.com/tare-trace/tare/lab/progress"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

// Options of a demonstration.
type Options struct {
	Chain       string
	Requests    uint64        // of the fidelity run
	Concurrency int           // connections, one request in flight on each
	Sample      float64       // 0…1
	Rounds      int           // of the cost; 0: do not measure it
	JSON        bool          // one object on standard output instead of text
	Window      time.Duration // measured, per variant and round
	Warmup      time.Duration // before each window
	Install     bool          // packages that are missing
	Page        string        // address of the page that is served in the end; "": none
	Tare        string        // the executable that is shown, tare-agent beside it; "": this one
	Seed        uint64        // of the order of windows
}

// Defaults are the options of `tare demo` without flags.
func Defaults() Options {
	return Options{
		Chain:       "shop",
		Requests:    20_000,
		Concurrency: 32,
		Sample:      1,
		Rounds:      8,
		Window:      2 * time.Second,
		Warmup:      300 * time.Millisecond,
		Install:     true,
		Page:        "127.0.0.1:4680",
		Seed:        1,
	}
}

func (o *Options) validate() error {
	switch {
	case o.Requests == 0:
		return errors.New("--requests must be at least 1")
	case o.Concurrency < 1:
		return errors.New("--concurrency must be at least 1")
	case !(o.Sample >= 0 && o.Sample <= 1): // NaN is neither
		return errors.New("--sample must be between 0 and 1")
	case o.Rounds < 0:
		return errors.New("--rounds must not be negative")
	case o.Rounds > 0 && o.Window < time.Second:
		return errors.New("--window must be at least 1s: the kernel counts idle time in steps of 10 ms")
	case o.Warmup < 0:
		return errors.New("the warm-up must not be negative")
	}
	if _, err := workloads.TruthOf(o.Chain); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("tare demo loads kernel programs, which needs root: run it with sudo")
	}
	if o.Tare == "" {
		exe, err := os.Executable()
		if err != nil {
			return fmt.Errorf("path of this executable: %w", err)
		}
		o.Tare = exe
	}
	return nil
}

// Run runs a demonstration; the report goes to stdout, everything else to
// stderr. After a report for people it serves the page until ctx ends. However
// it ends, no process and no file is left.
func Run(ctx context.Context, opts Options, stdout, stderr io.Writer) error {
	if err := opts.validate(); err != nil {
		return err
	}
	if opts.Install {
		needed, err := workloads.Requirements(opts.Chain)
		if err != nil {
			return err
		}
		if err := workloads.Ensure(ctx, stderr, needed); err != nil {
			return err
		}
	}
	result, example, err := run(ctx, opts, stderr)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", err)
		}
		return err
	}
	if opts.JSON {
		return result.WriteJSON(stdout)
	}
	if len(example) > 0 {
		if err := span.WriteTree(stdout, example); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(stdout); err != nil {
			return err
		}
	}
	if err := result.WriteTable(stdout); err != nil || opts.Page == "" {
		return err
	}
	return servePage(ctx, opts, stdout, stderr)
}

// stage is what all steps of a demonstration share.
type stage struct {
	opts     Options
	lab      *bench.Stage
	progress *progress.Line
}

func run(ctx context.Context, opts Options, stderr io.Writer) (result *Result, example []span.Span, err error) {
	st := &stage{opts: opts}
	st.progress = progress.New(stderr, st.plan())
	defer st.progress.Stop()

	// On loopback, as the numbers in docs/cost.md have always been.
	if st.lab, _, err = bench.NewStage(opts.Tare, false); err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, st.lab.Close()) }()

	st.lab.Say = st.progress.Say

	result = newResult(opts)
	if opts.Rounds > 0 {
		if err := st.try(ctx); err != nil {
			return nil, nil, err
		}
		cost, err := st.measure(ctx)
		if err != nil {
			return nil, nil, err
		}
		cost.into(result)
	}
	example, err = st.check(ctx, result)
	if err != nil {
		return nil, nil, err
	}
	return result, example, nil
}

// plan lists the steps and about how long they take, for the progress line.
func (st *stage) plan() []progress.Step {
	var steps []progress.Step
	if st.opts.Rounds > 0 {
		steps = append(steps, progress.Step{Name: trialStep, About: 3 * time.Second})
	}
	for round := range st.opts.Rounds {
		for _, v := range []variant{untracedA, untracedB, traced} {
			d := st.opts.Warmup + st.opts.Window + 500*time.Millisecond // to start and stop the chain
			if v == traced {
				d += 1500 * time.Millisecond // and the agent
			}
			steps = append(steps, progress.Step{Name: windowName(round, st.opts.Rounds, v), About: d})
		}
	}
	// 2,000 requests a second is a guess; the step corrects it as it goes.
	run := time.Duration(float64(st.opts.Requests) / 2000 * float64(time.Second))
	return append(steps, progress.Step{Name: fidelityStep, About: run + 4*time.Second})
}
