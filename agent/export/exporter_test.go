package export

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"

	"github.com/tare-trace/tare/span"
)

func forEachProtocol(t *testing.T, test func(t *testing.T, r *receiver)) {
	for _, p := range protocols {
		t.Run(p, func(t *testing.T) { test(t, newReceiver(t, p)) })
	}
}

// The receiver decodes with the official types what the client was given as
// unknown fields: grouped by resource, unharmed by the reuse of the spans.
func TestDelivers(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, r *receiver) {
		r.start(t)
		var lost losses
		cfg := testConfig(r, &lost)
		cfg.ScopeName, cfg.ScopeVersion = "tare", "1.2"
		e := newExporter(t, cfg)
		a := &span.Resource{Service: "a", Attrs: []span.Attr{span.Int("process.pid", 1)}}
		b := &span.Resource{Service: "b"}

		for round := range 2 { // the second one with used buffers
			sent := []*span.Span{testSpan(0, a), testSpan(1, b), testSpan(2, a), testSpan(3, nil), testSpan(4, b)}
			want := []span.Span{*testSpan(0, a), *testSpan(2, a), *testSpan(1, b), *testSpan(4, b), *testSpan(3, &span.Resource{})}
			e.Export(sent[:2])
			e.Export(nil)
			e.Export(sent[2:])
			for _, s := range sent {
				s.Name, s.Attrs[0] = "reused", span.String("reused", "reused")
			}
			mustFlush(t, e)
			if got := r.spans(t)[round*len(want):]; !reflect.DeepEqual(got, want) {
				t.Fatalf("round %d:\ngot  %+v\nwant %+v", round, got, want)
			}
		}
		for _, req := range r.requests {
			if n := len(req.ResourceSpans); n != 3 {
				t.Errorf("%d groups, want 3", n)
			}
			for _, rs := range req.ResourceSpans {
				if len(rs.ScopeSpans) != 1 || rs.ScopeSpans[0].Scope.GetName() != "tare" || rs.ScopeSpans[0].Scope.GetVersion() != "1.2" {
					t.Errorf("scopes %v", rs.ScopeSpans)
				}
			}
		}
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		checkMetrics(t, e, 10, 0)
		e.Export(testSpans(3, a))
		lost.check(t, map[string]uint64{ReasonShutdown: 3})
		if err := e.Shutdown(t.Context()); err != nil {
			t.Errorf("second Shutdown: %v", err)
		}
		if err := e.Flush(t.Context()); err != nil {
			t.Errorf("Flush after Shutdown: %v", err)
		}
	})
}

func TestShutdownSendsTheQueue(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, r *receiver) {
		r.start(t)
		var lost losses
		cfg := testConfig(r, &lost)
		cfg.MaxBatch = 10
		e := newExporter(t, cfg)
		e.Export(testSpans(95, nil))
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if n := r.distinct(t); n != 95 {
			t.Errorf("%d spans arrived", n)
		}
		checkMetrics(t, e, 95, 0)
		lost.check(t, nil)
	})
}

func TestEnvironmentIsHonoured(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-test=yes")
	forEachProtocol(t, func(t *testing.T, r *receiver) {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.url())
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json") // overridden
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", r.protocol)
		r.start(t)
		var lost losses
		e := newExporter(t, testConfig(nil, &lost))
		e.Export(testSpans(100, nil))
		mustFlush(t, e)
		if n := r.distinct(t); n != 100 {
			t.Errorf("%d spans arrived", n)
		}
		if r.encoding != "gzip" || r.header != "yes" {
			t.Errorf("encoding %q, header %q", r.encoding, r.header)
		}
		lost.check(t, nil)
	})
}

// JSON from the environment would make the HTTP client send empty requests.
func TestProtocolOverridesJSON(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	r := newReceiver(t, HTTPProtobuf)
	r.start(t)
	var lost losses
	e := newExporter(t, testConfig(r, &lost))
	e.Export(testSpans(1, nil))
	mustFlush(t, e)
	checkMetrics(t, e, 1, 0)
	if n := r.distinct(t); n != 1 {
		t.Errorf("%d spans arrived", n)
	}
}

