package agent

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/agent/retro"
	"github.com/tare-trace/tare/agent/retro/coordinator"
	"github.com/tare-trace/tare/agent/spans"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/keep"
)

// retroactive is what an agent has with --retro: the memory of requests that are not sampled, and what takes traces out of it.
type retroactive struct {
	cfg     config.Retro
	log     *slog.Logger
	tracer  *kernel.Tracer
	memory  *kernel.Retro
	keeper  *retro.Keeper
	builder *spans.Builder
	others  *coordinator.Client // nil: no coordinator is configured
	last    time.Time
	mapped  sync.RWMutex
	ended   bool        // the memory is not mapped any more
	hurried atomic.Bool // the delay is less than configured, and that was told
}

// beginRetro sets it up, if it is configured.
func (a *Agent) beginRetro() error {
	cfg := a.cfg.Load().Retro
	memory, err := a.tracer.Retro()
	if err != nil || memory == nil {
		return err
	}
	r := &retroactive{cfg: cfg, log: a.log, tracer: a.tracer, memory: memory}
	if len(cfg.Endpoints) > 0 {
		if r.others, err = a.coordinators(cfg.Endpoints, func(keeps []keep.Keep) { r.keeper.Want(keeps) }); err != nil {
			return errors.Join(err, memory.Close())
		}
	}
	r.keeper = retro.New(memory, retro.Config{
		Delay: cfg.Delay, PerSecond: cfg.Triggers, Slow: cfg.Slow, Services: memory.Services(),
		Handle: func(raw []byte) { r.builder.Handle(raw) },
		Tell: func(k keep.Keep) {
			if r.others != nil {
				r.others.Keep(k)
			}
		},
		Service: func(index uint16) string {
			if res := a.discovery.resource(index); res != nil {
				return res.Service
			}
			return ""
		},
	})
	building := a.building()
	building.Now = r.keeper.Now
	building.Kept = func(trace span.TraceID, id uint64, root bool) string { return string(r.keeper.Reason(trace, id, root)) }
	building.MaxAge = time.Minute // records that were overwritten do not come
	building.Peers = nil          // the requests of kept traces are too few to tell
	r.builder = spans.New(building)
	a.retro = r
	a.log.Info("retroactive sampling is on", "memory_mib", cfg.Memory>>20, "share", cfg.Share, "slow", cfg.Slow, "delay", cfg.Delay, "coordinators", len(cfg.Endpoints))
	if r.others == nil {
		a.log.Warn("retroactive sampling has no coordinator: of a trace that another host keeps, this one keeps nothing; name a collector with the extension tare_retro by --retro-endpoint")
	}
	return nil
}

// tick is called by the thread that reads records.
func (r *retroactive) tick() {
	if time.Since(r.last) < retro.Tick {
		return
	}
	r.last = time.Now()
	r.keeper.Tick(spans.Monotonic())
	r.builder.Sweep()
	switch s := r.keeper.Stats(); {
	case s.Horizon > 0 && s.Delay < r.cfg.Delay:
		if !r.hurried.Swap(true) {
			r.log.Warn("the memory of retroactive sampling is overwritten soon: traces are taken out earlier than configured, so that late spans may be missing; give it more memory (retro), or fewer requests (retro_share)",
				"horizon", s.Horizon, "delay", s.Delay)
		}
	case s.Delay == r.cfg.Delay:
		r.hurried.Store(false)
	}
}

// talk talks to the coordinators.
func (r *retroactive) talk(ctx context.Context) {
	if r.others != nil {
		r.others.Run(ctx)
	}
}

// end takes what is wanted and was not read yet.
func (r *retroactive) end() error {
	now := spans.Monotonic()
	r.keeper.Tick(now)
	r.keeper.Tick(now + uint64(r.cfg.Delay)) //nolint:gosec // positive
	r.builder.FinishAll()
	r.mapped.Lock() // metrics may be asked for until the process ends
	defer r.mapped.Unlock()
	r.ended = true
	return r.memory.Close()
}

