// Package agent traces the services of this host: it loads the kernel side,
// tells it which processes and sockets to trace, turns its records into spans
// and hands them to an OTLP exporter or prints them. It never touches what it
// traces, and when it dies the kernel removes every hook.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/claim"
	"github.com/tare-trace/tare/agent/cluster"
	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/discover"
	"github.com/tare-trace/tare/agent/export"
	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/agent/print"
	"github.com/tare-trace/tare/agent/red"
	"github.com/tare-trace/tare/agent/spans"
	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/span"
)

const (
	readerNice    = -10                    // of the thread that reads the event ring, 0 being usual
	pollInterval  = 100 * time.Millisecond // of the event ring; it wakes the agent earlier when half full
	sweepInterval = 100 * time.Millisecond // of spans that wait for more bytes
	fileInterval  = time.Second            // of the configuration file's modification time
	drainTimeout  = 10 * time.Second       // for the exporter at shutdown
	loadingGC     = 50                     // as GOGC, while programs are loaded: less garbage at the peak of the agent's memory
)

// Options are what a command gives besides the configuration.
type Options struct {
	Config config.Config
	// Reload reads the configuration again, on SIGHUP and when its file changes.
	Reload func() (config.Config, error)
	// Cluster opens the cluster that this host is a node of; nil: this program cannot.
	Cluster NewCluster
	Stdout  io.Writer // for Config.Print
	Log     *slog.Logger
	// Ready, if set, is called once tracing has begun.
	Ready func()
	// Consume, if set, takes spans in this process, and nothing is exported by
	// OTLP. It is called from one goroutine, which also reads the kernel's
	// records: it must not block. Spans and their attributes are reused when it
	// returns; only a Resource may be kept. What it cannot hand on, it tells
	// lost, whenever it knows, from any goroutine.
	Consume func(finished []*span.Span, lost LostFunc)
}

// NewCluster opens a cluster as the configuration says, and does not ask it yet.
type NewCluster func(cfg *config.Config, log *slog.Logger) (cluster.Source, error)

// LostFunc counts n lost spans at /metrics, tare_lost_total, by reason:
// LostQueueFull or LostRefused.
type LostFunc func(reason string, n uint64)

// Reasons for a Consume function to lose spans.
const (
	LostQueueFull = export.ReasonQueueFull // what takes them does not keep up
	LostRefused   = "refused"              // it took them, and did not want them
)

var messages = map[string]spans.Messages{
	config.EventsOff: spans.NoMessages, config.EventsOn: spans.WithMessages, config.EventsOnly: spans.OnlyMessages,
}

var carriers = map[string]bpf.TareTagCarrier{config.TagTCP: bpf.TagTCP, config.TagIP: bpf.TagIP, config.TagNone: bpf.TagNone}

// Agent is a running agent.
type Agent struct {
	cfg       atomic.Pointer[config.Config]
	opts      Options
	log       *slog.Logger
	tracer    *kernel.Tracer
	builder   *spans.Builder
	cluster   cluster.Source // nil: none
	discovery *discovery
	weigher   *weigher
	budget    *budget
	exporter  *export.Exporter // nil where spans are only printed
	printer   print.Printer    // nil where spans are only exported
	losses    *losses
	peers     *peers
	claim     *claim.Claim
	cgroup    string       // below which sockets are seen
	before    *claim.Other // the agent that this one takes over from, nil if there was none
	healthy   atomic.Bool
	lost      map[string]tier.Loss // by capability, what this kernel has not
	requests  *red.Collector       // of all requests; nil: they are not measured
	sending   *export.Metrics      // of requests; nil: they are not exported
	records   atomic.Uint64        // read from the event ring
	builds    atomic.Uint64        // spans built
	retro     *retroactive         // nil: off
	openSpans atomic.Int64
}

