package logfile_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/otel/lean/logfile"
)

func open(t testing.TB, c logfile.Config) *logfile.Exporter {
	t.Helper()
	if c.Path == "" {
		c.Path = filepath.Join(t.TempDir(), "spans.jsonl")
	}
	e, err := logfile.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Shutdown(context.Background())) })
	return e
}

// export exports spans of one scope, and returns what Export does.
func export(t testing.TB, e *logfile.Exporter, spans ...*tracepb.Span) (int, error) {
	t.Helper()
	return e.Export(context.Background(), request(t, spans...), len(spans))
}

func mustExport(t testing.TB, e *logfile.Exporter, spans ...*tracepb.Span) {
	t.Helper()
	if rejected, err := export(t, e, spans...); rejected != 0 || err != nil {
		t.Fatal(rejected, err)
	}
}

func request(t testing.TB, spans ...*tracepb.Span) []byte {
	t.Helper()
	rs := &tracepb.ResourceSpans{
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "shop", Version: "1"}, Spans: spans}},
	}
	b, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{rs}})
	require.NoError(t, err)
	return b
}

// span is a span of trace 1; parent 0 is none.
func span(id, parent byte, change func(*tracepb.Span)) *tracepb.Span {
	s := &tracepb.Span{
		TraceId: append(make([]byte, 15), 1), SpanId: append(make([]byte, 7), id), Name: "work",
		StartTimeUnixNano: 1_700_000_000_000_000_000, EndTimeUnixNano: 1_700_000_000_001_000_000,
		Kind: tracepb.Span_SPAN_KIND_INTERNAL, Flags: 0x101,
	}
	if parent != 0 {
		s.ParentSpanId = append(make([]byte, 7), parent)
	}
	if change != nil {
		change(s)
	}
	return s
}

// record is a line, as far as the tests look at it.
type record struct {
	EventName, ObservedTimestamp, Timestamp, TraceID string
	SpanID                                           string
	TraceFlags                                       int
	SeverityText, Body                               string
	SeverityNumber                                   int
	Resource                                         map[string]any
	InstrumentationScope                             map[string]any
	Attributes                                       map[string]json.RawMessage
}

// lines are the records of a file; every line must be one.
func lines(t testing.TB, path string) []record {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var records []record
	for line := range strings.Lines(string(b)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%q: %v", line, err)
		}
		records = append(records, r)
	}
	return records
}

// below are the ids of the spans in a line beside its own, sorted.
func (r record) below(t testing.TB) (ids []string) {
	t.Helper()
	if raw := r.Attributes[logfile.BelowKey]; raw != nil {
		var records []record
		require.NoError(t, json.Unmarshal(raw, &records))
		for _, b := range records {
			ids = append(ids, b.SpanID)
		}
	}
	slices.Sort(ids)
	return ids
}

// files are the names in a directory, sorted.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	return names
}

// hour is longer than a test.
const hour = time.Hour
