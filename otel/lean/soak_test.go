package lean_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/otel/lean"
	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

// The bounds of "flat": how much more memory any sample of the last half may
// show than another one. The queue is empty at a sample, so a leak of one byte
// per span is found among 10,000,000. RSS has the garbage collector's slack.
const (
	soakHeapBound = 2 << 20
	soakRSSBound  = 16 << 20
	soakSamples   = 40
	soakWorkers   = 4
)

// TestSoak sends millions of spans through lean and otlphttp to a collector in
// another process, which now and then is overloaded (503), refuses a request
// (400) or takes it in part:
//
//	TARE_SOAK=1 go test -run '^TestSoak$' -v -timeout 1h ./lean
//
// TARE_SOAK_SPANS says how many, by default 10,000,000. Every span must be
// accounted for, by both sides alike, and memory must not grow.
func TestSoak(t *testing.T) {
	if os.Getenv("TARE_SOAK") != "1" {
		t.Skip("takes minutes: set TARE_SOAK=1 to run it")
	}
	spans := 10_000_000
	if text := os.Getenv("TARE_SOAK_SPANS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1000 {
			t.Fatalf("TARE_SOAK_SPANS=%q: want a number of at least 1000", text)
		}
		spans = n
	}
	otlptest.ClearEnvironment()
	var complaints atomic.Int64
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { complaints.Add(1) }))
	defer otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { fmt.Fprintln(os.Stderr, err) }))

	sink := startSoakSink(t)
	exporter, err := otlphttp.New(otlphttp.WithEndpointURL(sink.url+"/v1/traces"),
		otlphttp.WithRetry(otlphttp.RetryConfig{Enabled: true, InitialInterval: time.Millisecond, MaxInterval: 10 * time.Millisecond, MaxElapsedTime: time.Minute}))
	require.NoError(t, err)
	provider := lean.NewTracerProvider(lean.WithExporter(exporter), lean.WithSampler(sdktrace.AlwaysSample()))
	tracer := provider.Tracer("soak")

	var generated int64
	var memory []soakMemory
	start := time.Now()
	for sample := range soakSamples {
		// One part in ten does not wait for the queue: there the drops are.
		hurry := sample%10 == 9
		failed := provider.Stats().Failed
		generated += generate(provider, tracer, spans/soakSamples, hurry)
		err := provider.ForceFlush(t.Context())
		s := provider.Stats()
		if err != nil && s.Failed == failed { // else it speaks of a request that the collector refused
			t.Errorf("ForceFlush: %v", err)
		}
		memory = append(memory, measureMemory())
		t.Logf("%3d%%  %9d spans  %s  exported %d  rejected %d  failed %d  dropped %d", (sample+1)*100/soakSamples,
			generated, memory[sample], s.Exported, s.Rejected, s.Failed, dropped(s))
	}
	took := time.Since(start)
	assert.NoError(t, provider.Shutdown(t.Context()), "Shutdown")

	s, counts := provider.Stats(), sink.counts(t)
	t.Logf("%d spans in %v (%.0f/s), %d requests, %d messages to the error handler", generated, took.Round(time.Millisecond), float64(generated)/took.Seconds(), s.Requests, complaints.Load())
	t.Logf("lean      %+v", s)
	t.Logf("collector %+v", counts)
	for what, pair := range map[string][2]uint64{
		"started":                    {s.Started, uint64(generated)},
		"ended":                      {s.Ended, uint64(generated)},
		"exported + not exported":    {s.Exported + s.Rejected + s.Failed + s.Unsampled + dropped(s), s.Ended},
		"exported, at the collector": {s.Exported, counts.Accepted},
		"rejected, at the collector": {s.Rejected, counts.Rejected},
		"failed, at the collector":   {s.Failed, counts.Refused},
		"spans that arrived damaged": {counts.Damaged, 0},
		"spans left in queues":       {uint64(s.QueuedSpans), 0},
		"bytes left in queues":       {uint64(s.QueuedBytes), 0},
	} {
		assert.Equal(t, pair[1], pair[0], what)
	}
	last := memory[soakSamples/2:]
	flat(t, "heap in use after collection", last, soakHeapBound, func(m soakMemory) uint64 { return m.heap })
	flat(t, "resident memory", last, soakRSSBound, func(m soakMemory) uint64 { return m.rss })
}

func dropped(s lean.Stats) uint64 {
	return s.Dropped.QueueFull + s.Dropped.QueueBytes + s.Dropped.Shutdown + s.Dropped.NoExporter
}

// generate makes about n spans from several goroutines and returns how many.
func generate(provider *lean.TracerProvider, tracer trace.Tracer, n int, hurry bool) int64 {
	var wg sync.WaitGroup
	var made atomic.Int64
	for worker := range soakWorkers {
		wg.Go(func() {
			for i := 0; i < n/soakWorkers; {
				if i%30 == 0 && !hurry {
					// The queue holds 2048; all workers together add 120
					// between two looks.
					for provider.Stats().QueuedSpans > 1500 {
						time.Sleep(100 * time.Microsecond)
					}
				}
				k := soakTrace(tracer, worker, i)
				i += k
				made.Add(int64(k))
			}
		})
	}
	wg.Wait()
	return made.Load()
}

