package equality_test

import (
	"context"
	"math"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// everyType has one attribute of every type, empty ones included.
func everyType() []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.Bool("bool", true), attribute.Bool("bool.false", false),
		attribute.Int("int", 42), attribute.Int64("int.min", math.MinInt64), attribute.Int64("int.max", math.MaxInt64),
		attribute.Int("int.zero", 0), attribute.Int("int.negative", -1),
		attribute.Float64("float", 3.5), attribute.Float64("float.zero", 0), attribute.Float64("float.negative zero", math.Copysign(0, -1)),
		attribute.Float64("float.nan", math.NaN()), attribute.Float64("float.inf", math.Inf(1)), attribute.Float64("float.-inf", math.Inf(-1)),
		attribute.Float64("float.tiny", math.SmallestNonzeroFloat64),
		attribute.String("string", "text"), attribute.String("string.empty", ""), attribute.String("string.zero byte", "a\x00b"),
		attribute.String("string.long", strings.Repeat("0123456789", 2000)),
		attribute.BoolSlice("bools", []bool{true, false, true}), attribute.BoolSlice("bools.empty", []bool{}), attribute.BoolSlice("bools.nil", nil),
		attribute.IntSlice("ints", []int{1, 0, -1}), attribute.Int64Slice("ints.many", make([]int64, 300)), attribute.IntSlice("ints.empty", []int{}),
		attribute.Float64Slice("floats", []float64{1.5, 0, math.Inf(1)}), attribute.Float64Slice("floats.empty", nil),
		attribute.StringSlice("strings", []string{"a", "", "c"}), attribute.StringSlice("strings.empty", []string{}),
		attribute.StringSlice("strings.many", strings.Split(strings.Repeat("x,", 200), ",")),
		attribute.ByteSlice("bytes", []byte{0, 1, 0xff}), attribute.ByteSlice("bytes.empty", []byte{}), attribute.ByteSlice("bytes.nil", nil),
		{Key: "empty"}, {Key: "empty.explicit", Value: attribute.Value{}},
		attribute.Slice("slice", attribute.IntValue(1), attribute.StringValue("two"), attribute.Value{}, attribute.BoolValue(false)),
		attribute.Slice("slice.empty"), attribute.Slice("slice.nested", attribute.SliceValue(attribute.SliceValue(), attribute.IntSliceValue([]int{1}))),
		attribute.Slice("slice.many", make([]attribute.Value, 20)...),
		attribute.Map("map", attribute.Int("z", 1), attribute.String("a", "2"), attribute.KeyValue{Key: "none"}), attribute.Map("map.empty"),
		attribute.Map("map.nested", attribute.Map("m", attribute.Slice("s", attribute.MapValue(attribute.Bool("deep", true))))),
		attribute.Map("map.many", numbered("k", 30)...), attribute.Map("map.empty key", attribute.Int("", 1)),
		attribute.Stringer("stringer", trace.SpanKindServer),
	}
}

