package keepprocessor

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
)

// sampling is how a trace was sampled before: the threshold it arrived with
// ([consistent.Always] if it has none), and its random bits.
type sampling struct {
	threshold  consistent.Threshold
	randomness consistent.Randomness
}

// states reads and writes thresholds in OTLP's trace states. The spans of a trace, and
// often of a whole message, have the same trace state, so the last one is cached. It is
// not safe for concurrent use.
type states struct {
	read struct {
		raw        string
		threshold  consistent.Threshold
		randomness consistent.Randomness
		explicit   bool
	}
	written struct {
		raw, changed string
		threshold    consistent.Threshold
		set          bool
	}
}

// of reads the sampling of a span. A threshold that the random bits contradict counts as
// none: the span was sampled for another reason, with an unknown probability.
func (s *states) of(raw string, id pcommon.TraceID) sampling {
	if r := &s.read; raw != r.raw {
		r.raw, r.threshold, r.explicit = raw, consistent.Always, false
		if strings.Contains(raw, "ot=") {
			ts, _ := trace.ParseTraceState(raw) // empty if it cannot be read
			if th, ok := consistent.ThresholdOf(ts); ok {
				r.threshold = th
			}
			r.randomness, r.explicit = consistent.RandomnessOf(ts)
		}
	}
	out := sampling{s.read.threshold, s.read.randomness}
	if !s.read.explicit {
		out.randomness = consistent.OfTraceID(trace.TraceID(id))
	}
	if !out.threshold.Samples(out.randomness) {
		out.threshold = consistent.Always
	}
	return out
}

// raise returns the trace state with a threshold of at least th. A trace state that cannot
// be parsed is replaced: receivers discard it anyway (W3C Trace Context, 3.3.1.5).
func (s *states) raise(raw string, th consistent.Threshold) string {
	w := &s.written
	if w.set && w.raw == raw && w.threshold == th {
		return w.changed
	}
	w.raw, w.changed, w.threshold, w.set = raw, raw, th, true
	ts, err := trace.ParseTraceState(raw) // empty if it cannot be read
	if own, ok := consistent.ThresholdOf(ts); err != nil || !ok || own < th {
		w.changed = consistent.WithThreshold(ts, th).String()
	}
	return w.changed
}