func TestPartialSuccess(t *testing.T) {
	for name, tc := range map[string]struct {
		rejected int64
		message  string
		lost     map[string]uint64
		sent     float64
	}{
		"some":           {3, "too old", map[string]uint64{ReasonRejected: 3}, 7},
		"without reason": {10, "", map[string]uint64{ReasonRejected: 10}, 0},
		"a remark":       {0, "please upgrade", nil, 10},
		"more than sent": {1000, "?", map[string]uint64{ReasonRejected: 10}, 0},
		"negative":       {-1, "?", nil, 10},
	} {
		t.Run(name, func(t *testing.T) {
			forEachProtocol(t, func(t *testing.T, r *receiver) {
				r.answer = func(context.Context) (*coltracepb.ExportTracePartialSuccess, error) {
					return &coltracepb.ExportTracePartialSuccess{RejectedSpans: tc.rejected, ErrorMessage: tc.message}, nil
				}
				r.start(t)
				var lost losses
				e := newExporter(t, testConfig(r, &lost))
				e.Export(testSpans(10, nil))
				mustFlush(t, e)
				lost.check(t, tc.lost)
				checkMetrics(t, e, tc.sent, 0)
				if r.seen != 1 {
					t.Errorf("%d requests for one batch", r.seen)
				}
			})
		})
	}
}

func TestRefusedBatchIsNotRetried(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, r *receiver) {
		var refuse atomic.Bool
		r.answer = func(context.Context) (*coltracepb.ExportTracePartialSuccess, error) {
			if refuse.Load() {
				return nil, errRefused
			}
			return nil, nil
		}
		r.start(t)
		var lost losses
		e := newExporter(t, testConfig(r, &lost))
		refuse.Store(true)
		e.Export(testSpans(10, nil))
		mustFlush(t, e)
		refuse.Store(false)
		e.Export(testSpans(5, nil))
		mustFlush(t, e)
		lost.check(t, map[string]uint64{ReasonExportFailed: 10})
		checkMetrics(t, e, 5, 1)
		if r.seen != 2 {
			t.Errorf("%d requests, want 2", r.seen)
		}
	})
}

func TestBusyReceiverIsAskedAgain(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, r *receiver) {
		var asked atomic.Int64
		r.answer = func(context.Context) (*coltracepb.ExportTracePartialSuccess, error) {
			if asked.Add(1) < 4 {
				return nil, errBusy
			}
			return nil, nil
		}
		r.start(t)
		var lost losses
		e := newExporter(t, testConfig(r, &lost))
		e.Export(testSpans(10, nil))
		mustFlush(t, e)
		lost.check(t, nil)
		checkMetrics(t, e, 10, 0)
		if n := asked.Load(); n != 4 {
			t.Errorf("%d requests, want 4", n)
		}
	})
}

// A receiver that is down at first, up, down, and up again loses nothing as
// long as the queue holds it.
func TestReceiverDownThenUp(t *testing.T) {
	// Of the gRPC client for all retries of one request, of the HTTP one for each.
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
	forEachProtocol(t, func(t *testing.T, r *receiver) {
		var lost losses
		e := newExporter(t, testConfig(r, &lost))
		flushed := make(chan error, 1)
		for range 2 {
			e.Export(testSpans(100, nil))
			go func() { flushed <- e.Flush(t.Context()) }()
			time.Sleep(250 * time.Millisecond) // until one request has timed out
			r.start(t)
			if err := <-flushed; err != nil {
				t.Fatal(err)
			}
			if n := r.distinct(t); n != 100 {
				t.Errorf("%d distinct spans arrived", n)
			}
			r.stop()
			r.requests = nil
		}
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		lost.check(t, nil)
		checkMetrics(t, e, 200, 0)
	})
}

