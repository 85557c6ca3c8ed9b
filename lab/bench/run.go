package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/lab/meter"
	"github.com/tare-trace/tare/lab/profile"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/tracer"
	"github.com/tare-trace/tare/workloads"
)

// samplePeriod is how often the meter reads memory within a window.
const samplePeriod = 100 * time.Millisecond

// run is one run under way.
type run struct {
	stage   *Stage
	job     Job
	rec     *record.Run
	chain   *workloads.Chain
	session tracer.Session

	reading  tracer.Reading
	total    load.Result   // the whole run, warm-up included
	underWay time.Duration // how long there was load
}

// underLoad sends the load and measures, and fills in what the window found.
func (r *run) underLoad(ctx context.Context) error {
	begin := time.Now()
	defer func() { r.underWay = time.Since(begin) }()
	if r.job.Load.Tool != "" {
		return r.tool(ctx)
	}
	opts := load.Options{
		Addr:        r.chain.Entry,
		Connections: r.job.Load.Connections,
		Rate:        r.job.Load.Rate,
		First:       r.stage.next,
		AppendPath:  r.chain.AppendPath,
		AppendBody:  r.chain.AppendBody,
		Header:      r.chain.Header,
	}
	if r.job.Requests > 0 {
		opts.Requests = r.job.Requests
		opts.Progress = func(ok, failed uint64) {
			if r.stage.Progress != nil {
				r.stage.Progress(float64(ok+failed)/float64(r.job.Requests), r.session)
			}
		}
	} else {
		opts.Duration = 24 * time.Hour // until Stop
	}
	g, err := load.Start(ctx, opts)
	if err != nil {
		return err
	}
	switch {
	case r.job.Requests > 0: // until all are sent
	case r.job.Kind == record.Profiled:
		err = r.profile(ctx, g)
	default:
		err = r.window(ctx, g)
	}
	if r.job.Requests == 0 {
		g.Stop()
	}
	total, waitErr := g.Wait()
	r.stage.next = total.Next
	r.total = total
	r.rec.Requests, r.rec.Failures, r.rec.Errors = total.OK+total.Failed, total.Failed, total.Errors
	if err := errors.Join(err, waitErr); err != nil {
		return errors.Join(err, r.session.Alive())
	}
	if total.OK == 0 {
		return fmt.Errorf("not one request was answered: %v", total.Errors)
	}
	if r.job.Requests > 0 {
		r.rec.Answers = total.OK
		r.loadValues(total)
	}
	return nil
}

// window measures after a warm-up.
func (r *run) window(ctx context.Context, g *load.Generator) error {
	if err := sleep(ctx, r.job.Warmup); err != nil {
		return err
	}
	session, err := meter.Begin(r.subjects())
	if err != nil {
		return err
	}
	g.Mark()
	r.stage.sink.Mark()
	waitErr := sleep(ctx, r.job.Window)
	answered := g.Mark()
	received := r.stage.sink.Mark()
	usage, err := session.End()
	if err := errors.Join(waitErr, err); err != nil {
		return err
	}
	return r.values(answered, received.Bytes, usage)
}

// tool is window with an external load generator.
func (r *run) tool(ctx context.Context) error {
	opts := load.ToolOptions{
		URL:         "http://" + r.chain.Entry + string(r.chain.AppendPath(nil, r.stage.next)),
		Connections: r.job.Load.Connections,
		Rate:        r.job.Load.Rate,
		Duration:    max(r.job.Warmup, time.Second),
	}
	warm, err := load.RunTool(ctx, r.job.Load.Tool, opts)
	if err != nil {
		return err
	}
	session, err := meter.Begin(r.subjects())
	if err != nil {
		return err
	}
	r.stage.sink.Mark()
	opts.Duration = r.job.Window
	answered, runErr := load.RunTool(ctx, r.job.Load.Tool, opts)
	received := r.stage.sink.Mark()
	usage, err := session.End()
	if err := errors.Join(runErr, err); err != nil {
		return err
	}
	r.total = answered
	r.total.OK += warm.OK
	r.total.Failed += warm.Failed
	r.rec.Requests, r.rec.Failures, r.rec.Errors = r.total.OK+r.total.Failed, r.total.Failed, answered.Errors
	return r.values(answered, received.Bytes, usage)
}

func (r *run) subjects() meter.Subjects {
	s := meter.Subjects{
		Groups: map[string]func() []int{"service": sometimes(r.chain.PIDs), "tracer": r.session.PIDs},
		Every:  samplePeriod,
	}
	if r.job.Variant.Tracer.MeterOff {
		s.Every = 0
	}
	if r.stage.Network != nil {
		s.Link = r.stage.Network.Link
	}
	return s
}

// sometimes asks for processes at most once a second: to look for children means
// to walk through all processes of the machine.
func sometimes(pids func() []int) func() []int {
	var last []int
	var asked time.Time
	return func() []int {
		if time.Since(asked) >= time.Second {
			last, asked = pids(), time.Now()
		}
		return last
	}
}

