package lean

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Many keys, set again and again to values of other lengths, between events and links: whatever
// is moved in the buffer, the SDK has the same.
func TestRewritingEqualsSDK(t *testing.T) {
	for seed := range uint64(30) {
		program := func(tp trace.TracerProvider) {
			r := rand.New(rand.NewPCG(seed, 7))
			_, s := tp.Tracer("t").Start(context.Background(), "n", trace.WithTimestamp(someTime))
			for range 300 {
				key := fmt.Sprint("key.", r.IntN(100))
				switch r.IntN(8) {
				case 0:
					s.AddEvent(key, trace.WithTimestamp(someTime), trace.WithAttributes(attribute.String(key, key)))
				case 1:
					s.AddLink(trace.Link{Attributes: []attribute.KeyValue{attribute.String(key, key)}})
				default:
					s.SetAttributes(attribute.String(key, strings.Repeat("x", r.IntN(300))))
				}
			}
			s.End(trace.WithTimestamp(someTime))
		}
		limits := sdktrace.NewSpanLimits()
		limits.AttributeCountLimit, limits.EventCountLimit, limits.LinkCountLimit = 90, 5, 5
		checkEqual(t,
			official(t, program, sdktrace.WithRawSpanLimits(limits), sdktrace.WithIDGenerator(new(counter))),
			leanly(t, program, WithSpanLimits(limits), WithIDGenerator(new(counter))))
		if t.Failed() {
			t.Fatal("seed", seed)
		}
	}
}

// A record that is used again must show nothing of the span before.
func TestRecordsAreReusedClean(t *testing.T) {
	program := func(tp trace.TracerProvider) {
		tracer := tp.Tracer("t")
		for i := range 50 {
			_, s := tracer.Start(context.Background(), "n", trace.WithTimestamp(someTime))
			if i%2 == 0 {
				for k := range 200 {
					s.SetAttributes(attribute.Int(fmt.Sprint("k", k), k))
					s.AddEvent("e", trace.WithTimestamp(someTime))
					s.AddLink(trace.Link{SpanContext: s.SpanContext()})
				}
				s.SetStatus(1, "failed")
			}
			s.SetAttributes(attribute.Int("k1", i))
			s.End(trace.WithTimestamp(someTime))
		}
	}
	checkEqual(t, official(t, program, sdktrace.WithIDGenerator(new(counter))), leanly(t, program, WithIDGenerator(new(counter))))
}

func TestTypedSettersEqualSetAttributes(t *testing.T) {
	limits := sdktrace.NewSpanLimits()
	limits.AttributeCountLimit, limits.AttributeValueLengthLimit = 5, 4
	run := func(set func(s *Span)) func(trace.TracerProvider) {
		return func(tp trace.TracerProvider) {
			_, s := tp.Tracer("t").Start(context.Background(), "n", trace.WithTimestamp(someTime))
			set(s.(*Span))
			s.End(trace.WithTimestamp(someTime))
			set(s.(*Span)) // too late
		}
	}
	opts := func() []Option { return []Option{WithSpanLimits(limits), WithIDGenerator(new(counter))} }
	want := leanly(t, run(func(s *Span) {
		s.SetAttributes(attribute.String("s", "abcdef"), attribute.Int64("i", -7), attribute.Float64("f", 1.5),
			attribute.Bool("b", true), attribute.StringSlice("l", []string{"abcdef", "x"}), attribute.String("s", "z"),
			attribute.String("", "no key"), attribute.String("too", "many"))
	}), opts()...)
	got := leanly(t, run(func(s *Span) {
		s.SetString("s", "abcdef")
		s.SetInt("i", -7)
		s.SetFloat("f", 1.5)
		s.SetBool("b", true)
		s.SetStrings("l", []string{"abcdef", "x"})
		s.SetString("s", "z")
		s.SetString("", "no key")
		s.SetString("too", "many")
	}), opts()...)
	checkEqual(t, want, got)
	if s := spansOf(got)[0]; len(s.Attributes) != 5 || s.DroppedAttributesCount != 2 {
		t.Errorf("%v", s)
	}
}