// Run traces until ctx ends. What it returns says what to do.
func Run(ctx context.Context, o Options) error {
	a := &Agent{opts: o, log: o.Log, losses: newLosses(), peers: newPeers(o.Log)}
	a.cfg.Store(&o.Config)
	if err := a.output(ctx); err != nil { // first: a wrong endpoint needs no kernel programs
		return err
	}
	if err := a.openCluster(); err != nil {
		return errors.Join(err, a.endExport())
	}
	if err := a.claimHost(ctx); err != nil {
		if ctx.Err() != nil { // it was told to end while it waited for another agent
			err = nil
		}
		return errors.Join(err, a.endExport())
	}
	defer a.claim.Close()
	if err := a.load(); err != nil {
		return errors.Join(err, a.endExport())
	}
	defer a.tracer.Close()
	if o.Config.BPFStats {
		stats, err := kernel.EnableStats()
		if err != nil {
			return errors.Join(err, a.endExport())
		}
		defer stats.Close()
	}
	a.builder = spans.New(a.building())

	if err := a.measure(); err != nil {
		return errors.Join(err, a.endExport())
	}
	if err := a.beginRetro(); err != nil {
		return errors.Join(err, a.endExport())
	}
	serve := func(context.Context) error { return nil }
	if o.Config.Listen != "" {
		var err error
		if serve, err = a.listen(o.Config.Listen); err != nil {
			return errors.Join(err, a.endExport())
		}
	}
	a.boundMemory()
	debug.FreeOSMemory() // what loading took
	a.lower()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return serve(ctx) })
	if a.sending != nil {
		host, _ := os.Hostname() // without one, the attribute is empty
		deltas := a.requests.Deltas(time.Now(), map[string]string{"service.name": "tare-agent", "service.version": Version, "host.name": host})
		g.Go(func() error { a.sending.Run(ctx, deltas); return nil })
	}
	if a.exporter != nil && o.Config.StopAt == "" {
		g.Go(func() error { a.exporter.Watch(ctx); return nil })
	}
	learned := make(chan struct{}) // what the cluster says of this node
	if a.cluster == nil {
		close(learned)
	} else {
		g.Go(func() error { return a.cluster.Watch(ctx, func() { close(learned) }, a.discovery.clusterChanged) })
	}
	g.Go(func() error {
		select {
		case <-learned:
			return a.pump(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	g.Go(func() error { return a.discovery.watch(ctx) })
	g.Go(func() error { return a.reloads(ctx) })
	g.Go(func() error { return a.weigher.run(ctx) })
	g.Go(func() error { return a.budget.run(ctx) })
	if a.retro != nil {
		g.Go(func() error { a.retro.talk(ctx); return nil })
	}
	err := g.Wait()
	if errors.Is(err, context.Canceled) || errors.Is(err, errSucceeded) {
		err = nil
	}
	return errors.Join(err, a.drain())
}

// openCluster prepares to ask the cluster, if it is to be asked.
func (a *Agent) openCluster() error {
	cfg := a.cfg.Load()
	switch {
	case !cfg.AsksCluster():
		return nil
	case a.opts.Cluster != nil:
		in, err := a.opts.Cluster(cfg, a.log)
		if err != nil {
			return cli.Usage(fmt.Errorf("kubernetes: %w; without it, what runs in containers is traced too: kubernetes: off", err))
		}
		a.cluster = in
		return nil
	case cfg.Kubernetes == config.KubernetesOn:
		return cli.Usage(errors.New("kubernetes: this program has no client for it: `tare agent` and the agent of Tare's image have one"))
	}
	a.log.Warn("this is a pod, and this program has no client for Kubernetes: spans have no k8s.* attributes; `tare agent` and the agent of Tare's image have one")
	return nil
}

// peer names the service behind an address, if a cluster knows it.
func (a *Agent) peer() func(netip.Addr, uint16) string {
	if a.cluster == nil {
		return nil
	}
	return a.cluster.Service
}

// building is how spans are built.
func (a *Agent) building() spans.Config {
	cfg := a.cfg.Load()
	return spans.Config{
		Resource:   a.discovery.resource,
		Peer:       a.peer(),
		Keep:       a.discovery.services.keep,
		Emit:       a.emit,
		Batch:      a.batch(),
		Lost:       a.losses.Lost,
		Unfinished: a.losses.Unfinished,
		TraceState: config.TraceState,
		MaxOpen:    cfg.MaxSpans,
		Messages:   messages[cfg.Events],
		Sequence:   cfg.Sequence,
		Headers:    cfg.Headers,
		Peers:      a.peers,
	}
}

func (a *Agent) load() error {
	if os.Getenv("GOGC") == "" { // else somebody has decided
		defer debug.SetGCPercent(debug.SetGCPercent(loadingGC))
	}
	cfg := a.cfg.Load()
	threshold, parentBased, err := config.Threshold(cfg.Sampler, cfg.SamplerArg)
	if err != nil {
		return err
	}
	want := cfg.Tier
	if want == config.AutoTier {
		want = ""
	}
	a.budget = newBudget(cfg.Budget, threshold,
		func(threshold uint64) error { return a.tracer.SetThreshold(threshold) }, nil, a.log)
	if cfg.Retro.On() {
		a.budget.retro = &retroShare{most: cfg.Retro.Share, share: cfg.Retro.Share, set: func(threshold uint64) error { return a.tracer.SetRetroThreshold(threshold) }}
	}
	a.tracer, err = kernel.Load(kernel.Options{
		Tier:        want,
		Cgroup:      a.cgroup,
		Claim:       a.claim,
		Tag:         carriers[cfg.Tag],
		Empty:       cfg.StopAt == config.StopAtPrograms,
		Payload:     cfg.Payload,
		Traceparent: cfg.Payload,
		ParentBased: parentBased,
		Sequence:    cfg.Sequence,
		Metrics:     cfg.Metrics == config.MetricsRequests,
		SameHost:    cfg.SameHost,
		ArmNV:       cfg.ArmOpen == config.ArmNV,
		Threshold:   a.budget.threshold(),
		Retro:       cfg.Retro.Memory,
		Log:         a.log,

		RetroThreshold: config.ThresholdOf(cfg.Retro.Share),
	})
	if err != nil {
		return err
	}
	if cfg.Tag == config.TagNone {
		a.log.Info("no tags between hosts: each takes root decisions of its own; sequence is on, so that a collector's tare_tracer joins the spans", "tag", cfg.Tag)
	}
	a.lost = map[string]tier.Loss{}
	for _, l := range a.tracer.Lost() {
		a.lost[l.Capability] = l
		a.log.Warn("kernel feature unavailable", "capability", l.Capability, "without", l.Without, "reason", l.Reason)
	}
	a.discovery = newDiscovery(a.tracer, *cfg, a.log, a.cluster, func(cfg config.Config) system { return host{discover.New("", cfg, a.cluster)} })
	exported := func() uint64 { return 0 }
	if a.exporter != nil {
		exported = a.exporter.Bytes
	}
	a.weigher = newWeigher(a.tracer, a.discovery.resource, a.builds.Load, exported)
	a.budget.measure = spending(a.weigher)
	return nil
}

// output sets up where spans go: to an OTLP receiver unless they are only to
// be printed.
func (a *Agent) output(ctx context.Context) error {
	cfg := a.cfg.Load()
	if cfg.Print != "" {
		p, err := print.New(a.opts.Stdout, cfg.Print)
		if err != nil {
			return err
		}
		a.printer = p
	}
	if cfg.StopAt != "" {
		a.log.Warn("this agent measures what stages cost: no spans come out", "stop_at", cfg.StopAt)
	}
	switch {
	case a.opts.Consume != nil || cfg.StopAt != "" && cfg.StopAt != config.StopAtSending:
		return nil
	case cfg.Export.Exporter == config.ExporterNone:
		a.log.Info("span export is disabled by OTEL_TRACES_EXPORTER", "print", cfg.Print)
		return nil
	case cfg.Export.Exporter == "" && cfg.Print != "" && !endpointSet():
		a.log.Info("spans are printed, not exported: neither an OTLP endpoint nor OTEL_TRACES_EXPORTER=otlp is set", "print", cfg.Print)
		return nil
	}
	e, err := export.New(ctx, export.Config{
		Protocol:      cfg.Export.Protocol,
		ScopeName:     "github.com/tare-trace/tare/agent",
		ScopeVersion:  Version,
		MaxQueue:      cfg.Queue,
		MaxQueueBytes: queueBytes(),
		Discard:       cfg.StopAt == config.StopAtSending,
		Loss:          a.losses,
		Log:           a.log,
	})
	if err != nil {
		return cli.Usage(fmt.Errorf("set up the exporter: %w", err)) // all that can be wrong is how it is configured
	}
	a.exporter = e
	return nil
}

// measure sets up what is measured of all requests, and where it goes.
func (a *Agent) measure() error {
	cfg := a.cfg.Load()
	if cfg.Metrics != config.MetricsRequests {
		return nil
	}
	a.requests = red.New(a.tracer, a.discovery.resource, a.discovery.namespace, a.peer())
	a.discovery.released = a.requests.Forget
	if cfg.MetricsInterval == 0 || a.exporter == nil && cfg.Export.Exporter != config.ExporterNone {
		return nil // as spans, they are exported where there is a receiver
	}
	m, err := export.NewMetrics(export.Config{Protocol: cfg.Export.Protocol, Log: a.log}, cfg.MetricsInterval)
	if err != nil {
		return cli.Usage(fmt.Errorf("set up the exporter of metrics: %w", err))
	}
	a.sending = m
	return nil
}

func endpointSet() bool {
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

func (a *Agent) emit(finished []*span.Span) {
	if a.printer != nil {
		a.printer.Add(finished)
	}
	switch {
	case a.opts.Consume != nil:
		a.opts.Consume(finished, a.losses.Lost)
	case a.exporter != nil:
		a.exporter.Export(finished)
	}
}

// encodedAtOnce is how many spans are encoded after one another: as many as a CPU's
// second cache holds beside what is read.
const encodedAtOnce = 32

// batch is how many spans are emitted at once, 0 for the builder's own choice: a
// collector has a cost for each batch that it is given.
func (a *Agent) batch() int {
	if a.opts.Consume != nil {
		return 0
	}
	return encodedAtOnce
}

// pump moves records from the ring to the builder. It owns the builder.
func (a *Agent) pump(ctx context.Context) error {
	runtime.LockOSThread() // one thread, which ends with this: for its CPU time, and its priority
	// Services that want all CPUs make more records than the ring holds in the time
	// that one thread of many waits for its turn.
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), readerNice); err != nil {
		a.log.Warn("the thread that reads records has no priority over what is traced: where all CPUs are busy, records may be lost; needs CAP_SYS_NICE", "err", err)
	}
	if a.before != nil {
		a.discovery.begin = func() error { return a.takeOver(ctx) }
	}
	if err := a.discovery.start(); err != nil {
		return err
	}
	a.healthy.Store(true)
	if a.opts.Ready != nil {
		a.opts.Ready()
	}
	a.log.Info("tracing", "services", a.discovery.names(), "sampler", a.cfg.Load().Sampler, "arg", a.cfg.Load().SamplerArg)
	a.discovery.missing()

	handle := a.builder.Handle
	if a.cfg.Load().StopAt == config.StopAtRecords {
		handle = func([]byte) {}
	}
	swept := time.Now()
	var end succession
	for ctx.Err() == nil {
		switch over, err := a.succeeded(&end); {
		case err != nil:
			return err
		case over:
			return errSucceeded
		}
		n, err := a.tracer.Poll(pollInterval, handle)
		a.records.Add(uint64(n)) //nolint:gosec // a number of records
		if err != nil {
			a.healthy.Store(false)
			return err
		}
		if time.Since(swept) >= sweepInterval {
			a.builder.Sweep()
			swept = time.Now()
			if a.printer != nil {
				a.printer.Flush(false)
			}
		} else {
			a.builder.Flush()
		}
		if a.retro != nil {
			a.retro.tick()
		}
		a.builds.Store(a.built())
		a.openSpans.Store(int64(a.open()))
	}
	return nil
}

// drain takes what is still in the ring, finishes spans and exports the rest.
func (a *Agent) drain() error {
	_ = a.tracer.EnableEntry(false)
	_, err := a.tracer.Poll(0, a.builder.Handle)
	a.builder.FinishAll()
	if a.retro != nil {
		err = errors.Join(err, a.retro.end())
	}
	if a.printer != nil {
		a.printer.Flush(true)
	}
	return errors.Join(err, a.endExport())
}

// endExport exports what is left.
func (a *Agent) endExport() error {
	if a.exporter == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := a.exporter.Shutdown(ctx); err != nil {
		return fmt.Errorf("the receiver did not take all spans within %v: %w", drainTimeout, err)
	}
	return nil
}

// reloads obeys SIGHUP and changes of the configuration file.
func (a *Agent) reloads(ctx context.Context) error {
	hup := cli.Hangups()
	tick := time.NewTicker(fileInterval)
	defer tick.Stop()
	modified := modTime(a.cfg.Load().File)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			a.reload()
		case <-tick.C:
			if m := modTime(a.cfg.Load().File); !m.Equal(modified) {
				modified = m
				a.reload()
			}
		}
	}
}

