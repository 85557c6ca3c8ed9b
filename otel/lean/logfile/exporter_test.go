package logfile_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/logfile"
)

func str(v string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}
}

func double(v float64) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}
}

// The whole line of a span with everything, as text: its form is a promise.
func TestLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	e := open(t, logfile.Config{Path: path})
	mustExport(t, e, span(2, 1, func(s *tracepb.Span) {
		s.Name = "GET /\"käse\"\n\x01"
		s.Kind = tracepb.Span_SPAN_KIND_SERVER
		s.Flags = 0x301
		s.TraceState = "ot=th:8"
		s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "no"}
		s.Attributes = []*commonpb.KeyValue{
			{Key: "text", Value: str("a\\b")}, {Key: "none"},
			{Key: "int", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: math.MinInt64}}},
			{Key: "bool", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{}}},
			{Key: "whole", Value: double(5)}, {Key: "large", Value: double(1e300)}, {Key: "nan", Value: double(math.NaN())},
			{Key: "bytes", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: []byte{0, 255}}}},
			{Key: "list", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{
				Values: []*commonpb.AnyValue{str("x"), double(-0.5)}}}}},
			{Key: "map", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{
				Values: []*commonpb.KeyValue{{Key: "k", Value: str("v")}}}}}},
			{Key: logfile.SpanKey, Value: str("left out")}, {Key: logfile.BelowKey, Value: str("left out")},
		}
		s.Events = []*tracepb.Span_Event{{TimeUnixNano: 7, Name: "e", DroppedAttributesCount: 4,
			Attributes: []*commonpb.KeyValue{{Key: "k", Value: str("v")}}}, {Name: "f"}}
		s.Links = []*tracepb.Span_Link{{TraceId: s.TraceId, SpanId: s.SpanId, TraceState: "a=b", Flags: 1}}
		s.DroppedAttributesCount, s.DroppedEventsCount, s.DroppedLinksCount = 1, 2, 3
	}))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	observed := lines(t, path)[0].ObservedTimestamp
	if ns, err := strconv.ParseInt(observed, 10, 64); err != nil || time.Since(time.Unix(0, ns)).Abs() > hour {
		t.Errorf("observed at %s", observed)
	}
	want := `{"EventName":"tare.span","ObservedTimestamp":"` + observed + `","TraceId":"00000000000000000000000000000001",` +
		`"Resource":{},"Timestamp":"1700000000000000000","InstrumentationScope":{"Name":"shop","Version":"1"},` +
		`"SpanId":"0000000000000002","TraceFlags":1,"SeverityText":"ERROR","SeverityNumber":17,"Body":"GET /\"käse\"\n\u0001",` +
		`"Attributes":{"text":"a\\b","none":null,"int":-9223372036854775808,"bool":false,"whole":5.0,"large":1e+300,` +
		`"nan":{"doubleValue":"NaN"},"bytes":{"bytesValue":"AP8="},"list":["x",-0.5],"map":{"k":"v"},` +
		`"tare.span":{"duration_ns":1000000,"parent_span_id":"0000000000000001","kind":"server","status":"error","status_message":"no",` +
		`"trace_state":"ot=th:8","flags":769,"events":[{"time":"7","name":"e","attributes":{"k":"v"},"dropped_attributes":4},` +
		`{"time":"0","name":"f"}],"links":[{"trace_id":"00000000000000000000000000000001","span_id":"0000000000000002",` +
		`"trace_state":"a=b","flags":1}],"dropped_attributes":1,"dropped_events":2,"dropped_links":3}}}` + "\n"
	assert.Equal(t, want, string(b))
}

// Text that is not UTF-8, which protobuf's Go types refuse to marshal, does not make the line invalid.
func TestNotUTF8(t *testing.T) {
	b := request(t, span(1, 0, func(s *tracepb.Span) { s.Name = "0123456789" }))
	b = []byte(strings.Replace(string(b), "0123456789", "01\xff\xfe\xc3xx789", 1))
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	e := open(t, logfile.Config{Path: path})
	if _, err := e.Export(context.Background(), b, 1); err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, "01���xx789", lines(t, path)[0].Body)
}

