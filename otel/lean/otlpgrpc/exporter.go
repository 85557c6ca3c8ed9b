package otlpgrpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

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

// method of opentelemetry/proto/collector/trace/v1/trace_service.proto.
const method = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

// Exporter sends requests to one endpoint. It may be used by several
// goroutines. Make it with [New].
type Exporter struct {
	config   *config
	conn     *grpc.ClientConn
	own      bool // conn is the exporter's
	call     []grpc.CallOption
	metadata metadata.MD
	gate     *gate.Gate
	gauge    pressure.Gauge
}

// New returns an exporter configured by the environment and the options. It
// does not connect: a collector may start later than its clients.
func New(opts ...Option) (*Exporter, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	e := &Exporter{config: c, conn: c.conn, call: []grpc.CallOption{grpc.ForceCodecV2(codec{})}, gate: gate.New()}
	if e.conn == nil {
		if e.conn, err = grpc.NewClient(c.target, c.dialOptions()...); err != nil {
			return nil, fmt.Errorf("otlpgrpc: endpoint %q: %w", c.target, err)
		}
		e.own = true
	}
	if c.gzip {
		e.call = append(e.call, grpc.UseCompressor(gzip.Name))
	}
	if len(c.headers) > 0 {
		e.metadata = metadata.New(c.headers)
	}
	return e, nil
}

// Endpoint is the target that requests are sent to: a URL, which says whether by
// TLS, or what gRPC has in its place.
func (e *Exporter) Endpoint() string {
	switch {
	case strings.Contains(e.conn.Target(), ":/") || strings.HasPrefix(e.conn.Target(), "unix"):
		return e.conn.Target()
	case e.config.insecure && e.config.credentials == nil:
		return "http://" + e.conn.Target()
	}
	return "https://" + e.conn.Target()
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
		return 0, fmt.Errorf("otlpgrpc: %w", err)
	}
	defer leave()
	if e.config.timeout > 0 {
		var cancel context.CancelFunc
		run, cancel = context.WithTimeout(run, e.config.timeout)
		defer cancel()
	}
	if e.metadata != nil {
		run = metadata.NewOutgoingContext(run, e.metadata)
	}
	e.gauge.Begin()
	err = e.config.retry.Do(run, func(ctx context.Context) error {
		in := response{spans: spans}
		out := message{data: request, transient: e.config.gzip}
		if err := e.conn.Invoke(ctx, e.config.method, &out, &in, e.call...); err != nil {
			err = callError(err)
			if retry.IsTransient(err) || status.Code(err) == codes.ResourceExhausted {
				e.gauge.Refused()
			}
			return err
		}
		rejected = in.partial.Rejected
		if in.err != nil {
			otel.Handle(fmt.Errorf("otlpgrpc: the receiver accepted a request, but: %w", in.err))
		} else if in.partial != (PartialSuccess{}) {
			otel.Handle(in.partial)
		}
		return nil
	})
	e.gauge.End(err == nil)
	if err != nil {
		return 0, fmt.Errorf("otlpgrpc: %s: %w", e.conn.CanonicalTarget(), err)
	}
	return rejected, nil
}

// Pressure is how hard it is to get spans to the receiver, 0 to 1: see package otel/pressure for its values. It rises
// while the receiver refuses requests (RESOURCE_EXHAUSTED, UNAVAILABLE and what else is repeated),
// cannot be reached, or takes long.
func (e *Exporter) Pressure() float64 { return e.gauge.Value() }

// Shutdown lets the exports under way finish until ctx ends, then ends them
// ([ErrShutdown]), and closes the connection if it is the exporter's. From its
// start on, new exports are refused. Further calls do nothing.
func (e *Exporter) Shutdown(ctx context.Context) error {
	first, err := e.gate.Shut(ctx)
	if err != nil {
		err = fmt.Errorf("otlpgrpc: shutdown ended the exports under way: %w", err)
	}
	if first && e.own {
		err = errors.Join(err, e.conn.Close())
	}
	return err
}
