package equality

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// byClock stands for a time that was read from a clock during the run.
const byClock = math.MaxUint64

// stack stands for a stack trace.
const stack = "<a stack trace>"

// canonical returns copies of a result's spans with times and stack traces in a form that can be
// compared, and an error for what no span may be, whoever sent it.
func canonical(r Result) ([]*Span, error) {
	var err error
	from, to := uint64(r.From.UnixNano()), uint64(r.To.UnixNano())
	read := func(t uint64) bool { return from <= t && t <= to }

	starts := map[string]uint64{}
	for _, s := range r.Spans {
		if read(s.GetStartTimeUnixNano()) {
			starts[string(s.GetSpanId())] = s.GetStartTimeUnixNano()
		}
	}
	around := map[Surroundings][]byte{} // the spans of a scope share it
	out := make([]*Span, len(r.Spans))
	for i, s := range r.Spans {
		err = errors.Join(err, checkIDs(s.Span), checkTimes(s.Span, read))
		if parent, ok := starts[string(s.GetParentSpanId())]; ok && read(s.GetStartTimeUnixNano()) && s.GetStartTimeUnixNano() < parent {
			err = errors.Join(err, fmt.Errorf("span %q starts before its parent", s.GetName()))
		}
		c := *s
		group := Surroundings{s.Scope, s.ScopeSchema, s.Resource, s.ResourceSchema}
		if _, ok := around[group]; !ok {
			around[group] = group.bytes()
		}
		c.around = around[group]
		c.Span = proto.CloneOf(s.Span)
		for _, t := range times(c.Span) {
			if read(*t) {
				*t = byClock
			}
		}
		for _, e := range c.GetEvents() {
			hideStack(e)
		}
		out[i] = &c
	}
	return out, err
}

// times are all times of a span.
func times(s *tracepb.Span) []*uint64 {
	out := []*uint64{&s.StartTimeUnixNano, &s.EndTimeUnixNano}
	for _, e := range s.GetEvents() {
		out = append(out, &e.TimeUnixNano)
	}
	return out
}

// checkTimes holds times of a clock to their order; times that the program gave may be anything. The
// exception of a panic may come after the end: End takes its time first. An event may come after the
// end by slack: the SDK's end is the start's wall clock plus what went by on the monotonic one, and
// time.Now reads the two one after the other, with a thread that may be suspended in between.
func checkTimes(s *tracepb.Span, read func(uint64) bool) error {
	const slack = uint64(time.Second)
	start, end := s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano()
	if read(start) && read(end) && end < start {
		return fmt.Errorf("span %q ends %v before its start", s.GetName(), time.Duration(start-end))
	}
	for i, e := range s.GetEvents() {
		t, panicked := e.GetTimeUnixNano(), i == len(s.GetEvents())-1 && e.GetName() == "exception"
		if read(t) && read(start) && t < start || read(t) && read(end) && t > end+slack && !panicked {
			return fmt.Errorf("event %q of span %q is outside of the span", e.GetName(), s.GetName())
		}
	}
	return nil
}

// checkIDs: OTLP demands 16 and 8 bytes that are not all zero; of a link no more than their number,
// since a link without a valid span context is allowed if it has attributes or a tracestate.
func checkIDs(s *tracepb.Span) error {
	zero := func(id []byte) bool { return strings.Trim(string(id), "\x00") == "" }
	switch p := s.GetParentSpanId(); {
	case len(s.GetTraceId()) != 16 || zero(s.GetTraceId()):
		return fmt.Errorf("span %q has the trace id %x", s.GetName(), s.GetTraceId())
	case len(s.GetSpanId()) != 8 || zero(s.GetSpanId()):
		return fmt.Errorf("span %q has the span id %x", s.GetName(), s.GetSpanId())
	case len(p) != 0 && (len(p) != 8 || zero(p)):
		return fmt.Errorf("span %q has the parent id %x", s.GetName(), p)
	}
	for _, l := range s.GetLinks() {
		if len(l.GetTraceId()) != 16 || len(l.GetSpanId()) != 8 {
			return fmt.Errorf("span %q has a link to %x, %x", s.GetName(), l.GetTraceId(), l.GetSpanId())
		}
	}
	return nil
}

// hideStack replaces stack traces: they name the tracer's own functions. A text that the program gave
// under the same key stays.
func hideStack(e *tracepb.Span_Event) {
	for _, kv := range e.GetAttributes() {
		v := kv.GetValue().GetStringValue()
		if kv.GetKey() == "exception.stacktrace" && strings.HasPrefix(v, "goroutine ") && strings.Contains(v, ".go:") {
			kv.Value = &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: stack}}
		}
	}
}
