package service

import (
	"context"
	"fmt"
	"log"
	"regexp"
	"strconv"
	"sync/atomic"

	"github.com/go-logr/logr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Counts of the sampled spans: exported, dropped, failed. Counting adds nothing
// to the work of a request.
//
// The SDK's batch processor drops spans when its queue is full and tells
// nobody but its log: with every batch that it exports, it logs the sum at
// debug level, 8 (sdk/trace/batch_span_processor.go). Counts are a sink of that
// log. Where spans were dropped, the queue was full and another batch follows,
// so the sum is complete when the queue is empty again; while an export
// stalls, it is that of the export's begin. (The SDK's metrics would count in
// OnEnd, which is on a request's path.)
type Counts struct {
	exported atomic.Uint64
	failed   atomic.Uint64
	dropped  atomic.Uint64
}

// exporter counts what another one does, once per batch.
type exporter struct {
	sdktrace.SpanExporter
	counts *Counts
}

// rejected finds the number in the error of a partial success (OTLP 1.0),
// whose type the SDK keeps to itself.
var rejected = regexp.MustCompile(`partial success: .*\((\d+) spans rejected\)`)

func (e exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	n := uint64(len(spans))
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		e.counts.exported.Add(n)
		return nil
	}
	failed := n
	if m := rejected.FindStringSubmatch(err.Error()); m != nil {
		if some, parseErr := strconv.ParseUint(m[1], 10, 64); parseErr == nil {
			failed = min(some, n)
		}
	}
	e.counts.failed.Add(failed)
	e.counts.exported.Add(n - failed)
	return err
}

// sink is where the SDK logs to.
type sink struct {
	counts *Counts
	log    *log.Logger
}

// Levels of the SDK's messages (internal/global/internal_logging.go).
const (
	levelWarn  = 1
	levelDebug = 8
)

func (sink) Init(logr.RuntimeInfo)            {}
func (sink) Enabled(level int) bool           { return level <= levelDebug }
func (s sink) WithValues(...any) logr.LogSink { return s }
func (s sink) WithName(string) logr.LogSink   { return s }

func (s sink) Info(level int, msg string, pairs ...any) {
	if level <= levelWarn {
		s.log.Print(append([]any{msg, " "}, pairs...)...)
		return
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if n, ok := pairs[i+1].(uint32); ok && pairs[i] == "total_dropped" {
			s.counts.dropped.Store(uint64(n))
		}
	}
}

func (s sink) Error(err error, msg string, pairs ...any) {
	s.log.Print(fmt.Sprintf("%s: %v ", msg, err), fmt.Sprint(pairs...))
}
