package page_test

import (
	"bytes"
	"context"
	"fmt"
	nethttp "net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web"
)

func TestMain(m *testing.M) {
	code := m.Run()
	browser.end()
	if shared.stop != nil {
		shared.stop()
	}
	os.Exit(code)
}

// serve is the real handler on a real store with these spans.
func serve(dir string, health []string, data ...ptrace.Traces) (base string, s *store.Store, end func(), err error) {
	s, err = store.Open(store.Options{Dir: dir, NoSync: true})
	if err != nil {
		return "", nil, nil, err
	}
	for _, td := range data {
		if err := s.Write(context.Background(), td); err != nil {
			return "", nil, nil, err
		}
	}
	server := httptest.NewServer(web.New(web.Options{Store: s, Health: health, Version: "v0.0.0-test"}))
	return server.URL, s, func() {
		server.CloseClientConnections()
		server.Close()
		_ = s.Close() // the directory goes, too
	}, nil
}

func mustServe(t *testing.T, health []string, data ...ptrace.Traces) string {
	t.Helper()
	base, _, end, err := serve(t.TempDir(), health, data...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return base
}

// shared is a server with the shop's traces for the tests that only look.
var shared struct {
	once    sync.Once
	base    string
	special map[string]pcommon.TraceID
	stop    func()
	err     error
}

const shopTraces = 240

func shopServer(t *testing.T) (base string, special map[string]pcommon.TraceID) {
	t.Helper()
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "tare-page")
		if err != nil {
			shared.err = err
			return
		}
		metrics := httptest.NewServer(metricsOf(true))
		quiet := httptest.NewServer(metricsOf(false))
		td, special := shop(shopTraces, time.Now())
		shared.special = special
		var end func()
		shared.base, _, end, shared.err = serve(dir, []string{metrics.URL + "/metrics", quiet.URL + "/metrics", "http://127.0.0.1:1/metrics"}, td)
		shared.stop = func() {
			if end != nil {
				end()
			}
			metrics.Close()
			quiet.Close()
			_ = os.RemoveAll(dir)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.base, shared.special
}

// metricsOf is what an agent and a collector in one process tell of themselves;
// with losses, or an agent alone without any.
func metricsOf(losses bool) nethttp.Handler {
	var mu sync.Mutex
	asked := 0
	return nethttp.HandlerFunc(func(out nethttp.ResponseWriter, _ *nethttp.Request) {
		w := &bytes.Buffer{}
		defer func() { _, _ = w.WriteTo(out) }() // a browser that went away needs no answer
		mu.Lock()
		asked++
		n := asked
		mu.Unlock()
		lost := func(reason string, n int) { fmt.Fprintf(w, "tare_lost_total{reason=%q} %d\n", reason, n) }
		fmt.Fprintf(w, "# TYPE tare_roots_total counter\ntare_roots_total{sampled=\"true\"} %d\ntare_roots_total{sampled=\"false\"} %d\n", 1042+n*10, 40_518+n*400)
		fmt.Fprintf(w, "# TYPE tare_sampling_ratio gauge\ntare_sampling_ratio 0.025\n# TYPE tare_spans_total counter\ntare_spans_total %d\n# TYPE tare_open_spans gauge\ntare_open_spans 3\n", 9_310+n*90)
		fmt.Fprint(w, "# TYPE tare_connections_total counter\ntare_connections_total{state=\"armed\"} 12\ntare_connections_total{state=\"unarmed\"} 0\n# TYPE tare_unanswered_tags gauge\ntare_unanswered_tags{peer=\"10.0.0.1:5432\",sends_tags=\"false\"} 30\ntare_unanswered_tags{peer=\"[fd00::2]:80\",sends_tags=\"true\"} 400\n# TYPE tare_lost_total counter\n")
		for _, reason := range []string{"requests_full", "storage_full", "tag_no_room", "tag_stale", "record_malformed", "queue_full", "export_failed", "shutdown"} {
			lost(reason, 0)
		}
		if !losses {
			lost("ring_full", 0)
			return
		}
		fmt.Fprint(w, "# TYPE tare_weighed_seconds_total counter\ntare_weighed_seconds_total 20\n# TYPE tare_weighed_kernel_seconds_total counter\n# TYPE tare_weighed_requests_total counter\n"+
			"tare_weighed_kernel_seconds_total{service=\"shop\"} 0.012\ntare_weighed_kernel_seconds_total{service=\"\"} 0.004\ntare_weighed_requests_total{service=\"shop\"} 8000\nprocess_resident_memory_bytes 4.4e+07\n")
		lost("ring_full", 118)
		lost("record_orphaned", 2)
		fmt.Fprint(w, "# TYPE tare_unlinked_total counter\ntare_unlinked_total{reason=\"runtime\"} 31\ntare_unlinked_total{reason=\"stale\"} 0\n"+
			"# TYPE tare_tags_ignored_total counter\ntare_tags_ignored_total{reason=\"untrusted\"} 0\ntare_tags_ignored_total{reason=\"malformed\"} 0\n"+
			"# TYPE tare_bpf_program_runs_total counter\n# TYPE tare_bpf_program_run_seconds_total counter\n")
		for i, program := range []string{"on_recv", "on_send", "on_sockops", "on_close", "on_fork"} {
			runs := (5 - i) * (120_000 + 4_000*n)
			fmt.Fprintf(w, "tare_bpf_program_runs_total{program=%q,hook=\"tracepoint\"} %d\ntare_bpf_program_run_seconds_total{program=%q,hook=\"tracepoint\"} %g\n",
				program, runs, program, float64(runs)*float64(90+70*i)*1e-9)
		}
		fmt.Fprintf(w, "# TYPE otelcol_receiver_accepted_spans_total counter\notelcol_receiver_accepted_spans_total{receiver=\"otlp\"} %d\notelcol_receiver_refused_spans_total{receiver=\"otlp\"} 0\n", 9_310+n*90)
		fmt.Fprintf(w, "otelcol_exporter_sent_spans_total{exporter=\"tare_store\"} %d\notelcol_exporter_queue_size{exporter=\"otlp\"} 4\n", 9_000+n*90)
		fmt.Fprint(w, "tare_tracer_traces_total{state=\"complete\"} 1031\ntare_tracer_traces_total{state=\"unlinked\",reason=\"ends_at\"} 40\ntare_tracer_traces_total{state=\"incomplete\",reason=\"server_missing\"} 9\n"+
			"tare_tracer_traces_total{state=\"incomplete\",reason=\"parent_missing\"} 2\ntare_tracer_late_spans_total 5\n")
	})
}
