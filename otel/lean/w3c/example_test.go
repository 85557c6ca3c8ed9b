package w3c_test

import (
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel"

	"github.com/tare-trace/tare/otel/lean/w3c"
)

func ExamplePropagator() {
	otel.SetTextMapPropagator(w3c.Propagator{})
	fmt.Println(otel.GetTextMapPropagator().Fields())
	// Output: [traceparent tracestate baggage]
}

func ExampleFromHeader() {
	in := http.Header{}
	in.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	sc, ok := w3c.FromHeader(in)
	fmt.Println(ok, sc.TraceID(), sc.IsSampled())

	out := http.Header{}
	w3c.ToHeader(out, sc)
	fmt.Println(out.Get("traceparent"))
	// Output:
	// true 0af7651916cd43dd8448eb211c80319c true
	// 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
}
