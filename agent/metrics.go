package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/event"
	"github.com/tare-trace/tare/agent/export"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/spans"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/internal/browser"
)

// losses counts what was lost in user space, by reason; and apart from that,
// spans that were exported unfinished.
type losses struct {
	mu         sync.Mutex
	n          map[string]uint64
	unfinished map[string]uint64
}

func newLosses() *losses {
	l := &losses{n: map[string]uint64{}, unfinished: map[string]uint64{}}
	for _, r := range append(export.Reasons(), spans.LostMalformed, spans.LostOrphan, spans.LostUnknownService, LostRefused) {
		l.n[r] = 0
	}
	for _, r := range []string{spans.UnfinishedEvicted, spans.UnfinishedStopped, spans.UnfinishedTooOld, spans.UnfinishedUnseen} {
		l.unfinished[r] = 0
	}
	return l
}

// Lost implements export.LossCounter.
func (l *losses) Lost(reason string, n uint64) {
	l.mu.Lock()
	l.n[reason] += n
	l.mu.Unlock()
}

// Unfinished counts a span that was exported before its request was over.
func (l *losses) Unfinished(reason string) {
	l.mu.Lock()
	l.unfinished[reason]++
	l.mu.Unlock()
}

var (
	descLost = prometheus.NewDesc("tare_lost_total",
		"What should have become part of a span and did not, by reason.", []string{"reason"}, nil)
	descRecords = prometheus.NewDesc("tare_records_total",
		"Records of what happened to requests: those for which the kernel side found room, those that the agent has read; retro: those of requests that are not sampled.", []string{"side"}, nil)
	descControlFull = prometheus.NewDesc("tare_control_full_total",
		"News for the agent, as of processes, that found no room: it looks at all processes again.", nil, nil)
	descRoots = prometheus.NewDesc("tare_roots_total",
		"Root decisions at entry sockets.", []string{"sampled"}, nil)
	descAdopted = prometheus.NewDesc("tare_adopted_total",
		"Requests whose traceparent header was adopted.", nil, nil)
	descParentUnread = prometheus.NewDesc("tare_traceparent_unread_total",
		"Requests of trusted peers whose header was not read at once: if it has a traceparent, that may not be adopted.", nil, nil)
	descOwnCalls = prometheus.NewDesc("tare_own_calls_total",
		"Sampled calls that no request of their service caused: their client spans are the roots of traces.", nil, nil)
	descTags = prometheus.NewDesc("tare_tags_total",
		"Tags written (retransmissions included) and tags that began a request.", []string{"direction"}, nil)
	descIgnored = prometheus.NewDesc("tare_tags_ignored_total",
		"Received tags that were not believed, by reason.", []string{"reason"}, nil)
	descPaths = prometheus.NewDesc("tare_ip_paths_total",
		"What was found of peers' paths, each time it changed: with --tag ip, by what they do with IP options.", []string{"result"}, nil)
	descUnlinked = prometheus.NewDesc("tare_unlinked_total",
		"Messages sent while requests were sampled that could not be linked to one, by reason.", []string{"reason"}, nil)
	descConnections = prometheus.NewDesc("tare_connections_total",
		"Connections that were open before the agent, by what became of them.", []string{"state"}, nil)
	descDisarmed = prometheus.NewDesc("tare_disarmed_total",
		"Connections whose sock_ops flags another program has cleared, until they were set again.", nil, nil)
	descNotRequests = prometheus.NewDesc("tare_not_requests_total",
		"Sampled messages that were recognised as no requests: TLS handshakes and alerts, rests of bodies.", []string{"reason"}, nil)
	descMeasureFull = prometheus.NewDesc("tare_measured_other_total",
		"Requests measured without their service or edge: there was no room for more.", nil, nil)
	descApart = prometheus.NewDesc("tare_streams_apart_total",
		"Requests over HTTP/2 that begin a trace of their own here, since others began in the same TCP segment: a collector joins them.", nil, nil)
	descHTTP2 = prometheus.NewDesc("tare_http2_connections_total",
		"HTTP/2 connections.", nil, nil)
	descUnfinished = prometheus.NewDesc("tare_spans_unfinished_total",
		"Spans that were exported before their request was over, by reason.", []string{"reason"}, nil)
	descPipelined = prometheus.NewDesc("tare_pipelined_total",
		"Requests that began before the response to the one before.", nil, nil)
	descRuns = prometheus.NewDesc("tare_bpf_program_runs_total",
		"Runs of a kernel program; counted only while BPF statistics are enabled.", []string{"program", "hook"}, nil)
	descSeconds = prometheus.NewDesc("tare_bpf_program_run_seconds_total",
		"Time in a kernel program; measured only while BPF statistics are enabled.", []string{"program", "hook"}, nil)
	descCapability = prometheus.NewDesc("tare_capability",
		"What the tracer does where the kernel allows it: 1, it does; 0, this kernel has no hook for it.", []string{"name"}, nil)
	descDemand = prometheus.NewDesc("tare_hooks_on_demand",
		"Hooks that cost something for all of this host: 1, they are attached since something needs them.", []string{"for"}, nil)
	descSpans      = prometheus.NewDesc("tare_spans_total", "Spans built.", nil, nil)
	descOpen       = prometheus.NewDesc("tare_open_spans", "Spans in progress.", nil, nil)
	descRatio      = prometheus.NewDesc("tare_sampling_ratio", "Share of traces that root decisions keep, read back from the kernel side.", nil, nil)
	descServices   = prometheus.NewDesc("tare_services", "Services in containers, or outside of any, that are traced or were lately.", nil, nil)
	descUnanswered = prometheus.NewDesc("tare_unanswered_tags", "Requests in a row with a tag towards a peer whose address does not answer them; sends_tags: some come from there. Of the peers that were asked most.", []string{"peer", "sends_tags"}, nil)
	descLeftOut    = prometheus.NewDesc("tare_left_out", "What has no room in a table of the kernel side and is left out.", []string{"what"}, nil)
	descUnread     = prometheus.NewDesc("tare_unread_total", "Times that a process was not read, or not to the end, since it has more than is read of one process, by the limit.", []string{"limit"}, nil)
	descLive       = prometheus.NewDesc("tare_live_requests", "Sampled requests that wait for their response, as the kernel side sees it.", nil, nil)
)

