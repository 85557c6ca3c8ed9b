package export

import (
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"
)

// Config tells where and how to export. Zero values mean the environment's
// (OTEL_EXPORTER_OTLP_*, OTEL_BSP_*), then the default; only Loss is required.
type Config struct {
	// Protocol is "grpc" or "http/protobuf": OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,
	// OTEL_EXPORTER_OTLP_PROTOCOL, "http/protobuf".
	Protocol string

	// Endpoint is a URL, of which http means without TLS. "/v1/traces" is
	// added for http/protobuf if it has no path. The default is the
	// environment's, then OTLP's: http://localhost, port 4317 or 4318.
	Endpoint string

	// ScopeName and ScopeVersion name the instrumentation scope.
	ScopeName, ScopeVersion string

	// MaxQueue and MaxQueueBytes (of encoded spans) bound what is queued or
	// on its way: OTEL_BSP_MAX_QUEUE_SIZE, 16,384; and 8 MiB. The allocator's
	// slack, and the copies that a client makes of the one batch on its way,
	// come on top.
	MaxQueue, MaxQueueBytes int

	// MaxBatch and MaxBatchBytes bound one request: 2,048 or
	// OTEL_BSP_MAX_EXPORT_BATCH_SIZE; and 2 MiB, half of what a gRPC receiver
	// takes by default. A larger span goes alone.
	MaxBatch, MaxBatchBytes int

	// FlushInterval is how long a span waits for others at most:
	// OTEL_BSP_SCHEDULE_DELAY, 1 s.
	FlushInterval time.Duration

	Retry Retry

	// Discard encodes requests and sends none, to measure what encoding costs.
	Discard bool

	Loss LossCounter
	Log  *slog.Logger // nil: silent
}

// Retry is the exponential backoff of failed batches.
type Retry struct {
	Initial time.Duration // before the first retry; 1 s
	Max     time.Duration // between two; 15 s
	For     time.Duration // since the first attempt, then the batch is given up; 2 min
}

// withDefaults fills what is not set, and refuses what cannot be honoured.
func (c Config) withDefaults() (Config, error) {
	if c.Loss == nil {
		return c, errors.New("export: Config.Loss is nil: losses must be counted")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.ScopeName == "" {
		c.ScopeName = "github.com/tare-trace/tare"
	}
	if c.Protocol == "" {
		c.Protocol = protocolFromEnv()
	}
	orElse(&c.MaxQueue, c.fromEnv("OTEL_BSP_MAX_QUEUE_SIZE", 16384))
	orElse(&c.MaxQueueBytes, 8<<20)
	orElse(&c.MaxBatch, c.fromEnv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 2048))
	orElse(&c.MaxBatchBytes, 2<<20)
	delay := c.fromEnv("OTEL_BSP_SCHEDULE_DELAY", 1000)
	orElse(&c.FlushInterval, time.Duration(delay)*time.Millisecond)
	orElse(&c.Retry.Initial, time.Second)
	orElse(&c.Retry.Max, 15*time.Second)
	orElse(&c.Retry.For, 2*time.Minute)
	// If the queue filled up before a batch, the batch would wait for the interval
	// although nothing more fits.
	c.MaxBatch = min(c.MaxBatch, c.MaxQueue)
	c.MaxBatchBytes = min(c.MaxBatchBytes, c.MaxQueueBytes)
	return c, nil
}

func orElse[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// fromEnv reads a positive number. OpenTelemetry wants what is not one
// ignored, with a warning.
func (c Config) fromEnv(name string, otherwise int) int {
	text := strings.TrimSpace(os.Getenv(name))
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		c.Log.Warn("ignoring an environment variable that is not a positive number", "name", name, "value", text)
		return otherwise
	}
	return n
}

func protocolFromEnv() string {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := strings.TrimSpace(os.Getenv(name)); p != "" {
			return p
		}
	}
	return HTTPProtobuf
}