func modTime(file string) time.Time {
	if file == "" {
		return time.Time{}
	}
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// AtRestart names what two configurations differ in that an agent takes over only when it starts.
func AtRestart(old, cfg *config.Config) (names []string) {
	_, wasParentBased, _ := config.Threshold(old.Sampler, old.SamplerArg)
	_, parentBased, _ := config.Threshold(cfg.Sampler, cfg.SamplerArg)
	for _, setting := range []struct {
		name    string
		differs bool
	}{
		{"whether the sampler is parent based", parentBased != wasParentBased},
		{"tier", cfg.Tier != old.Tier},
		{"tag", cfg.Tag != old.Tag},
		{"same_host", cfg.SameHost != old.SameHost},
		{"arm_open", cfg.ArmOpen != old.ArmOpen},
		{"payload", cfg.Payload != old.Payload},
		{"headers", !slices.Equal(cfg.Headers, old.Headers)},
		{"sequence", cfg.Sequence != old.Sequence},
		{"events", cfg.Events != old.Events},
		{"metrics", cfg.Metrics != old.Metrics || cfg.MetricsInterval != old.MetricsInterval},
		{"listen", cfg.Listen != old.Listen},
		{"print", cfg.Print != old.Print},
		{"export", cfg.Export != old.Export},
		{"queue", cfg.Queue != old.Queue},
		{"max_spans", cfg.MaxSpans != old.MaxSpans},
		{"instance", cfg.Instance != old.Instance},
		{"bpf_stats", cfg.BPFStats != old.BPFStats},
		{"stop_at", cfg.StopAt != old.StopAt},
		{"retro", !reflect.DeepEqual(cfg.Retro, old.Retro)},
		{"kubernetes", cfg.AsksCluster() != old.AsksCluster()},
		{"kubeconfig", cfg.Kubeconfig != old.Kubeconfig},
		{"node", cfg.Node != old.Node},
	} {
		if setting.differs {
			names = append(names, setting.name)
		}
	}
	return names
}

// reload takes over what can change while running: sampler, services, trust.
// A configuration that does not read is refused whole and the old one stays.
func (a *Agent) reload() {
	if a.opts.Reload == nil {
		return
	}
	cfg, err := a.opts.Reload()
	if err != nil {
		a.log.Error("reload refused, the old configuration stays", "error", err)
		return
	}
	threshold, _, err := config.Threshold(cfg.Sampler, cfg.SamplerArg)
	if err != nil {
		a.log.Error("reload refused, the old configuration stays", "error", err)
		return
	}
	if names := AtRestart(a.cfg.Load(), &cfg); len(names) > 0 {
		a.log.Warn("what these settings say changes only when the agent is restarted", "settings", strings.Join(names, ", "))
	}
	if err := a.budget.configure(cfg.Budget, threshold); err != nil {
		a.log.Error("cannot change the sampling rate", "error", err)
		return
	}
	a.cfg.Store(&cfg)
	if err := a.discovery.reconfigure(cfg); err != nil {
		a.log.Error("cannot select services", "error", err)
	}
	a.log.Info("reloaded", "sampler", cfg.Sampler, "arg", cfg.SamplerArg, "services", a.discovery.names())
	a.discovery.missing()
}