// kernelCounters says where each counter of event.h is published.
var kernelCounters = []struct {
	counter bpf.Counter
	desc    *prometheus.Desc
	label   []string
}{
	{bpf.TareCounterTARE_C_ROOTS_SAMPLED, descRoots, []string{"true"}},
	{bpf.TareCounterTARE_C_ROOTS_UNSAMPLED, descRoots, []string{"false"}},
	{bpf.TareCounterTARE_C_ADOPTED, descAdopted, nil},
	{bpf.TareCounterTARE_C_PARENT_UNREAD, descParentUnread, nil},
	{bpf.TareCounterTARE_C_OWN_CALLS, descOwnCalls, nil},
	{bpf.TareCounterTARE_C_TAG_SENT, descTags, []string{"sent"}},
	{bpf.TareCounterTARE_C_TAG_RECEIVED, descTags, []string{"received"}},
	{bpf.TareCounterTARE_C_RECORDS, descRecords, []string{"kernel"}},
	{bpf.TareCounterTARE_C_CONTROL_FULL, descControlFull, nil},
	{bpf.TareCounterTARE_C_RING_FULL, descLost, []string{"ring_full"}},
	{bpf.TareCounterTARE_C_REQUESTS_FULL, descLost, []string{"requests_full"}},
	{bpf.TareCounterTARE_C_STORAGE_FULL, descLost, []string{"storage_full"}},
	{bpf.TareCounterTARE_C_TAG_NO_ROOM, descLost, []string{"tag_no_room"}},
	{bpf.TareCounterTARE_C_TAG_QUEUE_FULL, descLost, []string{"tag_queue_full"}},
	{bpf.TareCounterTARE_C_TAG_STALE, descLost, []string{"tag_stale"}},
	{bpf.TareCounterTARE_C_TAG_OVERFLOW, descLost, []string{"tag_overflow"}},
	{bpf.TareCounterTARE_C_TAG_UNTRUSTED, descIgnored, []string{"untrusted"}},
	{bpf.TareCounterTARE_C_TAG_MALFORMED, descIgnored, []string{"malformed"}},
	{bpf.TareCounterTARE_C_TAG_REPLAYED, descIgnored, []string{"replayed"}},
	{bpf.TareCounterTARE_C_ARMED, descConnections, []string{"armed"}},
	{bpf.TareCounterTARE_C_UNARMED, descConnections, []string{"unarmed"}},
	{bpf.TareCounterTARE_C_CONGESTION, descConnections, []string{"congestion_control"}},
	{bpf.TareCounterTARE_C_TLS_HANDSHAKE, descNotRequests, []string{"tls"}},
	{bpf.TareCounterTARE_C_NOT_REQUEST, descNotRequests, []string{"body"}},
	{bpf.TareCounterTARE_C_HTTP2, descHTTP2, nil},
	{bpf.TareCounterTARE_C_HTTP2LOST, descLost, []string{"http2_given_up"}},
	{bpf.TareCounterTARE_C_HEADERS_LOST, descLost, []string{"http2_headers"}},
	{bpf.TareCounterTARE_C_STREAMS_APART, descApart, nil},
	{bpf.TareCounterTARE_C_PIPELINED, descPipelined, nil},
	{bpf.TareCounterTARE_C_UNIX_OLD, descConnections, []string{"unix_unknown"}},
	{bpf.TareCounterTARE_C_MPTCP, descConnections, []string{"mptcp"}},
	{bpf.TareCounterTARE_C_UNIX_LOST, descLost, []string{"unix_given_up"}},
	{bpf.TareCounterTARE_C_TAG_NO_PATH, descLost, []string{"tag_no_path"}},
	{bpf.TareCounterTARE_C_PATH_PASSES, descPaths, []string{"pass"}},
	{bpf.TareCounterTARE_C_PATH_DROPS, descPaths, []string{"drop"}},
	{bpf.TareCounterTARE_C_PATH_SILENT, descPaths, []string{"unanswered"}},
	{bpf.TareCounterTARE_C_METRICS_FULL, descMeasureFull, nil},
	{bpf.TareCounterTARE_C_DISARMED, descDisarmed, nil},
	{bpf.TareCounterTARE_C_ROOTS_RETRO, descRoots, []string{"retro"}},
	{bpf.TareCounterTARE_C_RETRO_RECORDS, descRecords, []string{"retro"}},
	{bpf.TareCounterTARE_C_RETRO_FULL, descLost, []string{"retro_full"}},
	{bpf.TareCounterTARE_C_TRIGGERS_FULL, descLost, []string{"retro_triggers_full"}},
}

