package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"time"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/scrape"
	"github.com/tare-trace/tare/lab/tracer"
	"github.com/tare-trace/tare/workloads"
)

// run is one run that is being made: Stage.Run has its steps in order.
type run struct {
	stage *Stage
	job   Job
	rec   *record.Run
	kept  bool // the sink keeps the spans

	collector string // host:port that the tracer sends spans to
	listen    string // host:port that services reach the tracer at, if it is started by a command line

	tracer  tracer.Driver
	load    load.Driver
	chain   *workloads.Chain
	session tracer.Session
	behind  *tracer.Behind   // a collector that the spans pass, counted as the tracer; nil: none
	server  scrape.Histogram // of the service's requests in the whole run, as it counts them

	total    load.Result   // the whole run, warm-up included
	first    uint64        // the first request of a checked run that is counted
	counting time.Time     // when that was sent
	counted  time.Time     // when the last one was answered
	before   uint64        // traces that were sampled before it
	underWay time.Duration // how long load was sent
	reading  tracer.Reading
}

// prepare finds the drivers, and empties the sink.
func (r *run) prepare(context.Context) (err error) {
	j, rec := &r.job, r.rec
	rec.Kind, rec.Workload, rec.Load = j.Kind, j.Workload.Name, j.Load.Name
	rec.Variant, rec.Tracer, rec.Rate = j.Variant.Name, j.Variant.Tracer.Name, j.Variant.Rate
	rec.Begin, rec.Values = time.Now().UTC(), map[string]float64{}
	if r.tracer, err = tracer.Find(j.Variant.Tracer); err != nil {
		return err
	}
	if r.load, err = load.Find(j.Load.Tool); err != nil {
		return err
	}
	r.kept = j.Keep && r.tracer.Facts(j.Variant.Tracer).Traces && !j.Variant.Tracer.Fault.Broken()
	if err := r.stage.sink.Reset(); err != nil {
		return err
	}
	r.stage.sink.Keep(r.kept)
	if r.collector, err = r.stage.collector(j.Variant.Tracer.Fault); err != nil || j.Variant.Tracer.Process == nil {
		return err
	}
	host, _, err := net.SplitHostPort(r.stage.sink.Addr())
	if err != nil {
		return err
	}
	r.listen, err = workloads.FreeAddressOf(host)
	return err
}

// startBehind starts the collector that the tracer's spans pass, if there is one.
func (r *run) startBehind(ctx context.Context) (err error) {
	if r.job.Variant.Tracer.Collector {
		r.behind, err = tracer.StartBehind(ctx, r.target())
	}
	return err
}

// target is what the tracer is started for, as far as it is there.
func (r *run) target() tracer.Target {
	return tracer.Target{
		Chain: r.chain, Workload: r.job.Workload, Variant: r.job.Variant, Sink: r.placeholders(), Tare: r.stage.Tare,
		Resolv: r.stage.resolv(), Statistics: r.job.Kind == record.Checked, Say: r.stage.Say,
	}
}

// placeholders say where the services and the tracer send spans.
func (r *run) placeholders() experiment.Placeholders {
	p := experiment.Placeholders{OTLP: "http://" + r.collector, OTLPAddr: r.collector, Listen: r.listen, Round: r.rec.Round}
	if r.behind != nil {
		p = r.behind.Through(p)
	}
	return p
}

// startWorkload starts the services with the environment of the variant.
func (r *run) startWorkload(ctx context.Context) (err error) {
	w, p := r.job.Workload, r.placeholders()
	p.Rate = r.job.Variant.Rate
	env := map[string]string{}
	for k, v := range w.Env {
		env[k] = p.Expand(v)
	}
	maps.Copy(env, r.job.Variant.Environment(p))
	var argv []string
	for _, a := range w.Command {
		argv = append(argv, p.Expand(a))
	}
	opts := chainOptions(w, env, argv)
	opts.Network = r.stage.Network
	if r.chain, err = workloads.Start(ctx, w.Kind, opts); err != nil {
		return err
	}
	if r.job.Started != nil {
		r.job.Started(r.chain)
	}
	return nil
}

// startTracer switches tracing on.
func (r *run) startTracer(ctx context.Context) (err error) {
	r.session, err = r.tracer.Start(ctx, r.target())
	return err
}

// alive is an error if the tracer, or the collector behind it, has ended by itself.
func (r *run) alive() error {
	err := r.session.Alive()
	if r.behind != nil {
		err = errors.Join(err, r.behind.Alive())
	}
	return err
}

// pids are the tracer's processes, the collector behind it among them.
func (r *run) pids() []int {
	if r.behind != nil {
		return append(r.session.PIDs(), r.behind.PIDs()...)
	}
	return r.session.PIDs()
}

// backend is the collector that spans come to before the sink: behind the tracer, or
// the service under test itself; nil: there is none.
func (r *run) backend() *tracer.Backend {
	if r.behind != nil {
		return r.behind.Backend
	}
	if s, ok := r.session.(interface{ Backend() *tracer.Backend }); ok {
		return s.Backend()
	}
	return nil
}

// readBack asks what ran; what ran instead of what was asked for is an error.
func (r *run) readBack(ctx context.Context) error {
	if err := r.alive(); err != nil {
		return err
	}
	reading, err := r.session.ReadBack(ctx)
	if err == nil && r.behind != nil {
		err = r.behind.Read(ctx, &reading)
	}
	if err == nil && r.job.Workload.Metrics != "" {
		r.server, err = r.served(ctx)
	}
	r.reading = reading
	r.rec.Asked, r.rec.ReadBack = reading.Asked, reading.Config
	r.rec.Lost, r.rec.Unlinked, r.rec.Programs = reading.Lost, reading.Unlinked, reading.Programs
	r.rec.Decisions = record.Decisions{Sampled: reading.Sampled, Unsampled: reading.Unsampled}
	if err != nil {
		return err
	}
	if len(r.job.Variant.Tracer.Rates) > 0 && reading.HasRate && math.Abs(reading.Rate-r.job.Variant.Rate) > 1e-9 {
		return fmt.Errorf("%s runs with a sampling rate of %v, not %v", r.job.Variant.Name, reading.Rate, r.job.Variant.Rate)
	}
	if roots := float64(reading.Sampled + reading.Unsampled); roots > 0 {
		requests := r.total.OK + r.total.Failed
		due := float64(requests) * float64(r.job.Variant.Tracer.RootsOfARequest())
		// A call that is not linked is a root where it arrives: a few of a process's
		// first ones are, where the kernel has to fetch its code from the disk.
		most := math.Ceil(1.02*due) + 5 + float64(r.job.Variant.Tracer.Settling)
		if roots < 0.98*due || roots > most && !r.job.MoreRoots && !r.chain.Unlinked {
			return fmt.Errorf("the tracer took %.0f root decisions on %d requests, and not about %.0f: it was blind, or took one too often", roots, requests, due)
		}
	} else if reading.HasRoots {
		return fmt.Errorf("the tracer was blind: it took no root decision on %d requests", r.total.OK+r.total.Failed)
	}
	return nil
}

// stop ends the services, then the tracer, then the collector behind it. It may be called more than once.
func (r *run) stop(context.Context) error {
	var errs []error
	// What hangs at a collector that does not answer would keep services from ending in time.
	r.stage.sink.Stall(false)
	if r.chain != nil {
		errs = append(errs, r.chain.Stop())
	}
	if r.session != nil {
		errs = append(errs, r.session.Stop())
	}
	if r.behind != nil {
		errs = append(errs, r.behind.Stop())
	}
	return errors.Join(errs...)
}
