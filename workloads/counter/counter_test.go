package main

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/tare-trace/tare/workloads/internal/servicetest"
)

func TestMain(m *testing.M) { servicetest.Run(m) }

// startRedis starts a redis-server and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	exe, err := exec.LookPath("redis-server")
	if err != nil {
		servicetest.Refuse(t, "redis-server is not installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(exe, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", t.TempDir())
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return addr
		}
		if time.Now().After(deadline) {
			t.Fatal("redis does not listen")
		}
	}
}

// bothPipelines runs a test with each; what leaves the service is the same.
func bothPipelines(t *testing.T, test func(t *testing.T, pipeline string)) {
	for _, pipeline := range []string{"official", "lean"} {
		t.Run(pipeline, func(t *testing.T) { test(t, pipeline) })
	}
}

func otel(r *servicetest.Receiver, addr, pipeline, sampler, rate string) map[string]string {
	return map[string]string{
		"PIPELINE": pipeline, "REDIS_SERVER": addr, "ENABLE_OTEL": "1", "OTEL_SERVICE_NAME": "app",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": r.URL + "/v1/traces",
		"OTEL_TRACES_SAMPLER":                sampler, "OTEL_TRACES_SAMPLER_ARG": rate,
	}
}

func TestWithoutOpenTelemetry(t *testing.T) {
	r := servicetest.NewReceiver(t, "127.0.0.1")
	env := otel(r, startRedis(t), "official", "always_on", "")
	env["ENABLE_OTEL"] = ""
	p := servicetest.Start(t, "counter", env)
	for n := 1; n <= 3; n++ {
		if status, body := p.Get("/"); status != http.StatusOK || body != fmt.Sprint(n) {
			t.Errorf("%d %q", status, body)
		}
	}
	c := p.Config()
	if c["tracing_enabled"] != false || c["instrumentation"] != "none" || c["sampling_strategy"] != "none" {
		t.Errorf("%v", c)
	}
	_, text := p.Get("/metrics")
	servicetest.CheckMetrics(t, text)
	assert.NotContains(t, text, "http_request", "requests are counted, and nobody asked for it")
	if _, body := p.Get("/debug/pprof/"); !strings.Contains(body, "heap") {
		t.Errorf("pprof: %q", body)
	}
	if code := p.Terminate(); code != 0 || len(r.Spans()) > 0 {
		t.Errorf("exit status %d, %d spans", code, len(r.Spans()))
	}
}

func TestRequestsAreCountedIfAsked(t *testing.T) {
	p := servicetest.Start(t, "counter", map[string]string{"REDIS_SERVER": startRedis(t), "REQUEST_METRICS": "true"})
	p.Get("/")
	_, text := p.Get("/metrics")
	servicetest.CheckMetrics(t, text)
	assert.Contains(t, text, `http_request_duration_seconds_count{endpoint="/",status="200"} 1`)
}

func TestSpansOfARequest(t *testing.T) { bothPipelines(t, spansOfARequest) }

func spansOfARequest(t *testing.T, pipeline string) {
	r := servicetest.NewReceiver(t, "127.0.0.1")
	addr := startRedis(t)
	p := servicetest.Start(t, "counter", otel(r, addr, pipeline, "", ""))
	p.Get("/") // opens the connection to redis, which has spans of its own
	if status, body := p.Get("/"); status != http.StatusOK || body != "2" {
		t.Errorf("%d %q", status, body)
	}
	p.Get("/health")
	c := p.Config()
	if c["sampling_strategy"] != "parentbased_always_on" || c["sampling_rate"] != 1.0 || c["collector_endpoint"] != r.URL || c["pipeline"] != pipeline ||
		c["tracing_enabled"] != true || c["redis_server"] != addr {
		t.Errorf("%v", c)
	}
	_, text := p.Get("/metrics")
	servicetest.CheckMetrics(t, text)
	require.Equal(t, 0, p.Terminate(), "exit status")
	children := map[string]servicetest.Span{}
	var servers []servicetest.Span
	for _, s := range r.Spans() {
		assert.Equal(t, "app", s.Service, "service")
		switch {
		case s.GetKind() == trace.Span_SPAN_KIND_SERVER:
			servers = append(servers, s)
		case s.GetName() == "incr":
			children[string(s.GetParentSpanId())] = s
		}
	}
	if len(servers) != 2 || len(children) != 2 {
		t.Fatalf("%d requests, %d commands: %v", len(servers), len(children), r.Spans())
	}
	for _, s := range servers {
		child, ok := children[string(s.GetSpanId())]
		if s.GetName() != "GET /" || !ok || string(child.GetTraceId()) != string(s.GetTraceId()) ||
			child.GetKind() != trace.Span_SPAN_KIND_CLIENT || child.Attribute("db.statement") != "incr counter" {
			t.Errorf("request %v, command %v", s.Span, child.Span)
		}
	}
}

