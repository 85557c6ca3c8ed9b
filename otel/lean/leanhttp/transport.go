package leanhttp

import (
	"context"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean"
	"github.com/tare-trace/tare/otel/lean/w3c"
)

// Transport is an http.RoundTripper that gives each request a client span, and
// its headers the span's context: those to all hosts, or to the hosts of
// [WithPropagationTo].
type Transport struct {
	base    http.RoundTripper
	config  *config
	tracers tracers
	carrier carrier
	outside map[string]bool // headers that hosts outside the list do not get
	start   spanStart
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport wraps base; nil is http.DefaultTransport. The default name of
// its spans is "HTTP METHOD".
func NewTransport(base http.RoundTripper, opts ...Option) *Transport {
	if base == nil {
		base = http.DefaultTransport
	}
	c := newConfig(opts)
	if c.formatter == nil {
		c.formatter = clientName
	}
	t := &Transport{
		base:    base,
		config:  c,
		carrier: newCarrier(c.propagators),
		start:   newSpanStart(trace.SpanKindClient, c.spanOptions),
	}
	if c.hosts != nil {
		t.outside = contextHeaders(c.propagators.Fields())
	}
	t.tracers.configure(c.provider)
	return t
}

// CloseIdleConnections does so in the transport underneath, if that can:
// http.Client asks for it.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// outgoing is a copy of a request with the headers of the trace.
type outgoing struct {
	request http.Request
	parent  w3c.Buffer
}

// call is the allocation for a request whose span is recorded.
type call struct {
	span lean.Span
	outgoing
	body duplexBody
}

// droppedCall is that for any other.
type droppedCall struct {
	span lean.Unrecorded
	outgoing
}

// RoundTrip sends a copy of r. The span ends with an error, or when the
// response's body is read to its end or closed.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, f := range t.config.filters {
		if !f(r) {
			return t.base.RoundTrip(t.untraced(r))
		}
	}
	tr := t.tracers.of(r.Context())
	if tr.lean == nil {
		return t.roundTripAPI(tr.api, r)
	}
	start := t.start.lean(t.config.formatter("", r))
	start.Attributes = t.start.config.Attributes()
	d := tr.lean.Decide(r.Context(), &start)
	if !d.Recording() {
		c := new(droppedCall)
		ctx := tr.lean.DropIn(&c.span, r.Context(), &d)
		c.prepare(ctx, t, r, c.span.SpanContext())
		res, err := t.base.RoundTrip(&c.request)
		if err == nil {
			err = check(t.base, &c.request, res)
		}
		return res, err
	}
	c := new(call)
	ctx := tr.lean.StartIn(&c.span, r.Context(), &start, &d)
	c.prepare(ctx, t, r, c.span.SpanContext())
	a := attributes{span: &c.span}
	a.client(&c.request)
	res, err := t.base.RoundTrip(&c.request)
	if err = c.finish(t, res, err, &c.span, &c.body); err != nil {
		return res, err
	}
	a.answered(res)
	return res, nil
}

// prepare makes the copy: a RoundTripper must leave the caller's request
// alone, its header included.
func (o *outgoing) prepare(ctx context.Context, t *Transport, r *http.Request, sc trace.SpanContext) {
	o.request = *r.WithContext(ctx)
	inside := t.inside(r)
	o.request.Header = t.header(r.Header, inside)
	if inside {
		t.carrier.inject(ctx, sc, o.request.Header, &o.parent)
	}
}

// finish records how the request went, apart from the response's attributes.
func (o *outgoing) finish(t *Transport, res *http.Response, err error, span trace.Span, body *duplexBody) error {
	if err == nil {
		err = check(t.base, &o.request, res)
	}
	if err != nil {
		span.SetAttributes(semconv.ErrorType(err))
		span.SetStatus(codes.Error, err.Error())
		span.End()
		return err
	}
	if code := res.StatusCode; code < 100 || code >= 600 {
		span.SetStatus(codes.Error, fmt.Sprintf("Invalid HTTP status code %d", code))
	} else if code >= 400 {
		span.SetStatus(codes.Error, "")
	}
	body.in(res, span)
	return nil
}

// check refuses what http.Client refuses in a response: once its body is
// wrapped, http.Client cannot see that there was none.
func check(base http.RoundTripper, r *http.Request, res *http.Response) error {
	if res == nil {
		return fmt.Errorf("leanhttp: the RoundTripper %T returned neither a response nor an error", base)
	}
	if res.Body == nil {
		if res.ContentLength > 0 && r.Method != http.MethodHead {
			return fmt.Errorf("leanhttp: the RoundTripper %T returned a response of %d bytes without a body", base, res.ContentLength)
		}
		res.Body = http.NoBody
	}
	return nil
}

// roundTripAPI does the same with the tracer of any other provider.
func (t *Transport) roundTripAPI(tr trace.Tracer, r *http.Request) (*http.Response, error) {
	ctx, span := tr.Start(r.Context(), t.config.formatter("", r), t.start.options...)
	o := new(outgoing)
	o.prepare(ctx, t, r, span.SpanContext())
	var a attributes
	if span.IsRecording() {
		a.client(&o.request)
		span.SetAttributes(a.list...)
	}
	res, err := t.base.RoundTrip(&o.request)
	if err = o.finish(t, res, err, span, new(duplexBody)); err != nil {
		return res, err
	}
	if span.IsRecording() {
		a.list = a.list[:0:0]
		a.answered(res)
		span.SetAttributes(a.list...)
	}
	return res, nil
}
