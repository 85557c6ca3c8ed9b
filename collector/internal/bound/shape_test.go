package bound

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/jaegertracing/jaeger-idl/proto-gen/api_v2"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/protobuf/encoding/protowire"
)

// wrap encodes fields around content, the innermost last.
func wrap(content []byte, fields ...protowire.Number) []byte {
	for i := len(fields) - 1; i >= 0; i-- {
		b := protowire.AppendTag(nil, fields[i], protowire.BytesType)
		content = protowire.AppendBytes(b, content)
	}
	return content
}

// repeated is n times a field without content.
func repeated(f protowire.Number, n int) []byte {
	return bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, f, protowire.BytesType), nil), n)
}

// nested is an attribute of a span with n arrays in each other. It is written from its
// end, so that the time is linear.
func nested(n int) []byte {
	b := make([]byte, 12*n+64)
	at := len(b)
	put := func(f protowire.Number) {
		var head [12]byte
		h := protowire.AppendVarint(protowire.AppendTag(head[:0], f, protowire.BytesType), uint64(len(b)-at))
		at -= len(h)
		copy(b[at:], h)
	}
	for range n {
		put(1)
		put(5)
	}
	for _, f := range []protowire.Number{2, 9, 2, 2, 1} {
		put(f)
	}
	return b[at:]
}

