// Command service is where the profiles beside this directory come from: an HTTP
// service that counts in Redis, traced by the OpenTelemetry SDK or not. It asks
// itself under load, is profiled meanwhile by its own net/http/pprof, and writes
// the profile to its argument. It needs redis-server, ab, and a receiver of OTLP:
//
//	redis-server --port 6399 --save '' &
//	go run -trimpath . ../plain.pb.gz
//	OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 go run -trimpath . -traced ../traced.pb.gz
//
// It is a module of its own, so that Tare does not depend on what it traces.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"os/exec"
	"strconv"

	"github.com/google/pprof/profile"
	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
)

var (
	traced  = flag.Bool("traced", false, "trace every request")
	address = flag.String("redis", "localhost:6399", "address of Redis")
	seconds = flag.Int("seconds", 3, "length of the profile")
)

func main() {
	flag.Parse()
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: *address})
	handler := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := client.Incr(r.Context(), "count").Result()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"count":%d}`, n)
	}))
	if *traced {
		handler = withTracing(ctx, client, handler)
	}
	http.Handle("/count", handler)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go http.Serve(listener, nil)
	base := "http://" + listener.Addr().String()

	// The load is another process, which is not in the profile.
	load := exec.Command("ab", "-q", "-k", "-l", "-t", strconv.Itoa(*seconds+2), "-n", "1000000", "-c", "8", base+"/count")
	check(load.Start())
	resp, err := http.Get(base + "/debug/pprof/profile?seconds=" + strconv.Itoa(*seconds))
	check(err)
	p, err := profile.Parse(resp.Body)
	check(err)
	for _, m := range p.Mapping {
		m.File, m.BuildID = "service", "" // whose machine it was is nobody's business
	}
	out, err := os.Create(flag.Arg(0))
	check(err)
	check(p.Write(out))
	check(out.Close())
	check(load.Wait())
}

// withTracing switches tracing on; spans go to OTEL_EXPORTER_OTLP_ENDPOINT.
func withTracing(ctx context.Context, client *redis.Client, handler http.Handler) http.Handler {
	exporter, err := otlptracehttp.New(ctx)
	check(err)
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	check(redisotel.InstrumentTracing(client))
	return otelhttp.NewHandler(handler, "count")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