type collector struct{ a *Agent }

func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c collector) Collect(ch chan<- prometheus.Metric) {
	a := c.a
	counter := func(d *prometheus.Desc, v float64, label ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, label...)
	}
	if n, err := a.tracer.Counters(); err == nil {
		for _, k := range kernelCounters {
			counter(k.desc, float64(n.N[k.counter]), k.label...)
		}
		for reason := uint32(1); event.UnlinkedName(reason) != ""; reason++ {
			counter(descUnlinked, float64(n.Unlinked[reason]), event.UnlinkedName(reason))
		}
	}
	a.losses.mu.Lock()
	for reason, n := range a.losses.n {
		counter(descLost, float64(n), reason)
	}
	for reason, n := range a.losses.unfinished {
		counter(descUnfinished, float64(n), reason)
	}
	a.losses.mu.Unlock()
	if programs, err := a.tracer.Programs(); err == nil {
		missed := uint64(0)
		for _, p := range programs {
			missed += p.Missed
			counter(descRuns, float64(p.Runs), p.Name, p.Hook)
			counter(descSeconds, p.Runtime.Seconds(), p.Name, p.Hook)
		}
		counter(descLost, float64(missed), "hook_missed")
	}
	for _, name := range a.tracer.Capabilities() {
		there := 1.0
		if _, lost := a.lost[name]; lost {
			there = 0
		}
		ch <- prometheus.MustNewConstMetric(descCapability, prometheus.GaugeValue, there, name)
	}
	for demand, on := range a.discovery.demands.attached() {
		value := 0.0
		if on {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(descDemand, prometheus.GaugeValue, value, string(demand))
	}
	counter(descRecords, float64(a.records.Load()), "agent")
	counter(descSpans, float64(a.builds.Load()))
	ch <- prometheus.MustNewConstMetric(descOpen, prometheus.GaugeValue, float64(a.openSpans.Load()))
	if threshold, err := a.tracer.Threshold(); err == nil {
		ch <- prometheus.MustNewConstMetric(descRatio, prometheus.GaugeValue, config.Probability(threshold))
	}
	ch <- prometheus.MustNewConstMetric(descServices, prometheus.GaugeValue, float64(a.discovery.services.count.Load()))
	for _, h := range a.peers.list() {
		ch <- prometheus.MustNewConstMetric(descUnanswered, prometheus.GaugeValue, float64(h.requests), h.peer.String(), strconv.FormatBool(h.tags))
	}
	for what, n := range a.discovery.left.all() {
		ch <- prometheus.MustNewConstMetric(descLeftOut, prometheus.GaugeValue, float64(n), what)
	}
	for _, l := range reading.Limits {
		counter(descUnread, float64(reading.Unread(l)), string(l))
	}
	if live, err := a.tracer.LiveRequests(); err == nil {
		ch <- prometheus.MustNewConstMetric(descLive, prometheus.GaugeValue, float64(live))
	}
}

