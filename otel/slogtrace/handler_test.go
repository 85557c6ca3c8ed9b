package slogtrace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/internal/race"
	"github.com/tare-trace/tare/otel/lean"
	"github.com/tare-trace/tare/otel/slogtrace"
)

// A handler that wraps one of the standard library is one by the library's own test.
func TestIsAHandler(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return slogtrace.New(slog.NewJSONHandler(&out, nil))
	}, func(t *testing.T) map[string]any { return decode(t, out.Bytes()) })
}

// The same holds while a span is current: ids take nothing from groups and attributes.
func TestIsAHandlerInSpans(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return within{slogtrace.New(slog.NewJSONHandler(&out, nil))}
	}, func(t *testing.T) map[string]any {
		record := decode(t, out.Bytes())
		if record[slogtrace.TraceIDKey] != traceID || record[slogtrace.SpanIDKey] != spanID {
			t.Errorf("%s", out.Bytes())
		}
		return record
	})
}

const traceID, spanID = "0102030405060708090a0b0c0d0e0f10", "a102030405060708"

func inSpan(ctx context.Context) context.Context {
	t, _ := trace.TraceIDFromHex(traceID) // it is one
	s, _ := trace.SpanIDFromHex(spanID)
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s}))
}

// within is a handler that is always called in a span.
type within struct{ slog.Handler }

func (w within) Handle(ctx context.Context, r slog.Record) error {
	return w.Handler.Handle(inSpan(ctx), r)
}
func (w within) WithAttrs(a []slog.Attr) slog.Handler { return within{w.Handler.WithAttrs(a)} }
func (w within) WithGroup(n string) slog.Handler      { return within{w.Handler.WithGroup(n)} }

func decode(t *testing.T, b []byte) (record map[string]any) {
	t.Helper()
	assert.NoError(t, json.Unmarshal(b, &record), "%s", b)
	return record
}

// The order of attributes is the caller's, the ids are of the top level, and what is not in a span has none.
func TestText(t *testing.T) {
	var out strings.Builder
	without := slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}}
	log := slog.New(slogtrace.New(slog.NewTextHandler(&out, &without)))
	ctx := inSpan(context.Background())
	log.Info("none", "a", 1)
	log.InfoContext(ctx, "flat", "a", 1)
	group := log.With("b", 2).WithGroup("g").With("c", 3).WithGroup("h")
	group.With("d", 4).InfoContext(ctx, "groups", "e", 5)
	group.InfoContext(ctx, "sibling")
	group.Info("no span", "e", 5)
	const ids = " trace_id=" + traceID + " span_id=" + spanID
	want := "level=INFO msg=none a=1\n" +
		"level=INFO msg=flat a=1" + ids + "\n" +
		"level=INFO msg=groups b=2" + ids + " g.c=3 g.h.d=4 g.h.e=5\n" +
		"level=INFO msg=sibling b=2" + ids + " g.c=3\n" +
		"level=INFO msg=\"no span\" b=2 g.c=3 g.h.e=5\n"
	assert.Equal(t, want, out.String())
}

// A record that several handlers get is each one's own.
func TestRecordIsNotChanged(t *testing.T) {
	var one, two strings.Builder
	first, second := slogtrace.New(slog.NewTextHandler(&one, nil)), slogtrace.New(slog.NewTextHandler(&two, nil))
	r := slog.Record{Message: "m"}
	for range 7 { // more than a record has room for
		r.AddAttrs(slog.Int("a", 1))
	}
	ctx := inSpan(context.Background())
	require.NoError(t, first.Handle(ctx, r))
	require.NoError(t, second.Handle(ctx, r))
	if one.String() != two.String() || strings.Contains(two.String(), "BUG") || r.NumAttrs() != 7 {
		t.Errorf("%s%s", &one, &two)
	}
}

// Spans of both SDKs, from many goroutines at once: each record has the ids of its own span.
func TestProviders(t *testing.T) {
	for name, p := range map[string]trace.TracerProvider{"lean": lean.NewTracerProvider(), "official": sdktrace.NewTracerProvider()} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := slog.New(slogtrace.New(slog.NewJSONHandler(&out, nil))) // which locks
			var work sync.WaitGroup
			for range 8 {
				work.Go(func() {
					for range 50 {
						ctx, span := p.Tracer("test").Start(context.Background(), "work")
						sc := span.SpanContext()
						log.InfoContext(ctx, "m", "want", sc.TraceID().String()+sc.SpanID().String())
						span.End()
					}
				})
			}
			work.Wait()
			n := 0
			for line := range bytes.Lines(out.Bytes()) {
				r := decode(t, line)
				if ids := r["trace_id"].(string) + r["span_id"].(string); ids != r["want"] {
					t.Errorf("%s", line)
				}
				n++
			}
			assert.Equal(t, 400, n, "records")
		})
	}
}

// The ids are one string, and nothing else is allocated.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector has pools lose what they hold")
	}
	ctx := inSpan(context.Background())
	plain := slog.New(slog.NewTextHandler(io.Discard, nil))
	log := slog.New(slogtrace.New(slog.NewTextHandler(io.Discard, nil)))
	allocations := func(log *slog.Logger, ctx context.Context) float64 {
		return testing.AllocsPerRun(100, func() { log.LogAttrs(ctx, slog.LevelInfo, "m", slog.Int("a", 1), slog.String("b", "c")) })
	}
	without := allocations(plain, ctx)
	if n := allocations(log, context.Background()) - without; n != 0 {
		t.Errorf("%v allocations without a span", n)
	}
	if n := allocations(log, ctx) - without; n > 1 {
		t.Errorf("%v allocations for the ids", n)
	}
}
