package otlpgrpc

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tare-trace/tare/otel/lean/internal/otlpwire"
	"github.com/tare-trace/tare/otel/lean/internal/retry"
)

// callError tells what is worth repeating (OTLP specification, "OTLP/gRPC
// Response", "Failures" and "OTLP/gRPC Throttling"). That the caller's context
// is over is for retry.Do to see.
func callError(err error) error {
	s := status.Convert(err)
	delay, throttled := retryInfo(s)
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
	case codes.ResourceExhausted:
		// A quota of the day, or a load that is over in a second: only the
		// server knows, and RetryInfo is how it says so.
		if !throttled {
			return err
		}
	default:
		return err
	}
	return &retry.Transient{Err: err, After: delay}
}

// retryInfo returns the delay of a RetryInfo detail, and whether there is one.
func retryInfo(s *status.Status) (time.Duration, bool) {
	for _, detail := range s.Proto().GetDetails() {
		if otlpwire.IsRetryInfo(detail.GetTypeUrl()) {
			delay, err := otlpwire.DecodeRetryInfo(detail.GetValue())
			return delay, err == nil
		}
	}
	return 0, false
}