// String is a line for /healthz.
func (r *retroactive) String() string {
	s := r.keeper.Stats()
	reach := "since the start"
	if s.Horizon > 0 {
		reach = "for " + s.Horizon.Round(100*time.Millisecond).String()
	}
	text := fmt.Sprintf("retroactive sampling: requests are remembered %s, and traces are kept %v after their requests\n", reach, s.Delay.Round(100*time.Millisecond))
	if r.others != nil {
		if c := r.others.Stats(); c.Reachable < c.Endpoints {
			text += fmt.Sprintf("%d of %d coordinators are reachable: without one, this host keeps its own parts of traces alone\n", c.Reachable, c.Endpoints)
		}
	}
	return text
}

var (
	descTriggers = prometheus.NewDesc("tare_retro_triggers_total",
		"Requests that asked for their traces after the fact: kept, of a trace that is kept already, or too many.", []string{"outcome"}, nil)
	descRetroKept = prometheus.NewDesc("tare_retro_traces_total",
		"Traces that this host has begun to keep after the fact, by reason.", []string{"reason"}, nil)
	descRetroRecords = prometheus.NewDesc("tare_retro_records_total",
		"Records of requests that are not sampled: kept, torn (still being written when later ones were read), no_room.", []string{"outcome"}, nil)
	descRetroOverwritten = prometheus.NewDesc("tare_retro_overwritten_bytes_total",
		"Records that were overwritten while a trace was looked for.", nil, nil)
	descWaiting = prometheus.NewDesc("tare_retro_waiting",
		"Traces that were asked for, and whose records are not all read yet.", nil, nil)
	descHorizon = prometheus.NewDesc("tare_retro_horizon_seconds",
		"How far back the memory of requests that are not sampled reaches; 0: it has not been filled yet.", nil, nil)
	descDelay = prometheus.NewDesc("tare_retro_delay_seconds",
		"How long after a request the records of a kept trace are taken.", nil, nil)
	descCoordinators = prometheus.NewDesc("tare_retro_coordinators",
		"Coordinators of retroactive sampling.", []string{"state"}, nil)
	descKeeps = prometheus.NewDesc("tare_retro_keeps_total",
		"Traces that coordinators were told of, or told this host of.", []string{"outcome"}, nil)
)

// Describe implements prometheus.Collector.
func (r *retroactive) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(r, ch) }

// Collect implements prometheus.Collector.
func (r *retroactive) Collect(ch chan<- prometheus.Metric) {
	s := r.keeper.Stats()
	counter := func(d *prometheus.Desc, v uint64, label ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), label...)
	}
	gauge := func(d *prometheus.Desc, v float64, label ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, label...)
	}
	for _, reason := range keep.Reasons() {
		counter(descRetroKept, s.Kept[reason], string(reason))
	}
	counter(descTriggers, s.Triggered-min(s.Triggered, s.Limited+s.Repeated), "kept")
	counter(descTriggers, s.Repeated, "repeated")
	counter(descTriggers, s.Limited, "limited")
	counter(descRetroRecords, s.Records, "kept")
	counter(descRetroRecords, s.Torn, "torn")
	counter(descRetroRecords, s.Crowded, "no_room")
	counter(descRetroOverwritten, s.Overwritten)
	gauge(descWaiting, float64(s.Waiting)+float64(r.unread(s.Asked)))
	gauge(descHorizon, s.Horizon.Seconds())
	gauge(descDelay, s.Delay.Seconds())
	if r.others == nil {
		return
	}
	c := r.others.Stats()
	gauge(descCoordinators, float64(c.Reachable), "reachable")
	gauge(descCoordinators, float64(c.Endpoints-c.Reachable), "unreachable")
	counter(descKeeps, c.Sent, "sent")
	counter(descKeeps, c.Limited, "limited")
	counter(descKeeps, c.Dropped, "dropped")
	counter(descKeeps, c.Received, "received")
}

