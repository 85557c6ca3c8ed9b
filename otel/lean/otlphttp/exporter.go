package otlphttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tare-trace/tare/otel/internal/pressure"
	"github.com/tare-trace/tare/otel/lean/internal/gate"
	"github.com/tare-trace/tare/otel/lean/internal/otlpwire"
	"github.com/tare-trace/tare/otel/lean/internal/retry"
)

// ErrShutdown is the error of an export that comes after Shutdown, or that
// Shutdown had to end because its context was over.
var ErrShutdown = gate.ErrShut

// PartialSuccess is what OpenTelemetry's error handler gets when a receiver
// rejects spans of a request that it accepts otherwise, or warns.
type PartialSuccess = otlpwire.PartialSuccess

// Exporter sends requests to one endpoint. It may be used by several
// goroutines. Make it with [New].
type Exporter struct {
	config *config
	header http.Header
	client *http.Client
	own    *http.Transport // nil if the client is the user's
	gate   *gate.Gate
	gauge  pressure.Gauge
}

// New returns an exporter configured by the environment and the options. It
// does not connect: a collector may start later than its clients.
func New(opts ...Option) (*Exporter, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	e := &Exporter{config: c, header: newHeader(c), gate: gate.New()}
	if c.client != nil {
		client := *c.client
		e.client = &client
	} else {
		e.own = newTransport(c)
		e.client = &http.Client{Transport: e.own}
	}
	if e.client.CheckRedirect == nil {
		e.client.CheckRedirect = checkRedirect
	}
	return e, nil
}

// Export sends request, an encoded ExportTraceServiceRequest of so many spans,
// and repeats it while that makes sense. It returns how many spans the receiver
// rejected, 0 to spans. An error means that none are known to have arrived.
// Nothing reads request after Export has returned, even if it failed half-way.
func (e *Exporter) Export(ctx context.Context, request []byte, spans int) (rejected int, err error) {
	if len(request) == 0 {
		return 0, nil
	}
	run, leave, err := e.gate.Enter(ctx)
	if err != nil {
		return 0, fmt.Errorf("otlphttp: %w", err)
	}
	defer leave()

	content := request
	if e.config.gzip {
		z := compress(request)
		defer z.release()
		content = z.out.Bytes()
	}
	body := newPayload(content)
	defer body.detach() // before the buffer is released or the caller reuses request

	e.gauge.Begin()
	err = e.config.retry.Do(run, func(ctx context.Context) error {
		var err error
		rejected, err = e.attempt(ctx, body, spans)
		if retry.IsTransient(err) {
			e.gauge.Refused()
		}
		return err
	})
	e.gauge.End(err == nil)
	if err != nil {
		return 0, fmt.Errorf("otlphttp: %w", err)
	}
	return rejected, nil
}

// Pressure is how hard it is to get spans to the receiver, 0 to 1: see package otel/pressure for its values. It rises
// while the receiver refuses requests (429, 502, 503, 504), cannot be reached, or takes long.
func (e *Exporter) Pressure() float64 { return e.gauge.Value() }

// attempt sends the request once. Failures that may pass are retry.Transient.
func (e *Exporter) attempt(ctx context.Context, body *payload, spans int) (rejected int, err error) {
	if e.config.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.config.timeout, &timeoutError{e.config.timeout})
		defer cancel()
	}
	u := e.config.url
	request := (&http.Request{
		Method: http.MethodPost, URL: &u, Host: u.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: e.header.Clone(),
		Body:   body.reader(), ContentLength: int64(body.length),
		// For a connection that turns out to be closed, and for 307 and 308.
		GetBody: body.newReader,
	}).WithContext(ctx)
	response, err := e.client.Do(request)
	if err != nil {
		return 0, sendError(ctx, err)
	}
	defer response.Body.Close()
	if response.Request == nil {
		response.Request = request // a user's RoundTripper need not set it
	}
	if response.Request.Method != http.MethodPost {
		return 0, fmt.Errorf("the redirect to %s became a %s without the spans: configure that endpoint instead",
			response.Request.URL.Redacted(), response.Request.Method)
	}
	return accepted(response, spans, time.Now)
}

// Shutdown lets the exports under way finish until ctx ends, then ends them
// ([ErrShutdown]), and closes the connections. From its start on, new exports
// are refused. Further calls do nothing.
func (e *Exporter) Shutdown(ctx context.Context) error {
	first, err := e.gate.Shut(ctx)
	if first && e.own != nil {
		e.own.CloseIdleConnections()
	}
	if err != nil {
		return fmt.Errorf("otlphttp: shutdown ended the exports under way: %w", err)
	}
	return nil
}

type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("no response within %v (OTEL_EXPORTER_OTLP_TIMEOUT, WithTimeout)", e.after)
}

// Is makes it a context.DeadlineExceeded, as a timeout of net/http is.
func (*timeoutError) Is(target error) bool { return errors.Is(target, context.DeadlineExceeded) }