func listenError(err error) error {
	return fmt.Errorf("listen for /metrics and /healthz (choose another address with --listen, or none with --listen=): %w", err)
}

const (
	takingOver  = settling + draining + 30*time.Second // the agent before has ended by then
	listenAgain = 50 * time.Millisecond
)

// listen opens the address of /metrics and /healthz.
func (a *Agent) listen(address string) (serve func(context.Context) error, err error) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collector{a}, a.weigher, a.budget, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if a.exporter != nil {
		reg.MustRegister(a.exporter)
	}
	if a.requests != nil {
		reg.MustRegister(a.requests)
	}
	if a.sending != nil {
		reg.MustRegister(a.sending)
	}
	mux := http.NewServeMux()
	if a.retro != nil {
		reg.MustRegister(a.retro)
		mux.Handle("POST "+keepPath, a.retro)
		mux.HandleFunc("POST "+capturePath, a.retro.capture)
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.Handle("GET "+weightPath, a.weigher)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !a.healthy.Load() {
			http.Error(w, "not tracing", http.StatusServiceUnavailable)
			return
		}
		text := "tracing\n" + a.discovery.left.String() + a.budget.String()
		if n, err := a.tracer.Counters(); err == nil && n.N[bpf.TareCounterTARE_C_DISARMED] > 0 {
			text += fmt.Sprintf("another program has cleared sock_ops flags of %d connections, which were set again: requests meanwhile are not linked\n", n.N[bpf.TareCounterTARE_C_DISARMED])
		}
		if a.retro != nil {
			text += a.retro.String()
		}
		if a.exporter != nil {
			if err := a.exporter.Reachable(); err != nil {
				text += err.Error() + "\n"
			}
		}
		_, _ = io.WriteString(w, text) // the peer may be gone
	})
	l, err := net.Listen("tcp", address)
	occupied := errors.Is(err, unix.EADDRINUSE) && a.before != nil // until the agent before has ended
	if err != nil && !occupied {
		return nil, listenError(err)
	}
	srv := &http.Server{
		Handler: browser.Local(l.Addr(), mux), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	return func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
		defer stop()
		for deadline := time.Now().Add(takingOver); l == nil; {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(listenAgain):
			}
			if l, err = net.Listen("tcp", address); err != nil && time.Now().After(deadline) {
				return listenError(err)
			}
		}
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, nil
}
