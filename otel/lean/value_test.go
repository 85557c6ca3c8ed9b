package lean

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/otel/wire"
)

// decodeKV decodes one KeyValue field.
func decodeKV(t *testing.T, field []byte) *commonpb.KeyValue {
	t.Helper()
	list := new(commonpb.KeyValueList) // its values are field 1
	require.NoError(t, proto.Unmarshal(field, list), "%x", field)
	require.Len(t, list.Values, 1, "%x: attributes", field)
	return list.Values[0]
}

// Lengths of 127 and 128, 16383 and 16384 take one, two and three bytes.
func TestLengthsAboutVarintBorders(t *testing.T) {
	unlimited := valueLimits{depth: -1, length: -1}
	for _, around := range []int{0, 128, 16384} {
		for n := max(0, around-20); n < around+20; n++ {
			text := strings.Repeat("x", n)
			for _, kv := range []attribute.KeyValue{
				attribute.String("key", text), attribute.String("k"+text, "v"), attribute.StringSlice("key", []string{text, "y"}),
				attribute.ByteSlice("key", []byte(text)), attribute.Int("k"+text, -1), attribute.Float64("k"+text, 1),
				attribute.Bool("k"+text, true), attribute.Map("m", attribute.String(text, "v"), attribute.Slice("s", attribute.StringValue(text))),
			} {
				got := decodeKV(t, appendKeyValue(nil, wire.MapElement, &kv, unlimited))
				if got.Key != string(kv.Key) || plain(got.Value) != kv.Value.String() {
					t.Fatalf("%s of %d bytes came out as %v", kv.Value.Type(), n, got)
				}
			}
			got := decodeKV(t, appendStringsKV(nil, wire.MapElement, "key", []string{text}, -1))
			require.Equal(t, text, got.Value.GetArrayValue().Values[0].GetStringValue(), "strings of %d bytes", n)
		}
	}
}

// plain is attribute.Value.String of a decoded value.
func plain(v *commonpb.AnyValue) string { return valueOf(v).String() }

func valueOf(v *commonpb.AnyValue) attribute.Value {
	switch x := v.Value.(type) {
	case *commonpb.AnyValue_StringValue:
		return attribute.StringValue(x.StringValue)
	case *commonpb.AnyValue_BoolValue:
		return attribute.BoolValue(x.BoolValue)
	case *commonpb.AnyValue_IntValue:
		return attribute.Int64Value(x.IntValue)
	case *commonpb.AnyValue_DoubleValue:
		return attribute.Float64Value(x.DoubleValue)
	case *commonpb.AnyValue_BytesValue:
		return attribute.ByteSliceValue(x.BytesValue)
	case *commonpb.AnyValue_ArrayValue:
		var vs []attribute.Value
		for _, e := range x.ArrayValue.Values {
			vs = append(vs, valueOf(e))
		}
		return attribute.SliceValue(vs...)
	case *commonpb.AnyValue_KvlistValue:
		var kvs []attribute.KeyValue
		for _, e := range x.KvlistValue.Values {
			kvs = append(kvs, attribute.KeyValue{Key: attribute.Key(e.Key), Value: valueOf(e.Value)})
		}
		return attribute.MapValue(kvs...)
	}
	return attribute.Value{}
}

// Text that is not UTF-8 must not cost more than itself: proto.Unmarshal refuses it.
func TestInvalidUTF8IsMended(t *testing.T) {
	const bad, mended = "a\xff\xfeb", "a\uFFFDb"
	got := spansOf(leanly(t, func(tp trace.TracerProvider) {
		_, s := tp.Tracer(bad, trace.WithInstrumentationVersion(bad), trace.WithSchemaURL(bad)).Start(t.Context(), bad)
		s.SetAttributes(attribute.String(bad, bad), attribute.StringSlice("s", []string{bad}),
			attribute.Map("m", attribute.String(bad, bad)), attribute.String(bad, bad+"2"))
		s.AddEvent(bad, trace.WithAttributes(attribute.String(bad, bad)))
		s.SetStatus(1, bad)
		s.End()
	}))
	require.Len(t, got, 1, "spans")
	s := got[0]
	if s.Name != mended || s.Status.Message != mended || s.Events[0].Name != mended || len(s.Attributes) != 3 ||
		s.Attributes[0].Key != mended || s.Attributes[0].Value.GetStringValue() != mended+"2" {
		t.Errorf("%v", s)
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "abc", "a\xffb", "\xf0\x9f\x98", "\uFFFD", "日本語", strings.Repeat("x", 200)} {
		f.Add(s, s, 3)
	}
	f.Fuzz(func(t *testing.T, key, value string, limit int) {
		limit %= 300
		cut := truncate(value, limit)
		if limit >= 0 && len(cut) > limit && utf8.RuneCountInString(cut) > limit {
			t.Errorf("truncate(%q, %d) = %q", value, limit, cut)
		}
		if utf8.ValidString(value) && !strings.HasPrefix(value, cut) {
			t.Errorf("truncate(%q, %d) = %q", value, limit, cut)
		}
		kv := attribute.String(key, value)
		got := decodeKV(t, appendKeyValue(nil, wire.MapElement, &kv, valueLimits{depth: 1, length: limit}))
		if got.Key != wire.Text(key) || got.Value.GetStringValue() != wire.Text(cut) {
			t.Errorf("%q: %q, cut to %d, came out as %v", key, value, limit, got)
		}
	})
}