func attributePrograms() []program {
	all := everyType()
	twice := []attribute.KeyValue{attribute.Int("a", 1), attribute.Int("b", 2), attribute.String("a", "last"), attribute.Int("c", 3), attribute.Int("b", 4)}
	duplicates := attribute.Map("m", attribute.Int("k", 1), attribute.Int("j", 2), attribute.Int("k", 3),
		attribute.Map("n", attribute.Int("x", 1), attribute.Int("x", 2)), attribute.Slice("s", attribute.MapValue(twice...)))
	return []program{
		one("attributes/of every type", set(all...)),
		one("attributes/of every type, at start", set(), trace.WithAttributes(all...)),
		one("attributes/of every type, one by one", func(s trace.Span) {
			for _, kv := range all {
				s.SetAttributes(kv)
			}
		}),
		one("attributes/none", set()),
		one("attributes/empty key is dropped and counted", set(attribute.Int("a", 1), attribute.Int("", 2), attribute.Int("b", 3), attribute.KeyValue{})),
		one("attributes/only empty keys", set(attribute.Int("", 2), attribute.KeyValue{})),
		one("attributes/duplicates in one call", set(twice...)),
		one("attributes/duplicates at start", set(), trace.WithAttributes(twice...)),
		one("attributes/duplicates across calls", func(s trace.Span) {
			s.SetAttributes(twice[:2]...)
			s.SetAttributes(twice[2:]...)
			s.SetAttributes(attribute.Bool("b", true))
		}, trace.WithAttributes(attribute.Int("c", 0), attribute.Int("first", 1))),
		one("attributes/several options at start", set(attribute.Int("z", 26)), trace.WithAttributes(attribute.Int("a", 1)),
			trace.WithAttributes(), trace.WithAttributes(attribute.Int("b", 2), attribute.Int("a", 3))),
		one("attributes/duplicate keys in maps", set(duplicates)),
		one("attributes/duplicate keys in maps, at start", set(), trace.WithAttributes(duplicates)),
		one("attributes/a value changes its type", func(s trace.Span) {
			for _, kv := range all {
				kv.Key = "same"
				s.SetAttributes(kv)
			}
		}),
		one("attributes/the caller reuses the slice", func(s trace.Span) {
			kv := []attribute.KeyValue{attribute.Int("a", 1), attribute.Int("b", 2)}
			s.SetAttributes(kv...)
			kv[0], kv[1] = attribute.Int("a", 9), attribute.Int("c", 9)
			s.SetAttributes(kv[1])
		}),
		one("attributes/many, default limit not reached", set(numbered("k", 128)...)),
		one("attributes/many, default limit exceeded", set(numbered("k", 140)...)),
		one("attributes/replaced often, by longer and shorter ones", func(s trace.Span) {
			for i := range 1000 {
				s.SetAttributes(attribute.String("a", strings.Repeat("x", i%300)), attribute.Int(strings.Repeat("k", i%7+1), i), attribute.StringSlice("b", make([]string, i%5)))
			}
		}),
		one("attributes/larger than a request should be", func(s trace.Span) {
			s.SetAttributes(attribute.String("a", strings.Repeat("x", 5<<20)), attribute.String("b", strings.Repeat("y", 130)))
		}),
		{Name: "attributes/of spans that fill requests by their size", Run: func(ctx context.Context, e *env) {
			for i := range 12 {
				_, s := e.Main().Start(ctx, "large", trace.WithAttributes(attribute.String("a", strings.Repeat("x", 1<<20)), attribute.Int("i", i)))
				s.End()
			}
		}},
		one("attributes/keys of any text", set(attribute.Int(" ", 1), attribute.Int("ключ", 2), attribute.Int("a\nb", 3), attribute.Int(strings.Repeat("k", 5000), 4))),
	}
}

