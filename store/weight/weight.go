// Package weight says how many traces one trace stands for in estimates: of requests, errors, rates, durations and
// calls. The store, the page, the diagnosis and tare_keep ask it, so that they count alike.
//
// A trace stands for 1/probability by the threshold in its tracestate (ot=th, package otel/consistent); for 1 without
// a threshold. A trace that was kept retroactively stands for none: head-sampled traces stand for all requests,
// failed and slow ones among them, so that it would be counted twice.
package weight

import (
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/span/semconv"
)

// Trace is what the spans of a trace say of its sampling. The zero value is a trace that says nothing.
type Trace struct {
	Adjusted float64          // 1/probability by the threshold, that of the root if it has one; 0: no span has one
	Retro    semconv.RetroSet // what spans say of retroactive sampling
	ofRoot   bool             // Adjusted
}

// Add adds what a span says, or a part of the trace, which isRoot if it has the root.
func (t *Trace) Add(adjusted float64, isRoot bool, retro semconv.RetroSet) {
	if adjusted > 0 && (t.Adjusted == 0 || isRoot && !t.ofRoot) {
		t.Adjusted, t.ofRoot = adjusted, isRoot
	}
	t.Retro |= retro
}

// Kept is why the trace was kept retroactively; 0 if it was not, or was head-sampled, too.
func (t Trace) Kept() semconv.RetroSet {
	if t.Adjusted > 0 || t.Retro&semconv.RetroKept == 0 {
		return 0
	}
	return t.Retro
}

// Traces is how many traces it stands for.
func (t Trace) Traces() float64 {
	switch {
	case t.Adjusted > 0:
		return t.Adjusted
	case t.Kept() != 0:
		return 0
	}
	return 1
}

// States reads thresholds in tracestates. It remembers the last one, since spans of one service have the same as a
// rule. It is not safe for concurrent use.
type States struct {
	last     string
	adjusted float64
}

// Adjusted is 1/probability by the threshold in the tracestate; 0 if it has none.
func (s *States) Adjusted(tracestate string) float64 {
	switch tracestate {
	case "":
		return 0
	case s.last:
		return s.adjusted
	}
	s.last, s.adjusted = strings.Clone(tracestate), 0 // it may be memory that the caller uses again
	if ts, err := trace.ParseTraceState(s.last); err == nil {
		if th, ok := consistent.ThresholdOf(ts); ok {
			s.adjusted = consistent.AdjustedCount(th)
		}
	}
	return s.adjusted
}
