package leanhttp

import (
	"io"
	"net/http"
	"sync/atomic"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// requestBody counts what a handler reads.
type requestBody struct {
	io.ReadCloser
	size   atomic.Int64
	events trace.Span // if not nil: takes an event for each read
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.size.Add(int64(n))
	if b.events != nil {
		b.events.AddEvent("read")
	}
	return n, err
}

// in puts b in the place of r's body, if r has one: a handler may compare the body
// with nil and with http.NoBody.
func (b *requestBody) in(r *http.Request, events trace.Span) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	b.ReadCloser, b.events = r.Body, events
	r.Body = b
}

// responseBody ends a client's span when the response has been read or closed.
type responseBody struct {
	inner io.ReadCloser
	span  trace.Span
	ended atomic.Bool
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	switch err {
	case nil:
	case io.EOF:
		b.end()
	default:
		b.failed(err)
	}
	return n, err
}

func (b *responseBody) Close() error {
	b.end() // first: closing a stream can block
	return b.inner.Close()
}

func (b *responseBody) end() {
	if b.ended.CompareAndSwap(false, true) {
		b.span.End()
	}
}

func (b *responseBody) failed(err error) {
	b.span.SetAttributes(semconv.ErrorType(err))
	b.span.SetStatus(codes.Error, err.Error())
}

// duplexBody is responseBody for a connection that has switched protocols,
// whose body is also written to.
type duplexBody struct{ responseBody }

func (b *duplexBody) Write(p []byte) (int, error) {
	n, err := b.inner.(io.Writer).Write(p)
	if err != nil {
		b.failed(err)
	}
	return n, err
}

// in replaces r's body.
func (b *duplexBody) in(r *http.Response, span trace.Span) {
	b.inner, b.span = r.Body, span
	if _, ok := r.Body.(io.ReadWriteCloser); ok {
		r.Body = b
		return
	}
	r.Body = &b.responseBody
}
