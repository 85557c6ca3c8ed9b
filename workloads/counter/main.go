// Command tare-counter is a Go service that increments a number in redis (or
// Valkey) with every request and answers with it: the application of
// Coroot 2025 (docs/sources.md), on current libraries
// (go-redis v9 and its redisotel, otelhttp, the OTLP exporter over HTTP).
//
// It refuses to do more per request than that application did, unless it is asked to:
// there are no metrics of requests without REQUEST_METRICS, and without ENABLE_OTEL nothing
// of OpenTelemetry is around the handler or in the client.
//
// Environment:
//
//	REDIS_SERVER    host:port of redis; required
//	ENABLE_OTEL     tracing is on if it is not empty
//	LISTEN          host:port (127.0.0.1:8080)
//	REQUEST_METRICS true: /metrics counts the requests, as tare-thesis' does (false)
//	PIPELINE        official (default) or lean, Tare's
//	SAMPLER         adaptive, rate_limiting or context_aware, with their
//	                variables ADAPTIVE_*, RATE_LIMIT (traces per second, 5),
//	                CONTEXT_SAMPLER_RULES; empty: OTEL_TRACES_SAMPLER says it
//	KEEP, KEEP_SLOWER_THAN, REDACT
//	                as in tare-thesis
//
// and what the SDK reads by itself: OTEL_SERVICE_NAME,
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_TRACES_SAMPLER,
// OTEL_TRACES_SAMPLER_ARG, OTEL_BSP_*.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"

	"github.com/tare-trace/tare/otel/lean/leanredis"
	"github.com/tare-trace/tare/workloads/internal/service"
)

func main() { service.Main("tare-counter", run) }

func run(ctx context.Context, env *service.Env) error {
	server := env.String("REDIS_SERVER", "")
	if server == "" {
		return errors.New("REDIS_SERVER: say where redis is, host:port")
	}
	if _, _, err := net.SplitHostPort(server); err != nil {
		return fmt.Errorf("REDIS_SERVER: %q is not host:port: %w", server, err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server})
	defer func() { _ = rdb.Close() }() // ends with the process

	counts := env.Bool("REQUEST_METRICS", false)
	tracing, err := service.Switched(ctx, env)
	if err != nil {
		return err
	}
	client := "none"
	switch tracing.Pipeline() {
	case service.Lean:
		client, err = "leanredis", leanredis.Instrument(rdb)
	case service.Official:
		client, err = "redisotel", redisotel.InstrumentTracing(rdb)
	}
	if err != nil {
		return err
	}
	l, err := service.Listen(env)
	if err != nil {
		return err
	}
	reg := service.NewRegistry()
	tracing.Register(reg)
	h := tracing.Handler(counter{rdb}, "GET /")
	if counts {
		h = service.NewRequests(reg).Observe("/", h)
	}
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle("GET /adaptive-metrics", tracing.AdaptiveMetrics())
	service.Pages(mux, reg, func() map[string]any {
		c := tracing.Config()
		c["service"] = "counter"
		c["listen"] = l.Addr().String()
		c["redis_instrumentation"] = client
		c["redis_server"] = rdb.Options().Addr
		return c
	})
	return service.Serve(ctx, l, mux, tracing.Shutdown)
}

// counter is the application.
type counter struct{ rdb *redis.Client }

func (c counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := c.rdb.Incr(r.Context(), "counter").Result()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte(strconv.FormatInt(n, 10))) // the client may be gone
}
