package leanhttp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean"
)

// middleware is what all requests to a handler share.
type middleware struct {
	operation string
	config    *config
	tracers   tracers
	carrier   carrier
	start     spanStart
	names     names
}

// NewHandler wraps h in a span for each request. operation is what a name
// formatter gets; the default name, "METHOD route", does not use it.
func NewHandler(h http.Handler, operation string, opts ...Option) http.Handler {
	return NewMiddleware(operation, opts...)(h)
}

// NewMiddleware returns what NewHandler does to a handler.
func NewMiddleware(operation string, opts ...Option) func(http.Handler) http.Handler {
	c := newConfig(opts)
	m := &middleware{
		operation: operation,
		config:    c,
		carrier:   newCarrier(c.propagators),
		start:     newSpanStart(trace.SpanKindServer, c.spanOptions),
	}
	m.tracers.configure(c.provider)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	for _, f := range m.config.filters {
		if !f(r) {
			next.ServeHTTP(w, r)
			return
		}
	}
	if t := m.tracers.of(r.Context()); t.lean != nil {
		m.serveLean(t.lean, w, r, next)
	} else {
		m.serveAPI(t.api, w, r, next)
	}
}

func (m *middleware) name(r *http.Request) string {
	if m.config.formatter != nil {
		return m.config.formatter(m.operation, r)
	}
	return m.names.of(r)
}

// exchange is one request and its response, as the handler sees them.
type exchange struct {
	request http.Request
	body    requestBody
	writer  wrapper
}

// recorded is the one allocation for a request whose span is recorded.
type recorded struct {
	span lean.Span
	exchange
}

// observed is the one allocation for a request that is only observed.
type observed struct {
	span lean.Unrecorded
	exchange
}

// dropped is the one allocation for any other: the handler's context must carry
// the decision on to what it calls.
type dropped struct {
	span    lean.Unrecorded
	request http.Request
}

func (m *middleware) serveLean(t *lean.Tracer, w http.ResponseWriter, r *http.Request, next http.Handler) {
	start := m.start.lean(m.name(r))
	ctx, remote := m.carrier.extract(r.Context(), r.Header)
	start.Remote = remote
	if m.config.public != nil {
		m.public(ctx, r, &start)
	}
	early := t.UsesAttributes()
	if early {
		start.Attributes = m.attributes(r)
	}
	d := t.Decide(ctx, &start)
	if d.Recording() {
		if at := StartTimeFromContext(ctx); !at.IsZero() {
			start.Time = at
		}
		x := new(recorded)
		ctx = t.StartIn(&x.span, ctx, &start, &d)
		defer x.span.End()
		if !early {
			a := attributes{span: &x.span}
			a.server(m.config.server, r)
			if own := m.start.config.Attributes(); len(own) != 0 {
				x.span.SetAttributes(own...)
			}
		}
		x.serve(ctx, m, &x.span, w, r, next)
		a := attributes{span: &x.span}
		a.served(x.body.size.Load(), x.writer.size.Load(), x.writer.code())
		return
	}
	if m.config.observer != nil {
		x := new(observed)
		ctx = t.DropIn(&x.span, ctx, &d)
		x.serve(ctx, m, nil, w, r, next)
		return
	}
	x := new(dropped)
	ctx = t.DropIn(&x.span, ctx, &d)
	x.request = *r.WithContext(ctx)
	defer keepForm(r, &x.request)
	next.ServeHTTP(w, &x.request)
}

// attributes is apart from its caller so that requests that need it not do not
// pay for its memory.
//
//go:noinline
func (m *middleware) attributes(r *http.Request) []attribute.KeyValue {
	a := attributes{list: make([]attribute.KeyValue, 0, 16)}
	a.server(m.config.server, r)
	return append(a.list, m.start.config.Attributes()...)
}

// public begins a new trace if the endpoint is a public one.
func (m *middleware) public(ctx context.Context, r *http.Request, start *lean.Start) {
	caller := ctx
	if start.Remote.IsValid() {
		caller = trace.ContextWithRemoteSpanContext(ctx, start.Remote)
	}
	if !m.config.public(r.WithContext(caller)) {
		return
	}
	start.NewRoot, start.Remote = true, trace.SpanContext{}
	if sc := trace.SpanContextFromContext(caller); sc.IsValid() && sc.IsRemote() {
		start.Links = append(slices.Clip(start.Links), trace.Link{SpanContext: sc})
	}
}

// serve calls next. span is nil if nothing is recorded.
func (x *exchange) serve(ctx context.Context, m *middleware, span trace.Span, w http.ResponseWriter, r *http.Request, next http.Handler) {
	x.request = *r.WithContext(ctx)
	defer keepForm(r, &x.request)
	var reads, writes trace.Span
	if span != nil {
		if m.config.readEvents {
			reads = span
		}
		if m.config.writeEvents {
			writes = span
		}
		x.body.in(&x.request, reads)
	}
	if m.config.observer != nil {
		began := StartTimeFromContext(ctx)
		if began.IsZero() {
			began = time.Now()
		}
		returned := false
		defer func() {
			status := http.StatusInternalServerError
			if returned {
				status = x.writer.code()
			}
			m.config.observer(&x.request, status, time.Since(began))
		}()
		next.ServeHTTP(x.writer.as(w, writes), &x.request)
		returned = true
	} else {
		next.ServeHTTP(x.writer.as(w, writes), &x.request)
	}
	if span == nil {
		return
	}
	if x.request.Pattern != "" {
		span.SetName(m.name(&x.request))
	}
	if code := x.writer.code(); code < 100 || code >= 600 {
		span.SetStatus(codes.Error, fmt.Sprintf("Invalid HTTP status code %d", code))
	} else if code >= 500 {
		span.SetStatus(codes.Error, "")
	}
}

// keepForm gives the form that the handler's copy of the request has parsed to
// the server's: it removes the form's temporary files.
func keepForm(server, handler *http.Request) {
	if handler.MultipartForm != nil {
		server.MultipartForm = handler.MultipartForm
	}
}

// serveAPI does the same with the tracer of any other provider.
func (m *middleware) serveAPI(t trace.Tracer, w http.ResponseWriter, r *http.Request, next http.Handler) {
	s := lean.Start{Links: m.start.config.Links()}
	ctx, remote := m.carrier.extract(r.Context(), r.Header)
	if remote.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, remote)
	}
	opts := make([]trace.SpanStartOption, 0, len(m.start.options)+4)
	a := attributes{list: make([]attribute.KeyValue, 0, 16)}
	a.server(m.config.server, r)
	opts = append(opts, trace.WithAttributes(a.list...))
	opts = append(opts, m.start.options...)
	if m.config.public != nil {
		s.Links = nil
		if m.public(ctx, r, &s); s.NewRoot {
			opts = append(opts, trace.WithNewRoot(), trace.WithLinks(s.Links...))
		}
	}
	if at := StartTimeFromContext(ctx); !at.IsZero() {
		opts = append(opts, trace.WithTimestamp(at))
	}
	ctx, span := t.Start(ctx, m.name(r), opts...)
	defer span.End()
	x := new(exchange)
	if !span.IsRecording() {
		x.serve(ctx, m, nil, w, r, next)
		return
	}
	x.serve(ctx, m, span, w, r, next)
	a.list = a.list[:0:0]
	a.served(x.body.size.Load(), x.writer.size.Load(), x.writer.code())
	span.SetAttributes(a.list...)
}