func TestMalformed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	e := open(t, logfile.Config{Path: path})
	good := request(t, span(1, 0, nil))
	for _, b := range [][]byte{{0xff}, good[:len(good)-1], request(t, &tracepb.Span{Name: "no ids"})} {
		if _, err := e.Export(context.Background(), b, 1); err == nil {
			t.Errorf("%x is taken", b)
		}
	}
	// A span before one that cannot be read is written.
	if rejected, err := export(t, e, span(1, 0, nil), &tracepb.Span{Name: "no ids"}); rejected != 1 || err != nil {
		t.Error(rejected, err)
	}
	if s := e.Stats(); s.Lost != 4 || s.Spans != 1 || len(lines(t, path)) != 1 {
		t.Errorf("%+v", s)
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Export(canceled, good, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	assert.NoError(t, e.Shutdown(context.Background()))
	if _, err := e.Export(context.Background(), good, 1); !errors.Is(err, logfile.ErrShutdown) {
		t.Error(err)
	}
}

// A service's request has one line, whatever of it ends in which batch; what does not belong to it has its own.
func TestPerRequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	e := open(t, logfile.Config{Path: path, PerRequest: true})
	remote := func(s *tracepb.Span) { s.Flags = 0x301 }
	mustExport(t, e, span(4, 3, nil), span(3, 2, nil))
	mustExport(t, e, span(9, 8, nil), span(5, 2, nil)) // 9 is of another request of this trace
	if s := e.Stats(); s.Held != 4 || s.Lines != 0 {
		t.Errorf("%+v", s)
	}
	mustExport(t, e, span(2, 1, remote))
	mustExport(t, e, span(6, 2, nil)) // after its request
	mustExport(t, e, span(8, 7, remote))
	require.NoError(t, e.Shutdown(context.Background()))
	var got []string
	for _, r := range lines(t, path) {
		got = append(got, strings.TrimLeft(r.SpanID, "0")+strings.ReplaceAll(strings.Join(r.below(t), ""), "0", ""))
	}
	if want := []string{"2345", "89", "6"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if s := e.Stats(); s.Spans != 7 || s.Lines != 3 || s.Held != 0 || s.Lost != 0 {
		t.Errorf("%+v", s)
	}
}

// The spans of a batch are in any order.
func TestRootBeforeItsSpans(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	e := open(t, logfile.Config{Path: path, PerRequest: true, HoldFor: -1})
	mustExport(t, e, span(1, 0, nil), span(3, 2, nil), span(9, 8, nil), span(2, 1, nil))
	got := lines(t, path)
	if len(got) != 2 || len(got[0].below(t)) != 2 || got[1].SpanID != "0000000000000009" {
		t.Errorf("%+v", got)
	}
	if s := e.Stats(); s.Spans != 4 || s.Held != 0 {
		t.Errorf("%+v", s)
	}
}

// What is held for too long, beyond the bound, or by who exports whole traces, has lines of its own.
func TestHeldIsReleased(t *testing.T) {
	for name, c := range map[string]logfile.Config{
		"age": {HoldFor: time.Nanosecond}, "whole traces": {HoldFor: -1},
		"bound": {HoldFor: hour, MaxFileBytes: 4096, MaxTotalBytes: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			c.PerRequest, c.Path = true, filepath.Join(t.TempDir(), "spans.jsonl")
			e := open(t, c)
			n := uint64(0)
			for i := range byte(20) {
				mustExport(t, e, span(i+1, 100, func(s *tracepb.Span) { s.TraceId[0] = i; s.Flags = 0x101 }))
				n++
			}
			mustExport(t, e, span(200, 0, nil))
			n++
			s := e.Stats()
			if s.Spans+s.Held != n || s.Lost != 0 || name != "bound" && s.Held != 0 || name == "bound" && (s.Held == 0 || s.Held > 4) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Ids that occur twice, and parents in a circle, lose nothing.
func TestOddTrees(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	e := open(t, logfile.Config{Path: path, PerRequest: true})
	mustExport(t, e, span(2, 1, nil), span(2, 1, nil), span(3, 4, nil), span(4, 3, nil), span(5, 5, nil), span(1, 2, nil), span(1, 0, nil))
	require.NoError(t, e.Shutdown(context.Background()))
	if s := e.Stats(); s.Spans != 7 || s.Held != 0 {
		t.Errorf("%+v", s)
	}
	assert.Len(t, lines(t, path)[0].below(t), 3)
}

// The exporter allocates nothing for a span, once its buffers have grown.
func TestAllocations(t *testing.T) {
	e := open(t, logfile.Config{})
	b := otlptest.Request(t, 512)
	run := func() {
		if _, err := e.Export(context.Background(), b, 512); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(20, run); n > 8 { // of the look whether somebody has rotated the file
		t.Errorf("%v allocations for 512 spans", n)
	}
}

func BenchmarkExport(b *testing.B) {
	request := otlptest.Request(b, 512)
	for name, perRequest := range map[string]bool{"per span": false, "per request": true} {
		b.Run(name, func(b *testing.B) {
			e := open(b, logfile.Config{PerRequest: perRequest, MaxTotalBytes: 64 << 20})
			b.SetBytes(int64(len(request)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Export(context.Background(), request, 512); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Whatever a message holds, what is written is lines of JSON.
func FuzzExport(f *testing.F) {
	f.Add(request(f, span(2, 1, nil), span(1, 0, nil)), true)
	f.Add(otlptest.Request(f, 3), false)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte, perRequest bool) {
		path := filepath.Join(dir, "spans.jsonl")
		_ = os.Remove(path)
		e, err := logfile.New(logfile.Config{Path: path, PerRequest: perRequest})
		require.NoError(t, err)
		_, _ = e.Export(context.Background(), b, 1)
		require.NoError(t, e.Shutdown(context.Background()))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if !json.Valid([]byte(line)) || !strings.HasSuffix(line, "\n") {
				t.Fatalf("%q", line)
			}
		}
	})
}