func TestSampledShares(t *testing.T) { bothPipelines(t, sampledShares) }

func sampledShares(t *testing.T, pipeline string) {
	addr := startRedis(t)
	for _, c := range []struct {
		sampler, rate, strategy string
		share                   float64
	}{
		{"always_off", "", "always_off", 0},
		{"traceidratio", "0", "traceidratio", 0},
		{"traceidratio", "1", "traceidratio", 1},
		{"parentbased_traceidratio", "0.1", "parentbased_traceidratio", 0.1},
	} {
		r := servicetest.NewReceiver(t, "127.0.0.1")
		p := servicetest.Start(t, "counter", otel(r, addr, pipeline, c.sampler, c.rate))
		requests := 100
		if c.share == 0.1 {
			requests = 1500
		}
		for range requests {
			p.Get("/")
		}
		config := p.Config()
		if config["sampling_strategy"] != c.strategy || config["sampling_rate"] != c.share {
			t.Errorf("%s %s: %v", c.sampler, c.rate, config)
		}
		require.Equal(t, 0, p.Terminate(), "exit status")
		traces := 0.0
		for _, s := range r.Spans() {
			if s.GetKind() == trace.Span_SPAN_KIND_SERVER {
				traces++
			}
		}
		n := float64(requests)
		assert.InDelta(t, n*c.share, traces, 7*math.Sqrt(n*c.share*(1-c.share)), "%s %s: traces of %d requests", c.sampler, c.rate, requests)
	}
}

func TestDroppedSpansAreCounted(t *testing.T) { bothPipelines(t, droppedSpansAreCounted) }

func droppedSpansAreCounted(t *testing.T, pipeline string) {
	r := servicetest.NewReceiver(t, "127.0.0.1")
	env := otel(r, startRedis(t), pipeline, "", "")
	env["OTEL_BSP_MAX_QUEUE_SIZE"] = "10"
	env["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"] = "2"
	env["OTEL_BSP_SCHEDULE_DELAY"] = "20"
	p := servicetest.Start(t, "counter", env)
	r.Stall()
	p.Get("/")
	r.AwaitStalled()
	const more = 50 // with two spans each
	for range more {
		p.Get("/")
	}
	r.Resume()
	var c map[string]any
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c = p.Config()
		if c["spans_dropped"].(float64) >= 2*more-10 || time.Now().After(deadline) {
			break
		}
	}
	assert.Equal(t, 0, p.Terminate(), "exit status")
	// Beside the batch that stalled, only the queue was kept; the first request
	// had spans of the new connection, too.
	if got := len(r.Spans()); got > 2*more || c["spans_dropped"].(float64) < 2*more-10 {
		t.Errorf("%d spans received: %v", got, c)
	}
}

func TestRedisThatIsGone(t *testing.T) {
	p := servicetest.Start(t, "counter", map[string]string{"REDIS_SERVER": "127.0.0.1:1"})
	if status, body := p.Get("/"); status != http.StatusInternalServerError || !strings.Contains(body, "refused") {
		t.Errorf("%d %q", status, body)
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	for key, v := range map[string]string{"REDIS_SERVER": "redis", "LISTEN": "nowhere"} {
		env := map[string]string{"REDIS_SERVER": "127.0.0.1:1"}
		env[key] = v
		assert.Contains(t, servicetest.Fails(t, "counter", env), key, v)
	}
	assert.Contains(t, servicetest.Fails(t, "counter", nil), "REDIS_SERVER: say where redis is", "no redis")
}