func nestedJSON(n int) []byte {
	return []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"value":` +
		strings.Repeat(`{"arrayValue":{"values":[`, n) + strings.Repeat(`]}}`, n) + `}]}]}]}]}`)
}

// usual is a request of n spans with ten attributes each.
func usual(n int) []byte {
	return wrap(bytes.Repeat(wrap([]byte("\x0a\x10aaaaaaaaaaaaaaaa\x12\x08bbbbbbbb\x2a\x04name"+
		strings.Repeat(string(wrap([]byte("\x0a\x09some.key1\x12\x0c\x0a\x0asome value"), 9)), 10)), 2), n), 1, 2)
}

func decodeTraces(b []byte) (any, error) {
	r := ptraceotlp.NewExportRequest()
	return r, r.UnmarshalProto(b)
}

func decodeMetrics(b []byte) (any, error) {
	r := pmetricotlp.NewExportRequest()
	return r, r.UnmarshalProto(b)
}

func decodeLogs(b []byte) (any, error) {
	r := plogotlp.NewExportRequest()
	return r, r.UnmarshalProto(b)
}

func decodeJaeger(b []byte) (any, error) {
	r := &api_v2.PostSpansRequest{}
	return r, r.Unmarshal(b)
}

// The estimate is above what decoding takes, for every message that can be repeated for
// two bytes, and not so far above that honest requests are refused.
func TestEstimateCoversDecoding(t *testing.T) {
	const n = 40_000
	for _, c := range []struct {
		name   string
		shape  *shape
		body   []byte
		decode func([]byte) (any, error)
		within float64 // the estimate is at most so many times what was measured
	}{
		{"resources", tracesShape, repeated(1, n), decodeTraces, 8},
		{"scopes", tracesShape, wrap(repeated(2, n), 1), decodeTraces, 8},
		{"old scopes", tracesShape, wrap(repeated(1000, n), 1), decodeTraces, 8},
		{"spans", tracesShape, wrap(repeated(2, n), 1, 2), decodeTraces, 8},
		{"attributes", tracesShape, wrap(repeated(9, n), 1, 2, 2), decodeTraces, 8},
		{"events", tracesShape, wrap(repeated(11, n), 1, 2, 2), decodeTraces, 8},
		{"links", tracesShape, wrap(repeated(13, n), 1, 2, 2), decodeTraces, 8},
		{"values", tracesShape, wrap(repeated(1, n), 1, 2, 2, 9, 2, 5), decodeTraces, 8},
		{"arrays in values", tracesShape, wrap(bytes.Repeat(wrap(nil, 1, 5), n), 1, 2, 2, 9, 2, 5), decodeTraces, 8},
		{"resource's attributes", tracesShape, wrap(repeated(1, n), 1, 1), decodeTraces, 8},
		{"entities", tracesShape, wrap(repeated(3, n), 1, 1), decodeTraces, 8},
		{"texts of entities", tracesShape, wrap(repeated(3, n), 1, 1, 3), decodeTraces, 8},
		{"metrics", metricsShape, wrap(repeated(2, n), 1, 2), decodeMetrics, 8},
		{"points", metricsShape, wrap(repeated(1, n), 1, 2, 2, 5), decodeMetrics, 8},
		{"histograms", metricsShape, wrap(repeated(1, n), 1, 2, 2, 9), decodeMetrics, 8},
		{"buckets", metricsShape, wrap(make([]byte, 8*n), 1, 2, 2, 9, 1, 6), decodeMetrics, 8},
		{"buckets of exponential histograms", metricsShape, wrap(make([]byte, n), 1, 2, 2, 10, 1, 8, 2), decodeMetrics, 8},
		{"exemplars", metricsShape, wrap(repeated(8, n), 1, 2, 2, 9, 1), decodeMetrics, 8},
		{"logs", logsShape, wrap(repeated(2, n), 1, 2), decodeLogs, 8},
		{"Jaeger's spans", jaegerShape, wrap(repeated(1, n), 1), decodeJaeger, 8},
		{"Jaeger's tags", jaegerShape, wrap(repeated(8, n), 1, 1), decodeJaeger, 8},
		{"Jaeger's logs", jaegerShape, wrap(repeated(9, n), 1, 1), decodeJaeger, 8},
		{"Jaeger's references", jaegerShape, wrap(repeated(4, n), 1, 1), decodeJaeger, 8},
		{"Jaeger's warnings", jaegerShape, wrap(repeated(12, n), 1, 1), decodeJaeger, 8},
		{"what is usual", tracesShape, usual(n / 10), decodeTraces, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			cost := int64(len(c.body))
			if err := c.shape.walk(c.body, 0, &cost, 1<<40); err != nil {
				t.Fatal(err)
			}
			before := inUse()
			decoded, err := c.decode(c.body)
			after := inUse()
			if err != nil {
				t.Fatal(err)
			}
			runtime.KeepAlive(decoded)
			took := float64(after - before)
			if took > float64(cost) || float64(cost) > c.within*took+100_000 {
				t.Errorf("decoding %d bytes took %.0f, estimated %d (%.1f times)", len(c.body), took, cost, float64(cost)/took)
			}
		})
	}
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestEstimateOfJSON(t *testing.T) {
	const n = 20_000
	many := func(open, one, end string) []byte {
		return []byte(open + strings.Repeat(one+",", n-1) + one + end)
	}
	for name, body := range map[string][]byte{
		"spans":      many(`{"resourceSpans":[{"scopeSpans":[{"spans":[`, `{}`, `]}]}]}`),
		"attributes": many(`{"resource_spans":[{"scope_spans":[{"spans":[{"attributes":[`, `{}`, `]}]}]}]}`),
		"values":     many(`{"resourceSpans":[{"resource":{"attributes":[{"value":{"arrayValue":{"values":[`, `{}`, `]}}}]}}]}`),
		"events":     many(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"}]\"","events":[`, `{}`, `]}]}]}]}`),
	} {
		cost, err := walkJSON(body, tracesShape, 1<<40)
		if err != nil {
			t.Fatal(name, err)
		}
		before := inUse()
		r := ptraceotlp.NewExportRequest()
		if err := r.UnmarshalJSON(body); err != nil {
			t.Fatal(name, err)
		}
		took := inUse() - before
		runtime.KeepAlive(r)
		if total := cost + int64(len(body)); took > total || total > 10*took {
			t.Errorf("%s: decoding %d bytes took %d, estimated %d", name, len(body), took, total)
		}
	}
}

func reason(err error) string {
	var e *shapeError
	if errors.As(err, &e) {
		return e.reason
	}
	return fmt.Sprint(err)
}