// unread are the triggers that were not read, of which so many were.
func (r *retroactive) unread(read uint64) uint64 {
	r.mapped.RLock()
	defer r.mapped.RUnlock()
	if r.ended {
		return 0
	}
	written := uint64(0)
	for i := range r.memory.Services() {
		rule := r.memory.Rule(i)
		written += rule.Triggered() - min(rule.Triggered(), rule.Limited())
	}
	if n, err := r.tracer.Counters(); err == nil {
		read += n.N[bpf.TareCounterTARE_C_TRIGGERS_FULL]
	}
	return written - min(written, read)
}

// Paths at the address of /metrics.
const (
	keepPath    = "/v1/retro/keep"    // POST {"trace_id": "…"}
	capturePath = "/v1/retro/capture" // POST {"service": "…", "seconds": 10}
	maxAsked    = 64 << 10            // bytes of a body
)

// asked reads what is asked for by a request. Only who is on this host may ask: the address of /metrics has no authentication.
func asked(w http.ResponseWriter, r *http.Request, into any) bool {
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !from.Addr().Unmap().IsLoopback() {
		http.Error(w, "traces are asked for at a loopback address of this host, or at the coordinator", http.StatusForbidden)
		return false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAsked))
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		http.Error(w, "the body is no object of JSON that can be read: "+err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

// capture keeps all that a service did lately.
func (r *retroactive) capture(w http.ResponseWriter, req *http.Request) {
	var ask struct {
		Service string  `json:"service"`
		Seconds float64 `json:"seconds"`
	}
	if !asked(w, req, &ask) {
		return
	}
	if ask.Service == "" || !(ask.Seconds > 0 && ask.Seconds <= maxCapture.Seconds()) {
		http.Error(w, fmt.Sprintf("want a service, and seconds from more than 0 to %v", maxCapture.Seconds()), http.StatusBadRequest)
		return
	}
	select {
	case n := <-r.keeper.Capture(ask.Service, time.Duration(ask.Seconds*float64(time.Second))):
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(captured{n}) // the peer may be gone
	case <-req.Context().Done():
	}
}

type captured struct {
	Traces int `json:"traces"`
}

const maxCapture = 10 * time.Minute

// ServeHTTP keeps a trace that somebody names.
func (r *retroactive) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var ask struct {
		TraceID string `json:"trace_id"`
	}
	if !asked(w, req, &ask) {
		return
	}
	id, err := hex.DecodeString(ask.TraceID)
	if err != nil || len(id) != len(span.TraceID{}) || span.TraceID(id).IsZero() {
		http.Error(w, fmt.Sprintf("trace_id %.64q is not 32 hexadecimal digits that are not all 0", ask.TraceID), http.StatusBadRequest)
		return
	}
	k := keep.Keep{TraceID: span.TraceID(id), Reason: keep.Outside, Ago: time.Minute}
	r.keeper.Want([]keep.Keep{k})
	if r.others != nil {
		r.others.Keep(k)
	}
	w.WriteHeader(http.StatusAccepted)
}

// coordinators are asked with the headers and certificates of the receiver of spans, as OTEL_EXPORTER_OTLP_* has them.
func (a *Agent) coordinators(endpoints []string, kept func([]keep.Keep)) (*coordinator.Client, error) {
	headers, certificates, err := otlphttp.Credentials()
	if err != nil {
		return nil, cli.Usage(err)
	}
	if strings.HasPrefix(endpoints[0], "http://") {
		certificates = nil // they are for https
	}
	host, _ := os.Hostname() // without one, the instance has only its number
	c, err := coordinator.New(coordinator.Options{
		Endpoints: endpoints, Headers: headers, TLS: certificates, Instance: host + "/" + a.cfg.Load().Instance, Kept: kept, Log: a.log,
	})
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("retro_endpoint: %w", err))
	}
	return c, nil
}

// built is how many spans were finished.
func (a *Agent) built() uint64 {
	n := a.builder.Built()
	if a.retro != nil {
		n += a.retro.builder.Built()
	}
	return n
}

// open is how many spans are in progress.
func (a *Agent) open() int {
	n := a.builder.Open()
	if a.retro != nil {
		n += a.retro.builder.Open()
	}
	return n
}
