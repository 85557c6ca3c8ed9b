// Command tare-thesis is a Go service instrumented with the OpenTelemetry SDK:
// five endpoints that differ in how much a request does, one that records what it
// should not, and a tracing that the environment chooses. It is built after the system under test of Hoikka
// 2026, chapter 4 (docs/sources.md), with current libraries, so that those
// experiments can be repeated.
//
// It refuses to start with a setting that is wrong or that it would ignore.
//
// Environment:
//
//	LISTEN               host:port (127.0.0.1:8080)
//	TRACING_ENABLED      true or false (false)
//	SAMPLING_STRATEGY    always_on (default), always_off, traceidratiobased,
//	                     parentbased_traceidratiobased, adaptive,
//	                     rate_limiting, context_aware
//	SAMPLING_RATE        share of the traces, 0 to 1 (1), of the ratio strategies
//	RATE_LIMIT           traces per second of rate_limiting (5)
//	CONTEXT_SAMPLER_RULES
//	                     of context_aware: JSON, or the path of a file
//	PIPELINE             official (default) or lean
//	KEEP                 true: what fails is kept, whatever the strategy says
//	KEEP_SLOWER_THAN     so is what takes longer (1s)
//	REDACT               true: spans are redacted, by the defaults
//	COLLECTOR_ENDPOINT   base URL of an OTLP receiver over HTTP
//	                     (http://localhost:4318)
//	ADAPTIVE_BASE_RATE, ADAPTIVE_ERROR_BOOST, ADAPTIVE_LATENCY_THRESHOLD (ms),
//	ADAPTIVE_LATENCY_BOOST, ADAPTIVE_UPDATE_INTERVAL (s), ADAPTIVE_MAX_RATE
//	ALERT_TOKEN          lets Alertmanager, with this bearer token, raise the rate of
//	                     adaptive by its webhook at /adaptive-alerts
//	BASELINE             without tracing: bare (default) leaves the HTTP
//	                     instrumentation out; noop keeps it, with the no-op
//	                     provider
//	PAYLOAD_SIZE         bytes of /api/large-payload (102400); what is POSTed there
//	                     is read, up to 64 MiB
//	LONG_RUNNING_MIN, LONG_RUNNING_MAX
//	                     of /api/long-running (1s, 5s)
//	DEEP_SPANS_DELAY     in each span of /api/deep-spans (1ms)
//	CPU_PRIMES           /api/cpu-intensive counts the primes below it (40000)
//	INJECT_ERRORS        share of the requests that are answered with 500
//	INJECT_SLOW          share of the requests that are delayed
//	INJECT_SLOW_DELAY    by how much (1.5s)
//	INJECT_PATTERN       even (default): 0.01 is each hundredth request; scattered:
//	                     each one independently, though the same ones with a seed
//	INJECT_SEED          of scattered faults (0)
//	NEXT                 base URL of another tare-thesis: each GET is passed
//	                     on to it first, with the trace's context if tracing is
//	                     on, and answered with 502 if that fails
//
// The path of an endpoint may go on with one more segment, such as a request's
// number: /api/basic/7.
//
// OTEL_BSP_*, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES mean what they
// mean to the SDK.
package main

import (
	"context"
	"net"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/tare-trace/tare/workloads/internal/service"
)

func main() { service.Main("tare-thesis", run) }

func run(ctx context.Context, env *service.Env) error {
	s := readSettings(env)
	if err := env.Err(); err != nil {
		return err
	}
	tracing, err := startTracing(ctx, env, s)
	if err != nil {
		return err
	}
	l, err := service.Listen(env)
	if err != nil {
		return err
	}
	alerts, err := tracing.AdaptiveAlerts()
	if err != nil {
		return err
	}
	return service.Serve(ctx, l, newHandler(s, tracing, alerts, l.Addr()), tracing.Shutdown)
}

// newHandler is the service. From the outside to the inside, a request passes
// the histogram, otelhttp if there is any, the next service if there is one, the
// injected faults, the endpoint: faults are inside so that spans show them, the
// histogram is outside so that it has what tracing costs.
func newHandler(s settings, tracing *service.Tracing, alerts http.Handler, addr net.Addr) http.Handler {
	reg := service.NewRegistry()
	tracing.Register(reg)
	requests := service.NewRequests(reg)
	faults, next := newFaults(s), newNext(s, tracing)
	around := "" // the handlers, in place of the pipeline's instrumentation
	mux := http.NewServeMux()
	for _, e := range endpoints(s) {
		var h http.Handler = faults.inject(e)
		if e.method == http.MethodGet {
			h = next.first(h)
		}
		switch {
		case s.tracing:
			h = tracing.Handler(h, e.path)
		case s.baseline == noop:
			h, around = otelhttp.NewHandler(h, e.path), "otelhttp"
		}
		h = requests.Observe(e.path, h)
		mux.Handle(e.method+" "+e.path, h)
		mux.Handle(e.method+" "+e.path+"/{request}", h)
	}
	service.Pages(mux, reg, func() map[string]any { return s.config(tracing, around, addr) })
	mux.Handle("GET /adaptive-metrics", tracing.AdaptiveMetrics())
	mux.Handle("/adaptive-alerts", alerts)
	return mux
}