func TestDepth(t *testing.T) {
	check := func(b []byte) error {
		var cost int64
		return tracesShape.walk(b, 0, &cost, 1<<40)
	}
	json := func(b []byte) error {
		_, err := walkJSON(b, tracesShape, 1<<40)
		return err
	}
	thrift := func(b []byte) error {
		_, err := walkThrift(b, tStruct, 1<<40)
		return err
	}
	structs := func(n int) []byte {
		return append(bytes.Repeat([]byte{tStruct, 0, 1}, n), make([]byte, n+1)...)
	}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"40 arrays", check(nested(40)), "<nil>"},
		{"60 arrays", check(nested(60)), "depth"},
		{"a million arrays", check(nested(300_000)), "depth"},
		{"a group", check([]byte{0x0b, 0x0c}), "malformed"},
		{"cut off", check([]byte{0x0a, 0x7f}), "malformed"},
		{"JSON, 40 arrays", json(nestedJSON(40)), "<nil>"},
		{"JSON, 70 arrays", json(nestedJSON(70)), "depth"},
		{"JSON, a million brackets", json(bytes.Repeat([]byte("["), 300_000)), "depth"},
		{"JSON, brackets in a text", json([]byte(`{"a":"` + strings.Repeat(`[\"`, 1000) + `"}`)), "<nil>"},
		{"JSON, text without end", json([]byte(`{"a":"\"`)), "malformed"},
		{"Thrift, 60 structs", thrift(structs(60)), "<nil>"},
		{"Thrift, 70 structs", thrift(structs(70)), "depth"},
		{"Thrift, a list of 2^31 structs", thrift([]byte{tList, 0, 1, tStruct, 0x7f, 0xff, 0xff, 0xff, 0}), "malformed"},
		{"Thrift, a text of 2^32 bytes", thrift([]byte{tString, 0, 1, 0xff, 0xff, 0xff, 0xff, 0}), "malformed"},
	} {
		if got := reason(c.err); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	var cost int64
	if err := tracesShape.walk(wrap(repeated(2, 300_000), 1, 2), 0, &cost, 1<<20); reason(err) != "objects" || cost > 2<<20 {
		t.Errorf("a million spans within 1 MiB: %v after %d", err, cost)
	}
}

// What the walk accepts is decoded without a fault of its own, and nested no deeper than
// it says.
func FuzzShape(f *testing.F) {
	f.Add(nested(3))
	f.Add(nested(60))
	f.Add(wrap(repeated(9, 10), 1, 2, 2))
	f.Add([]byte(nestedJSON(3)))
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"\\"}]}]}]}`))
	f.Add([]byte{tStruct, 0, 1, tList, 0, 2, tStruct, 0, 0, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 20
		var cost int64
		err := tracesShape.walk(b, 0, &cost, limit)
		if err == nil && cost > limit {
			t.Errorf("accepted with a cost of %d", cost)
		}
		if err == nil {
			_, _ = decodeTraces(b)
		}
		if _, err := walkJSON(b, tracesShape, limit); err == nil {
			r := ptraceotlp.NewExportRequest()
			_ = r.UnmarshalJSON(b)
		}
		_, _ = walkThrift(b, tStruct, limit)
	})
}

// What pdata decodes as messages, the walk takes for messages: a version of pdata that
// knows more than the descriptors would be walked past.
func TestShapesAreThoseOfPdata(t *testing.T) {
	seen := 0
	var compare func(path string, decoded reflect.Type, s *shape, within []reflect.Type)
	compare = func(path string, decoded reflect.Type, s *shape, within []reflect.Type) {
		if slices.Contains(within, decoded) {
			return
		}
		seen++
		for f := range decoded.Fields() {
			of := f.Type
			for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
				of = of.Elem()
			}
			if of.Kind() != reflect.Struct || f.Name == "DeprecatedScopeSpans" || f.Name == "DeprecatedScopeMetrics" || f.Name == "DeprecatedScopeLogs" {
				continue
			}
			child := s.names[strings.ToLower(f.Name[:1])+f.Name[1:]]
			if child == nil {
				t.Errorf("%s: %s is a message that the walk does not know", path, f.Name)
				continue
			}
			compare(path+"."+f.Name, of, child, append(within, decoded))
		}
	}
	for request, s := range map[any]*shape{ptraceotlp.ExportRequest{}: tracesShape, pmetricotlp.ExportRequest{}: metricsShape, plogotlp.ExportRequest{}: logsShape} {
		compare("", reflect.TypeOf(request).Field(0).Type.Elem(), s, nil)
	}
	if seen < 20 {
		t.Errorf("%d messages were compared", seen)
	}
}
