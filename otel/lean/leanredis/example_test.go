package leanredis_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/tare-trace/tare/otel/lean"
	"github.com/tare-trace/tare/otel/lean/leanredis"
)

func ExampleInstrument() {
	tp := lean.NewTracerProvider(lean.WithExporter(discard{})) // in a service: otlphttp.New or otlpgrpc.New
	defer func() { _ = tp.Shutdown(context.Background()) }()

	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer func() { _ = rdb.Close() }()
	err := leanredis.Instrument(rdb,
		leanredis.WithTracerProvider(tp),
		leanredis.WithCallerEnabled(false), // cheaper: no walk up the stack
	)
	fmt.Println(err)
	// Output: <nil>
}