func attributeLimitPrograms() []program {
	var out []program
	count := func(n int) func(*sdktrace.SpanLimits) {
		return func(l *sdktrace.SpanLimits) { l.AttributeCountLimit = n }
	}
	length := func(n int) func(*sdktrace.SpanLimits) {
		return func(l *sdktrace.SpanLimits) { l.AttributeValueLengthLimit = n }
	}
	depth := func(n int) func(*sdktrace.SpanLimits) {
		return func(l *sdktrace.SpanLimits) { l.AttributeValueDepthLimit = n }
	}
	for _, n := range []struct {
		name  string
		limit int
	}{{"-1", -1}, {"0", 0}, {"1", 1}, {"2", 2}, {"5", 5}, {"300", 300}} {
		out = append(out,
			limited(one("attribute count limit "+n.name+"/one call", set(numbered("k", 200)...)), count(n.limit)),
			limited(one("attribute count limit "+n.name+"/updates go on when full", func(s trace.Span) {
				s.SetAttributes(numbered("k", 4)...)
				s.SetAttributes(attribute.Int("kaa", 100), attribute.Int("new", 1), attribute.Int("kab", 101), attribute.Int("", 1))
				s.SetAttributes(attribute.Int("kaa", 200), attribute.Int("newer", 1), attribute.Int("kaa", 300))
			}, trace.WithAttributes(attribute.Int("kaa", -1), attribute.Int("kaa", -2), attribute.Int("start", 1))), count(n.limit)),
			limited(one("attribute count limit "+n.name+"/duplicates only", func(s trace.Span) {
				for range 10 {
					s.SetAttributes(attribute.Int("a", 1), attribute.Int("b", 2), attribute.Int("a", 3))
				}
			}), count(n.limit)),
			limited(one("attribute count limit "+n.name+"/duplicates fill it before they are merged", func(s trace.Span) {
				s.SetAttributes(attribute.Int("a", 1), attribute.Int("a", 2))
				s.SetAttributes(attribute.Int("a", 3), attribute.Int("b", 1))
				s.SetAttributes(attribute.Int("c", 1), attribute.Int("d", 1), attribute.Int("e", 1), attribute.Int("f", 1), attribute.Int("g", 1))
			}), count(n.limit)),
		)
	}
	texts := []attribute.KeyValue{
		attribute.String("ascii", "0123456789"), attribute.String("two", "äöüßéèçñ"), attribute.String("three", "日本語テキスト"),
		attribute.String("four", "🙂🙃🚀🛰🧪"), attribute.String("mixed", "aä日🙂b"), attribute.String("combined", "e\u0301e\u0301e\u0301"),
		attribute.String("replacement", "a\ufffdb\ufffdc"), attribute.String("empty", ""),
		attribute.StringSlice("strings", []string{"0123456789", "äöüß", "", "日本語テキスト"}), attribute.ByteSlice("bytes", []byte("0123456789")),
		attribute.Slice("slice", attribute.StringValue("äöüß"), attribute.ByteSliceValue([]byte("0123")), attribute.SliceValue(attribute.StringValue("日本語"))),
		attribute.Map("map", attribute.String("long key is not cut", "0123456789"), attribute.StringSlice("s", []string{"日本語テキスト"})),
		attribute.Int("int", 1234567890),
	}
	for _, n := range []struct {
		name  string
		limit int
	}{{"-1", -1}, {"0", 0}, {"1", 1}, {"3", 3}, {"4", 4}, {"100", 100}} {
		out = append(out, limited(one("attribute length limit "+n.name, func(s trace.Span) {
			s.SetAttributes(texts...)
			s.AddEvent("not limited", trace.WithAttributes(texts...))
			s.AddLink(trace.Link{SpanContext: remote(1, ""), Attributes: texts})
		}, trace.WithAttributes(attribute.String("start", "日本語テキスト"))), length(n.limit)),
			limited(one("attribute length limit "+n.name+"/and count limit", set(append(texts, texts...)...)), func(l *sdktrace.SpanLimits) {
				length(n.limit)(l)
				count(3)(l)
			}))
	}
	nested := attribute.Slice("nested", attribute.SliceValue(attribute.SliceValue(attribute.MapValue(attribute.Slice("s", attribute.BoolSliceValue([]bool{true})))),
		attribute.IntValue(1)), attribute.MapValue(attribute.Map("m", attribute.ByteSlice("b", []byte{1}), attribute.Int("i", 1), attribute.Int("i", 2))))
	for _, n := range []struct {
		name  string
		limit int
	}{{"-1", -1}, {"0 is the default", 0}, {"1", 1}, {"2", 2}, {"3", 3}, {"10", 10}} {
		out = append(out, limited(one("attribute depth limit "+n.name, func(s trace.Span) {
			s.SetAttributes(nested, attribute.IntSlice("flat", []int{1}), attribute.Int("scalar", 1))
			s.AddEvent("event", trace.WithAttributes(nested))
			s.AddLink(trace.Link{SpanContext: remote(1, ""), Attributes: []attribute.KeyValue{nested}})
		}, trace.WithAttributes(attribute.Map("start", nested))), depth(n.limit)))
	}
	// What is not UTF-8 cannot be sent, but what the limit cuts is made valid first: both must agree on how.
	broken := []attribute.KeyValue{attribute.String("a", "\xff0123"), attribute.String("b", "01\xff\xfe23"), attribute.String("c", "äö\xc3"), attribute.String("d", "\xff\xff\xff\xff"),
		attribute.String("e", "日本\xe6\x9c"), attribute.StringSlice("f", []string{"\xff\xffäö", "ok"}), attribute.Map("g", attribute.String("h", "0\xff123"))}
	for _, n := range []int{0, 1, 2, 3} {
		out = append(out, limited(one("attribute length limit "+strconv.Itoa(n)+"/not UTF-8", set(broken...)), length(n)))
	}
	deep := attribute.IntValue(1)
	for range 100 {
		deep = attribute.SliceValue(deep)
	}
	return append(out, one("attribute depth limit/of 64 by default", set(attribute.KeyValue{Key: "deep", Value: deep})))
}
