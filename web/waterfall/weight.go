package waterfall

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
)

// weight reads how many traces a sampled trace represents, 1 / probability, from the
// threshold in its tracestate; 1 without a threshold.
func weight(tracestate string) float64 {
	if ts, err := trace.ParseTraceState(tracestate); err == nil {
		if th, ok := consistent.ThresholdOf(ts); ok {
			return consistent.AdjustedCount(th)
		}
	}
	return 1
}
