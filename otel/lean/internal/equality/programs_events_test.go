package equality_test

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
)

// at is an event option with a fixed time.
func at(d time.Duration) trace.SpanEventOption { return trace.WithTimestamp(equality.At(d)) }

func addEvents(n int) func(trace.Span) {
	return func(s trace.Span) {
		for i := range n {
			s.AddEvent("event "+strconv.Itoa(i), trace.WithAttributes(numbered("k", i%5)...))
		}
	}
}

func eventPrograms() []program {
	out := []program{
		one("events/plain", func(s trace.Span) { s.AddEvent("a"); s.AddEvent(""); s.AddEvent("c") }),
		one("events/with attributes of every type", func(s trace.Span) { s.AddEvent("all", trace.WithAttributes(everyType()...)) }),
		one("events/duplicates and empty keys stay", func(s trace.Span) {
			s.AddEvent("e", trace.WithAttributes(attribute.Int("a", 1), attribute.Int("a", 2), attribute.Int("", 3), attribute.KeyValue{}))
			s.AddEvent("maps", trace.WithAttributes(attribute.Map("m", attribute.Int("k", 1), attribute.Int("k", 2))))
		}),
		one("events/several options", func(s trace.Span) {
			s.AddEvent("e", trace.WithAttributes(attribute.Int("a", 1)), at(time.Second), trace.WithAttributes(attribute.Int("b", 2)), at(2*time.Second))
			s.AddEvent("a stack trace is for errors", trace.WithStackTrace(true))
		}),
		one("events/with timestamps, not in order", func(s trace.Span) {
			s.AddEvent("late", at(time.Hour))
			s.AddEvent("early", at(-time.Hour))
			s.AddEvent("before 1970", trace.WithTimestamp(time.Unix(-1, 0)))
			s.AddEvent("1970", trace.WithTimestamp(time.Unix(0, 0)))
			s.AddEvent("zero is now", trace.WithTimestamp(time.Time{}))
			s.AddEvent("other zone", trace.WithTimestamp(equality.At(0).In(time.FixedZone("x", 3600))))
			s.AddEvent("far", trace.WithTimestamp(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)))
		}),
		one("events/128 and no more by default", addEvents(131)),
		one("events/the caller reuses the slice", func(s trace.Span) {
			kv := []attribute.KeyValue{attribute.Int("a", 1)}
			s.AddEvent("copied by the API", trace.WithAttributes(kv...))
			s.AddEvent("too", trace.WithAttributes(attribute.Int("b", 1)), trace.WithAttributes(kv...))
		}),
	}
	for _, n := range []int{-1, 0, 1, 2, 7} {
		out = append(out,
			limited(one(fmt.Sprintf("event count limit %d/oldest go", n), addEvents(20)), func(l *sdktrace.SpanLimits) { l.EventCountLimit = n }),
			limited(one(fmt.Sprintf("event count limit %d/errors count too", n), func(s trace.Span) {
				addEvents(3)(s)
				s.RecordError(errors.New("broken"))
			}), func(l *sdktrace.SpanLimits) { l.EventCountLimit = n }),
			limited(one(fmt.Sprintf("event attribute limit %d", n), func(s trace.Span) {
				addEvents(10)(s)
				s.AddEvent("many", trace.WithAttributes(numbered("k", 200)...))
				s.AddEvent("duplicates count", trace.WithAttributes(attribute.Int("a", 1), attribute.Int("a", 2), attribute.Int("", 2)))
				s.RecordError(errors.New("broken"), trace.WithAttributes(numbered("k", 6)...))
				s.RecordError(errors.New("broken"))
			}), func(l *sdktrace.SpanLimits) { l.AttributePerEventCountLimit = n }))
	}
	return append(out, one("event attribute limit/128 by default", func(s trace.Span) { s.AddEvent("many", trace.WithAttributes(numbered("k", 131)...)) }))
}
