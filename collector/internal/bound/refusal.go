package bound

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
)

// refusal says why a request is not decoded.
type refusal struct {
	reason string
	text   string
	http   int
	grpc   codes.Code
}

func (r *refusal) Error() string { return r.text }

// busy is the only refusal after which the same request may be accepted.
var busy = &refusal{
	"busy", "too many requests are being received at once: send it again later", http.StatusServiceUnavailable, codes.Unavailable,
}

func bad(reason, format string, args ...any) *refusal {
	return &refusal{reason, fmt.Sprintf(format, args...), http.StatusBadRequest, codes.InvalidArgument}
}

// refused makes a refusal of an error of walk.
func refused(err error) *refusal {
	var shape *shapeError
	if errors.As(err, &shape) {
		return bad(shape.reason, "request refused before decoding: %s", shape.text)
	}
	return bad("malformed", "request refused: %v", err)
}

// refusals counts and logs what is refused.
type refusals struct {
	log      *zap.Logger
	count    metric.Int64Counter
	receiver attribute.KeyValue
}

func newRefusals(set component.TelemetrySettings, id component.ID, log *zap.Logger) (*refusals, error) {
	count, err := set.MeterProvider.Meter("github.com/tare-trace/tare/collector/internal/bound").Int64Counter(
		"tare_receiver_refused_requests", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that were refused before they were decoded, by receiver and reason."))
	if err != nil {
		return nil, fmt.Errorf("make the counter of refused requests: %w", err)
	}
	return &refusals{log: log, count: count, receiver: attribute.String("receiver", id.String())}, nil
}

func (s *refusals) add(ctx context.Context, from string, r *refusal) {
	s.count.Add(context.WithoutCancel(ctx), 1, metric.WithAttributes(s.receiver, attribute.String("reason", r.reason)))
	s.log.Warn("request refused", zap.String("from", from), zap.String("reason", r.reason), zap.String("error", r.text))
}
