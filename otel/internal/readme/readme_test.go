// Package readme holds the code of otel/README.md, so that it compiles.
package readme

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/adaptive"
	"github.com/tare-trace/tare/otel/contextaware"
	"github.com/tare-trace/tare/otel/keep"
	"github.com/tare-trace/tare/otel/lean"
	"github.com/tare-trace/tare/otel/lean/leanhttp"
	"github.com/tare-trace/tare/otel/lean/leanredis"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
	"github.com/tare-trace/tare/otel/lean/w3c"
	"github.com/tare-trace/tare/otel/pressure"
	"github.com/tare-trace/tare/otel/ratelimit"
	"github.com/tare-trace/tare/otel/redact"
)

func pipeline() error {
	exporter, err := otlphttp.New() // OTEL_EXPORTER_OTLP_* as usual; otlpgrpc.New() for gRPC
	if err != nil {
		return err
	}
	provider := lean.NewTracerProvider(lean.WithExporter(exporter)) // OTEL_* as in the SDK
	defer provider.Shutdown(context.Background())                   //nolint:errcheck // as an example has it
	otel.SetTracerProvider(provider)
	return nil
}

func instrumentation(addr string) error {
	mux := http.NewServeMux()
	handler := leanhttp.NewHandler(mux, "server", leanhttp.WithPropagators(w3c.Propagator{}))
	client := http.Client{Transport: leanhttp.NewTransport(nil, leanhttp.WithPropagators(w3c.Propagator{}))}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	if err := leanredis.Instrument(rdb); err != nil {
		return err
	}
	_, _ = handler, client
	return rdb.Close()
}

func ownHosts() error {
	hosts, err := leanhttp.ParseHosts("cart", "*.shop.internal", "10.0.0.0/8") // names, names below one, addresses, networks
	if err != nil {
		return err
	}
	transport := leanhttp.NewTransport(nil, leanhttp.WithPropagators(w3c.Propagator{}), leanhttp.WithPropagationTo(hosts))
	_ = transport
	return nil
}

func follow(exporter lean.Exporter, route string, status int, took time.Duration) error {
	sampler, err := adaptive.New() // ADAPTIVE_*: base 0.05, ×3 after errors, ×2 above 1 s, every 30 s
	if err != nil {
		return err
	}
	defer sampler.Shutdown(context.Background())                                               //nolint:errcheck // as an example has it
	provider := lean.NewTracerProvider(lean.WithSampler(sampler), lean.WithExporter(exporter)) // or the SDK's
	http.Handle("/adaptive-metrics", sampler.StateHandler())
	// for every request, sampled or not:
	sampler.Observe(adaptive.Observation{Route: route, Failed: status >= 500, Duration: took})
	return provider.Shutdown(context.Background())
}

func switched(sampler *adaptive.Sampler, token string) error {
	alerts, err := sampler.AlertHandler(adaptive.AlertConfig{Token: token}) // Rules, Limit
	if err != nil {
		return err
	}
	http.Handle("/adaptive-alerts", alerts)
	return nil
}

func relieved(sampler *adaptive.Sampler, exporter lean.Exporter, official sdktrace.SpanExporter) {
	provider := lean.NewTracerProvider(lean.WithSampler(sampler), lean.WithExporter(exporter))
	sampler.PollPressure(provider.Pressure)
	// or with the SDK:
	measured := pressure.NewExporter(official)
	sdk := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(measured))
	sampler.PollPressure(measured.Pressure)
	_, _ = provider, sdk
}

func decideLast(head sdktrace.Sampler, exporter interface {
	lean.Exporter
	sdktrace.SpanExporter
}) error {
	policy := keep.Policy{Errors: true, ServerErrors: true, SlowerThan: time.Second}
	provider := lean.NewTracerProvider(lean.WithKeep(policy), lean.WithSampler(head), lean.WithExporter(exporter))
	// or with the SDK:
	processor, err := keep.NewProcessor(sdktrace.NewBatchSpanProcessor(exporter), policy)
	if err != nil {
		return err
	}
	sdk := sdktrace.NewTracerProvider(sdktrace.WithSampler(keep.Sampler(head)), sdktrace.WithSpanProcessor(processor))
	_, _ = provider, sdk
	return nil
}

func redacted(exporter interface {
	lean.Exporter
	sdktrace.SpanExporter
}) error {
	r, err := redact.New(redact.Default()) // or redact.FromEnv(), redact.Load("redact.json")
	if err != nil {
		return err
	}
	provider := lean.NewTracerProvider(lean.WithRedactor(r), lean.WithExporter(exporter))
	sdk := sdktrace.NewTracerProvider(sdktrace.WithBatcher(redact.NewExporter(exporter, r))) // or with the SDK
	_, _ = provider, sdk
	return nil
}

func others() error {
	limited := ratelimit.New(100) // at most 100 traces a second
	byRules, err := contextaware.Parse([]byte(`{"default": 0.05, "rules": [
		{"attributes": {"url.path": "/health*"}, "probability": 0},
		{"baggage": {"user.id": "42"}, "probability": 1}]}`))
	_, _ = limited, byRules
	return err
}

// What needs neither a collector nor a server runs, too.
func TestTheCodeRuns(t *testing.T) {
	assert.NoError(t, others())
	assert.NoError(t, instrumentation("127.0.0.1:1"))
	assert.NoError(t, ownHosts())
	assert.NoError(t, pipeline())
}

var (
	blocks   = regexp.MustCompile("(?s)```go\n(.*?)```")
	silenced = regexp.MustCompile(` //nolint:.*`)
	spaces   = regexp.MustCompile(`\s+`)
	_        = []any{follow, switched, relieved, decideLast, redacted} // compiled is what they are for
)

func TestReadmeIsThisCode(t *testing.T) {
	text := func(file string) string {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(b)
	}
	one := func(s string) string { return strings.TrimSpace(spaces.ReplaceAllString(s, " ")) }
	source, found := one(silenced.ReplaceAllString(text("readme_test.go"), "")), 0
	for _, block := range blocks.FindAllStringSubmatch(text("../../README.md"), -1) {
		found++
		assert.Contains(t, source, one(block[1]), "this code of README.md is not in readme_test.go: %s", block[1])
	}
	assert.GreaterOrEqual(t, found, 6, "blocks of code in README.md")
}
