package lean

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/otel"
)

// Batch says how finished spans are collected and handed to the exporter. A zero field takes the
// value of its environment variable, else its default.
type Batch struct {
	// MaxQueueSize is how many finished spans may wait, those in a running export included. One
	// more is dropped and counted. OTEL_BSP_MAX_QUEUE_SIZE, default 2048.
	MaxQueueSize int
	// MaxQueueBytes bounds the same queue by the encoded size of its spans. Default 16 MiB.
	MaxQueueBytes int
	// MaxExportBatchSize is how many spans one request holds at most; as soon as about so many wait,
	// they are exported. OTEL_BSP_MAX_EXPORT_BATCH_SIZE, default 512; never more than MaxQueueSize.
	MaxExportBatchSize int
	// MaxExportBatchBytes bounds a request by its size, so that receivers take it: gRPC servers
	// refuse more than 4 MiB unless told otherwise. A single larger span is sent alone. Default
	// 3.5 MiB.
	MaxExportBatchBytes int
	// ScheduleDelay is how long a finished span waits at most for its batch to fill.
	// OTEL_BSP_SCHEDULE_DELAY (milliseconds), default 5 s.
	ScheduleDelay time.Duration
	// ExportTimeout bounds one call of Exporter.Export, its retries included; negative: no bound.
	// OTEL_BSP_EXPORT_TIMEOUT (milliseconds), default 30 s.
	ExportTimeout time.Duration
}

const (
	defaultQueueSize  = 2048
	defaultQueueBytes = 16 << 20
	defaultBatchSize  = 512
	defaultBatchBytes = 7 << 19
	defaultDelay      = 5000  // ms
	defaultTimeout    = 30000 // ms
)

// withDefaults fills what is zero, and mends what cannot work.
func (b Batch) withDefaults() Batch {
	or := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	or(&b.MaxQueueSize, envInt("OTEL_BSP_MAX_QUEUE_SIZE", defaultQueueSize))
	or(&b.MaxExportBatchSize, envInt("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", defaultBatchSize))
	or(&b.MaxQueueBytes, defaultQueueBytes)
	or(&b.MaxExportBatchBytes, defaultBatchBytes)
	b.MaxExportBatchSize = min(b.MaxExportBatchSize, b.MaxQueueSize)
	if b.ScheduleDelay <= 0 {
		b.ScheduleDelay = time.Duration(envInt("OTEL_BSP_SCHEDULE_DELAY", defaultDelay)) * time.Millisecond
	}
	if b.ExportTimeout == 0 {
		b.ExportTimeout = time.Duration(envInt("OTEL_BSP_EXPORT_TIMEOUT", defaultTimeout)) * time.Millisecond
	}
	return b
}

// envInt reads a positive integer. The specification wants a variable that cannot be understood to
// be reported and ignored.
func envInt(name string, def int) int {
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	v, err := strconv.Atoi(text)
	if err != nil || v <= 0 {
		otel.Handle(fmt.Errorf("lean: %s=%q is not a positive whole number; %d is used", name, text, def))
		return def
	}
	return v
}