// hang makes the receiver take requests and not answer them until released.
func hang(r *receiver) (release func()) {
	gate := make(chan struct{})
	r.answer = func(ctx context.Context) (*coltracepb.ExportTracePartialSuccess, error) {
		select {
		case <-gate:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return sync.OnceFunc(func() { close(gate) })
}

func TestHangingReceiverFillsTheQueue(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, r *receiver) {
		release := hang(r)
		r.start(t)
		defer release()
		var lost losses
		cfg := testConfig(r, &lost)
		cfg.MaxQueue, cfg.MaxBatch = 100, 10
		e := newExporter(t, cfg)
		for i := range 500 { // would never end if Export waited
			e.Export([]*span.Span{testSpan(i, nil)})
		}
		lost.check(t, map[string]uint64{ReasonQueueFull: 400})
		if b := metrics(t, e)["tare_export_queue_bytes"]; b <= 0 {
			t.Errorf("queue of %v bytes", b)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Flush(over); !errors.Is(err, context.Canceled) {
			t.Errorf("Flush: %v", err)
		}
		if err := e.Shutdown(over); !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown: %v", err)
		}
		lost.check(t, map[string]uint64{ReasonQueueFull: 400, ReasonShutdown: 100})
		checkMetrics(t, e, 0, 0)
	})
}

func TestHangingReceiverComesBack(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, r *receiver) {
		release := hang(r)
		r.start(t)
		defer release()
		var lost losses
		cfg := testConfig(r, &lost)
		cfg.MaxQueue, cfg.MaxBatch = 100, 10
		e := newExporter(t, cfg)
		e.Export(testSpans(150, nil))
		release()
		mustFlush(t, e)
		e.Export(testSpans(50, nil))
		mustFlush(t, e)
		lost.check(t, map[string]uint64{ReasonQueueFull: 50})
		checkMetrics(t, e, 150, 0)
	})
}

func TestGivesUpInTheEnd(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, r *receiver) {
		release := hang(r)
		r.start(t)
		defer release()
		var lost losses
		cfg := testConfig(r, &lost)
		cfg.Retry.For = 50 * time.Millisecond
		e := newExporter(t, cfg)
		e.Export(testSpans(10, nil))
		mustFlush(t, e)
		lost.check(t, map[string]uint64{ReasonExportFailed: 10})
		checkMetrics(t, e, 0, 1)
	})
}

// Whatever happens, every span is counted once.
func TestEverySpanIsCounted(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, r *receiver) {
		var asked atomic.Int64
		r.answer = func(context.Context) (*coltracepb.ExportTracePartialSuccess, error) {
			switch asked.Add(1) % 4 {
			case 0:
				return nil, errRefused
			case 1:
				return &coltracepb.ExportTracePartialSuccess{RejectedSpans: 1}, nil
			case 2:
				return nil, errBusy
			}
			return nil, nil
		}
		r.start(t)
		var lost losses
		cfg := testConfig(r, &lost)
		cfg.MaxQueue, cfg.MaxBatch, cfg.FlushInterval = 200, 20, time.Millisecond
		e := newExporter(t, cfg)
		const workers, rounds, each = 4, 200, 5
		var wg sync.WaitGroup
		for w := range workers {
			res := &span.Resource{Service: string(rune('a' + w))}
			wg.Go(func() {
				for i := range rounds {
					e.Export(testSpans(each, res))
					if i == rounds/2 && w == 0 {
						if err := e.Flush(t.Context()); err != nil {
							t.Error(err)
						}
					}
					_ = metrics(t, e)
				}
			})
		}
		wg.Wait()
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		sent := uint64(metrics(t, e)["tare_export_spans_total"])
		if got := sent + lost.total(); got != workers*rounds*each {
			t.Errorf("%d sent + %d lost, want %d together", sent, lost.total(), workers*rounds*each)
		}
	})
}
