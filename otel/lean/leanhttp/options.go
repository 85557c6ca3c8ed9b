package leanhttp

import (
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Option configures NewHandler, NewMiddleware and NewTransport.
type Option func(*config)

// Filter says whether a request is to be traced.
type Filter func(*http.Request) bool

type config struct {
	provider    trace.TracerProvider
	propagators propagation.TextMapPropagator
	hosts       *Hosts // nil: all
	spanOptions []trace.SpanStartOption
	public      func(*http.Request) bool
	filters     []Filter
	formatter   func(operation string, r *http.Request) string
	server      string
	readEvents  bool
	writeEvents bool
	observer    func(r *http.Request, status int, duration time.Duration)
}

func newConfig(opts []Option) *config {
	c := &config{propagators: otel.GetTextMapPropagator()}
	for _, o := range opts {
		o(c)
	}
	return c
}

// WithTracerProvider sets where spans come from. Default: the provider of the
// span in the request's context, else the global one.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) {
		if p != nil {
			c.provider = p
		}
	}
}

// WithPropagators sets what reads and writes the headers. Default: the global
// propagator at the time of the call. w3c's, and the official W3C propagators
// alone or composed, take a short way that allocates nothing.
func WithPropagators(p propagation.TextMapPropagator) Option {
	return func(c *config) {
		if p != nil {
			c.propagators = p
		}
	}
}

// WithPropagationTo lets a transport send traceparent, tracestate, baggage, and
// what else the propagator writes, to these hosts only. Requests to others have
// a client span all the same, and carry none of these headers, also not those
// that the caller has set. Each redirect is decided about by itself. Default,
// and nil: all hosts.
//
// A request to an http URL through a proxy is decided about by the URL's host,
// and the proxy sees its headers.
func WithPropagationTo(h *Hosts) Option {
	return func(c *config) { c.hosts = h }
}

// WithSpanOptions adds options for the start of every span.
func WithSpanOptions(opts ...trace.SpanStartOption) Option {
	return func(c *config) { c.spanOptions = append(c.spanOptions, opts...) }
}

// WithPublicEndpointFn sets a function that is asked for every request. Where
// it says true the span begins a trace of its own, with a link to the caller's
// span; else the caller's span is its parent.
func WithPublicEndpointFn(fn func(*http.Request) bool) Option {
	return func(c *config) { c.public = fn }
}

// WithFilter adds a filter. A request is traced, and observed, only if all
// filters say true.
func WithFilter(f Filter) Option {
	return func(c *config) { c.filters = append(c.filters, f) }
}

// WithSpanNameFormatter sets the function that names spans. A handler calls it
// again after the request if that has a Pattern by then, as http.ServeMux
// gives it one.
func WithSpanNameFormatter(f func(operation string, r *http.Request) string) Option {
	return func(c *config) { c.formatter = f }
}

// WithServerName sets server.address (and, if it has one, server.port) of a
// handler's spans. Default: what the Host header says.
func WithServerName(server string) Option {
	return func(c *config) { c.server = server }
}

// Event is a kind of span event, see WithMessageEvents.
type Event int

// The kinds of events that a handler can record.
const (
	// ReadEvents: "read" after each Read of the request's body.
	ReadEvents Event = iota + 1
	// WriteEvents: "write" after each Write to the response.
	WriteEvents
)

// WithMessageEvents lets a handler record span events. Default: none.
func WithMessageEvents(events ...Event) Option {
	return func(c *config) {
		for _, e := range events {
			c.readEvents = c.readEvents || e == ReadEvents
			c.writeEvents = c.writeEvents || e == WriteEvents
		}
	}
}

// WithObserver sets a function that a handler calls at the end of every
// request that its filters let through, sampled or not, on the request's
// goroutine: with the request as the handler had it (Pattern included), the
// status of the response, and how long the handler took. A handler that
// panicked counts as 500; one that hijacked the connection as what it had
// written before, else 200.
//
// It is what an adaptive sampler learns from. The writer of every response has
// to be wrapped for it; without an observer only those of sampled requests are.
// The observer must not keep r, nor block.
func WithObserver(f func(r *http.Request, status int, duration time.Duration)) Option {
	return func(c *config) { c.observer = f }
}