// profile takes a CPU profile of the service under load.
func (r *run) profile(ctx context.Context, g *load.Generator) error {
	if err := sleep(ctx, r.job.Warmup); err != nil {
		return err
	}
	g.Mark()
	p, err := profile.Fetch(ctx, "http://"+r.chain.Entry+r.job.Workload.Profile+"/profile", r.job.Window)
	answered := g.Mark()
	if err != nil {
		return err
	}
	r.rec.Window, r.rec.Answers = answered.Elapsed.Seconds(), answered.OK
	r.loadValues(answered)
	r.rec.Shares = profile.Shares(p, answered.OK)
	r.rec.Packages = profile.Packages(p, answered.OK)
	if r.stage.Results == "" {
		return nil
	}
	r.rec.Profile = filepath.Join("profiles", strings.NewReplacer("/", "_", " ", "_").Replace(r.rec.ID)+".pb.gz")
	return keep(p, filepath.Join(r.stage.Results, r.rec.Profile))
}

// readBack asks what ran; what ran instead of what was asked for is an error.
func (r *run) readBack(ctx context.Context) error {
	if err := r.session.Alive(); err != nil {
		return err
	}
	reading, err := r.session.ReadBack(ctx)
	r.reading = reading
	r.rec.Asked, r.rec.ReadBack = reading.Asked, reading.Config
	r.rec.Lost, r.rec.Programs = reading.Lost, reading.Programs
	r.rec.Decisions = record.Decisions{Sampled: reading.Sampled, Unsampled: reading.Unsampled}
	if err != nil {
		return err
	}
	if len(r.job.Variant.Tracer.Rates) > 0 && reading.HasRate && math.Abs(reading.Rate-r.job.Variant.Rate) > 1e-9 {
		return fmt.Errorf("%s runs with a sampling rate of %v, not %v", r.job.Variant.Name, reading.Rate, r.job.Variant.Rate)
	}
	if roots := float64(reading.Sampled + reading.Unsampled); roots > 0 {
		requests := float64(r.total.OK + r.total.Failed)
		if roots < 0.98*requests || roots > 1.02*requests {
			return fmt.Errorf("the tracer took %.0f root decisions on %.0f requests: it was blind, or took one more than once", roots, requests)
		}
	} else if reading.Counts && r.job.Variant.Tracer.Driver == "tare" {
		return fmt.Errorf("the tracer was blind: it took no root decision on %d requests", r.total.OK+r.total.Failed)
	}
	return nil
}

// count looks at the spans, when all have arrived.
func (r *run) count() error {
	v, requests := r.rec.Values, float64(r.total.OK+r.total.Failed)
	if r.reading.Counts {
		v[record.SpansDropped] = float64(r.reading.Dropped)
	}
	if r.reading.HasRate {
		v[record.SampledAsked] = r.reading.Rate
	}
	if roots := float64(r.reading.Sampled + r.reading.Unsampled); roots > 0 {
		v[record.SampledShare] = float64(r.reading.Sampled) / roots
	}
	if !r.job.Keep || r.job.Variant.Tracer.Driver == "none" {
		return nil
	}
	tally, err := r.stage.sink.Count()
	if err != nil {
		return err
	}
	v[record.SpansReceived] = float64(tally.Spans) / r.underWay.Seconds()
	v[record.SpansPerRequest] = float64(tally.Spans) / requests
	if _, known := v[record.SampledShare]; !known {
		traces := tally.Entries
		if traces == 0 {
			traces = tally.Rooted // a service whose spans are of no server's kind
		}
		v[record.SampledShare] = float64(traces) / requests
	}
	if r.total.Failed > 0 {
		v[record.FailedTraced] = float64(tally.FailedEntries) / float64(r.total.Failed)
	}
	r.rec.Fidelity = map[string]int{}
	if shape, err := fidelity.ShapeOf(r.job.Workload.Kind); err == nil {
		return r.classify(shape)
	}
	trees, err := r.stage.sink.Trees(r.job.Workload.Spans)
	if err != nil {
		return err
	}
	r.rec.Fidelity[record.FidelityComplete] = trees.Complete
	for reason, n := range trees.Incomplete {
		r.rec.Fidelity[reason] = n
	}
	if trees.Traces > 0 {
		v[record.Complete] = float64(trees.Complete) / float64(trees.Traces)
	}
	return nil
}

// classify holds the traces against the numbers that the requests carry.
func (r *run) classify(shape fidelity.Shape) error {
	spans, err := r.stage.sink.Spans(fidelity.Keys())
	if err != nil {
		return err
	}
	report := fidelity.Classify(spans, shape)
	if sampled := r.reading.Sampled; sampled > 0 && sampled < math.MaxInt32 {
		report.Expect(int(sampled))
	}
	f := r.rec.Fidelity
	f[record.FidelityComplete], f[record.FidelityWrong] = report.Complete, report.Wrong
	f[record.OrphanedSpans], f[record.SplitRequests] = report.Orphaned, report.Split
	for reason, n := range report.Incomplete {
		f[reason] = n
	}
	r.rec.Values[record.Wrong] = float64(report.Wrong)
	if report.Traces > 0 {
		r.rec.Values[record.Complete] = float64(report.Complete) / float64(report.Traces)
	}
	if r.job.Kind == record.Checked && len(r.rec.Programs) > 0 {
		var ns float64
		for _, p := range r.rec.Programs {
			ns += p.Total()
		}
		r.rec.Values[record.KernelPrograms] = ns / 1e3 / float64(r.total.OK+r.total.Failed)
	}
	if r.job.Inspect != nil {
		return r.job.Inspect(spans, report)
	}
	return nil
}

// keep writes a profile for go tool pprof.
func keep(p *profile.Profile, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // results are for all to read
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(p.Write(f), f.Close())
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