// soakTrace makes a trace of three spans; what it sets, soakDamaged looks for.
func soakTrace(tracer trace.Tracer, worker, i int) (spans int) {
	ctx, server := tracer.Start(context.Background(), "GET /users/{id}", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", "GET"), attribute.String("http.route", "/users/{id}"),
		attribute.Int("worker", worker), attribute.Bool("soak", true)))
	child, internal := tracer.Start(ctx, "work", trace.WithAttributes(attribute.Int("i", i)))
	_, client := tracer.Start(child, "GET", trace.WithSpanKind(trace.SpanKindClient))
	client.SetAttributes(attribute.String("db.system.name", "redis"), attribute.StringSlice("keys", []string{"a", "b"}), attribute.Float64("share", 0.5))
	client.AddEvent("cache.miss", trace.WithAttributes(attribute.Int("i", i)))
	client.End()
	if i%100 == 0 {
		internal.RecordError(io.ErrUnexpectedEOF)
		internal.SetStatus(codes.Error, "it did not work")
	}
	internal.End()
	server.SetAttributes(attribute.Int("http.response.status_code", 200))
	server.End()
	return 3
}

func soakDamaged(s *tracepb.Span) bool {
	attributes := map[tracepb.Span_SpanKind]int{tracepb.Span_SPAN_KIND_SERVER: 5, tracepb.Span_SPAN_KIND_INTERNAL: 1, tracepb.Span_SPAN_KIND_CLIENT: 3}
	isRoot := s.Kind == tracepb.Span_SPAN_KIND_SERVER
	return len(s.Attributes) != attributes[s.Kind] || len(s.TraceId) != 16 || len(s.SpanId) != 8 || isRoot != (len(s.ParentSpanId) == 0) ||
		s.EndTimeUnixNano < s.StartTimeUnixNano || s.Kind == tracepb.Span_SPAN_KIND_CLIENT && len(s.Events) != 1
}

type soakMemory struct {
	heap, rss  uint64 // bytes
	goroutines int
}

func (m soakMemory) String() string {
	return fmt.Sprintf("heap %.1f MiB  RSS %.1f MiB  %d goroutines", float64(m.heap)/(1<<20), float64(m.rss)/(1<<20), m.goroutines)
}

func measureMemory() (m soakMemory) {
	runtime.GC()
	runtime.GC() // what sync.Pool has kept is free after two
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m.heap, m.goroutines = stats.HeapInuse, runtime.NumGoroutine()
	// Pages in all, resident pages, … (proc_pid_statm(5)); elsewhere 0.
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		pages, _ := strconv.ParseUint(strings.Fields(string(statm))[1], 10, 64)
		m.rss = pages * uint64(os.Getpagesize())
	}
	return m
}

func flat(t *testing.T, what string, samples []soakMemory, bound uint64, of func(soakMemory) uint64) {
	t.Helper()
	least, most := of(samples[0]), of(samples[0])
	for _, s := range samples {
		least, most = min(least, of(s)), max(most, of(s))
	}
	t.Logf("%s in the last half: %.2f to %.2f MiB, bound of the difference %d MiB", what, float64(least)/(1<<20), float64(most)/(1<<20), bound>>20)
	assert.LessOrEqual(t, most-least, bound, what)
}

// soakCounts is what the collector counted, in spans.
type soakCounts struct {
	Requests, Accepted, Rejected, Refused, Damaged uint64
	Busy                                           uint64 // requests answered with 503
}

type soakSink struct{ url string }

func (s soakSink) counts(t *testing.T) (c soakCounts) {
	t.Helper()
	response, err := http.Get(s.url + "/counts")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.NoError(t, json.NewDecoder(response.Body).Decode(&c))
	http.DefaultClient.CloseIdleConnections()
	return c
}

// startSoakSink runs TestSoakSink of this binary in another process, whose
// memory is not this one's. It ends when its standard input does.
func startSoakSink(t *testing.T) soakSink {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSoakSink$", "-test.v", "-test.timeout=0")
	cmd.Env = append(os.Environ(), "TARE_SOAK_SINK=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		assert.NoError(t, cmd.Wait(), "the collector")
	})
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			return soakSink{url}
		}
	}
	t.Fatal("the collector did not start")
	return soakSink{}
}

// TestSoakSink is the collector of TestSoak.
func TestSoakSink(t *testing.T) {
	if os.Getenv("TARE_SOAK_SINK") != "1" {
		t.Skip("TestSoak runs it, as a process of its own")
	}
	var mu sync.Mutex
	var c soakCounts
	mux := http.NewServeMux()
	mux.HandleFunc("GET /counts", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(c)
	})
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request coltracepb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil {
			t.Errorf("a request cannot be read: %v", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		spans, damaged := uint64(otlptest.Spans(&request)), uint64(0)
		for _, resource := range request.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, span := range scope.Spans {
					if soakDamaged(span) {
						damaged++
					}
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		c.Requests++
		c.Damaged += damaged
		switch rejected := min(spans, 3); {
		case c.Requests%97 == 0:
			c.Busy++
			w.WriteHeader(http.StatusServiceUnavailable)
		case c.Requests%301 == 0:
			c.Refused += spans
			w.WriteHeader(http.StatusBadRequest)
		case c.Requests%50 == 0:
			c.Accepted, c.Rejected = c.Accepted+spans-rejected, c.Rejected+rejected
			answer, _ := proto.Marshal(&coltracepb.ExportTraceServiceResponse{
				PartialSuccess: &coltracepb.ExportTracePartialSuccess{RejectedSpans: int64(rejected), ErrorMessage: "for the sake of the test"},
			})
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(answer)
		default:
			c.Accepted += spans
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	fmt.Printf("listening on %s\n", server.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
