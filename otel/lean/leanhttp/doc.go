// Package leanhttp traces net/http servers and clients. Its spans are those of
// otelhttp 0.72 — names, kinds, attributes, events, status, renaming by
// http.Request.Pattern — at a fraction of its cost.
//
//	tp := lean.NewTracerProvider(lean.WithExporter(exporter))
//	p := leanhttp.WithPropagators(w3c.Propagator{})
//	mux := http.NewServeMux()
//	server := leanhttp.NewHandler(mux, "server", leanhttp.WithTracerProvider(tp), p)
//	client := http.Client{Transport: leanhttp.NewTransport(nil, leanhttp.WithTracerProvider(tp), p)}
//
// It works with any trace.TracerProvider, and is fast with lean's:
//
//   - A request that is not sampled costs one allocation: the copy of the
//     http.Request, without which net/http has no way to hand on a context, and
//     in it the span context for whatever the handler calls. No attribute is
//     built, unless the sampler wants to see them; the writer is not wrapped,
//     unless there is an observer; the body never is.
//   - A sampled one costs one, too: span, request, writer and body in one piece;
//     attributes are written into the span's encoded form at once.
//   - A client's request costs three: the copy, and the map of its header with
//     what is in it; one more for the text of url.full if it is sampled.
//
// What otelhttp does besides is left out on purpose:
//
//   - metrics, and the Labeler for them. [WithObserver] tells of every request,
//     sampled or not, which is what an adaptive sampler needs:
//
//     leanhttp.WithObserver(func(r *http.Request, status int, d time.Duration) {
//     sampler.Observe(adaptive.Observation{Route: r.Pattern, Failed: status >= 500, Duration: d})
//     })
//
//   - httptrace (WithClientTrace): put one into the request's context.
//
// What otelhttp does not have: [WithPropagationTo] keeps the trace's context and
// baggage from hosts that are not yours. What they would learn from them are
// the names of your services, who calls whom, and whatever baggage holds.
//
// Where it is otherwise alike but not the same:
//
//   - The scope of the spans is [ScopeName].
//   - Repeated traceparent and tracestate headers are read as the specification
//     wants, see package w3c.
//   - The handler's writer reports the error of http.ResponseController.Flush,
//     which gets lost in otelhttp.
//   - The client's copy of a request shares URL, form and trailer with the
//     original, so that trailers that the caller fills in while the body is sent
//     do arrive.
//
// As in otelhttp, http.response.body.size counts what went through Write, and
// not what a handler copied by io.Copy from a file or connection (ReadFrom):
// counting it would make sendfile impossible. As there, a client's span ends
// when the response's body is read to its end or closed, and never if neither
// happens.
package leanhttp
