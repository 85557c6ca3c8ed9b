package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/lab/meter"
	"github.com/tare-trace/tare/lab/profile"
	"github.com/tare-trace/tare/lab/record"
)

// sendLoad sends the load and measures meanwhile.
func (r *run) sendLoad(ctx context.Context) error {
	begin := time.Now()
	warm, err := r.settle(ctx)
	if err != nil {
		return errors.Join(err, r.alive())
	}
	r.first, r.counting = r.stage.next, time.Now()
	s, err := r.load.Start(ctx, r.loadOptions())
	if err != nil {
		return err
	}
	switch {
	case r.job.Requests > 0: // until all are sent
	case r.job.Kind == record.Profiled:
		err = r.profile(ctx, s)
	default:
		err = r.window(ctx, s)
	}
	total, finishErr := s.Finish()
	r.counted = time.Now()
	r.underWay = r.counted.Sub(begin)
	r.stage.next = total.Next
	r.total = total
	r.total.OK, r.total.Failed = r.total.OK+warm.OK, r.total.Failed+warm.Failed
	r.rec.Requests, r.rec.Failures, r.rec.Errors = r.total.OK+r.total.Failed, r.total.Failed, total.Errors
	if err := errors.Join(err, finishErr); err != nil {
		return errors.Join(err, r.alive())
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

// settle sends requests that a checked run does not count, for the time of its warm-up: how a service hands its work
// over is known after its first ones only. Without numbers, their traces could not be told from those that count.
func (r *run) settle(ctx context.Context) (load.Result, error) {
	if r.job.Requests == 0 || r.job.Warmup == 0 || !r.kept || !r.numbered() {
		return load.Result{}, nil
	}
	opts := r.loadOptions()
	opts.Requests, opts.Progress = 0, nil
	s, err := r.load.Start(ctx, opts)
	if err != nil {
		return load.Result{}, err
	}
	err = r.warmUp(ctx, s)
	sent, finishErr := s.Finish()
	r.stage.next, r.rec.Warmup = sent.Next, r.job.Warmup.Seconds()
	if err := errors.Join(err, finishErr); err != nil {
		return sent, err
	}
	// An agent would trace what ReadBack asks the services, and count it among the requests that are checked.
	if s, ok := r.session.(interface {
		Sampled(context.Context) (uint64, error)
	}); ok {
		r.before, err = s.Sampled(ctx)
		return sent, err
	}
	reading, err := r.session.ReadBack(ctx)
	r.before = reading.Sampled
	return sent, err
}

// numbered reports whether traces can be compared with the numbers that their requests carry.
func (r *run) numbered() bool { return r.chain.Truth != nil && r.load.CanNumber() }

func (r *run) loadOptions() load.Options {
	opts := load.Options{
		Addr:         r.chain.Entry,
		Connections:  r.job.Load.Connections,
		Requests:     r.job.Requests,
		Rate:         r.job.Load.Rate,
		First:        r.stage.next,
		AppendPath:   r.chain.AppendPath,
		AppendHeader: r.chain.AppendHeader,
		AppendBody:   r.chain.AppendBody,
		Header:       r.chain.Header,
	}
	if r.job.Workload.Post {
		opts.BodySize = r.job.Workload.Size
	}
	if r.job.Requests > 0 && r.stage.Progress != nil {
		opts.Progress = func(ok, failed uint64) {
			r.stage.Progress(float64(ok+failed)/float64(r.job.Requests), r.session)
		}
	}
	return opts
}

// warmUp sends load that is not measured.
func (r *run) warmUp(ctx context.Context, s load.Session) error {
	if r.job.Warmup == 0 {
		return nil
	}
	_, err := s.Interval(ctx, r.job.Warmup, pause(r.job.Warmup))
	return err
}

// window measures for a while, after a warm-up.
func (r *run) window(ctx context.Context, s load.Session) error {
	if err := r.warmUp(ctx, s); err != nil {
		return err
	}
	before, err := r.aside(ctx)
	if err != nil {
		return err
	}
	session, err := meter.Begin(r.subjects())
	if err != nil {
		return err
	}
	r.stage.sink.Mark()
	answered, loadErr := s.Interval(ctx, r.job.Window, r.follow)
	received := r.stage.sink.Mark()
	usage, err := session.End()
	if err := errors.Join(loadErr, err); err != nil {
		return err
	}
	after, err := r.aside(ctx)
	if err != nil {
		return err
	}
	if err := r.values(answered, received.Bytes, usage); err != nil {
		return err
	}
	return r.asideValues(before, after)
}

func (r *run) subjects() meter.Subjects {
	s := meter.Subjects{
		Groups: map[string]func() []int{"service": sometimes(r.chain.PIDs), "tracer": r.pids},
		Every:  meter.DefaultEvery,
	}
	if len(r.names()) > 1 {
		first, _ := r.chain.Front()
		s.Groups["entry"] = func() []int { return first.PIDs }
	}
	if r.chain.Proxies() > 0 {
		s.Groups["proxy"] = sometimes(r.chain.ProxyPIDs)
	}
	if r.tracer.Facts(r.job.Variant.Tracer).Programs {
		s.Groups["agent"] = r.session.PIDs
	}
	if b := r.backend(); b != nil {
		s.Groups["collector"] = b.PIDs
	}
	if r.job.Variant.Tracer.MeterOff {
		s.Every = 0
	}
	if r.stage.Network != nil {
		s.Link, s.Loopback = r.stage.Network.Link, r.chain.Services[0].PIDs[0]
	}
	return s
}

// names of the services under test; replicas have one.
func (r *run) names() []string {
	var all []string
	for _, s := range r.chain.Services {
		if !s.Dependency && !slices.Contains(all, s.Name) {
			all = append(all, s.Name)
		}
	}
	return all
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

// profile takes a CPU profile of the service under load, after a warm-up.
func (r *run) profile(ctx context.Context, s load.Session) error {
	if err := r.warmUp(ctx, s); err != nil {
		return err
	}
	var p *profile.Profile
	answered, err := s.Interval(ctx, r.job.Window, func(ctx context.Context) (err error) {
		p, err = profile.Fetch(ctx, "http://"+r.chain.Entry+r.job.Workload.Profile+"/profile", r.job.Window)
		return err
	})
	if err != nil {
		return err
	}
	r.rec.Window, r.rec.Answers = answered.Elapsed.Seconds(), answered.OK
	r.loadValues(answered)
	r.rec.Shares = profile.Shares(p, answered.OK)
	r.rec.Packages = profile.Packages(p, answered.OK)
	if r.tracer.Facts(r.job.Variant.Tracer).Within {
		r.rec.Values[record.BatchShare] = p.Below(profile.BatchProcessor)
		r.rec.Values[record.RedisShare] = profile.Part(r.rec.Shares, profile.RedisInstrumentation)
	}
	if r.stage.Results == "" {
		return nil
	}
	r.rec.Profile = filepath.Join("profiles", strings.NewReplacer("/", "_", " ", "_").Replace(r.rec.ID)+".pb.gz")
	return keep(p, filepath.Join(r.stage.Results, r.rec.Profile))
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

// pause lets time pass.
func pause(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return nil
		}
	}
}
