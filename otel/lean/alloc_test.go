package lean

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/internal/race"
)

func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes sync.Pool forget")
	}
	sampled, _ := newProvider(t, WithSampler(sdktrace.AlwaysSample()), WithBatch(Batch{ScheduleDelay: time.Hour, MaxQueueSize: 4}))
	dropped, _ := newProvider(t, WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	on, _ := TracerOf(sampled, "t")
	off, _ := TracerOf(dropped, "t")
	ctx := context.Background()
	local, _ := off.Start(ctx, "root")
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})
	var span Span
	var none Unrecorded
	kvs := []attribute.KeyValue{keyMethod.String("GET"), keyStatus.Int(200)}
	for _, c := range []struct {
		name string
		most float64
		run  func()
	}{
		{"five attributes by SetAttributes", 2, func() {
			_, s := on.Start(ctx, "n")
			s.SetAttributes(keyMethod.String("GET"), keyRoute.String("/"), keyStatus.Int(200), keyScheme.String("http"), keyRetry.Bool(true))
			s.End()
		}},
		{"five attributes by typed setters", 1, func() {
			_, s := on.Start(ctx, "n")
			l := s.(*Span)
			l.SetString(keyMethod, "GET")
			l.SetString(keyRoute, "/")
			l.SetInt(keyStatus, 200)
			l.SetFloat(keyScheme, 1)
			l.SetBool(keyRetry, true)
			l.End()
		}},
		{"the instrumentation's memory", 0, func() {
			span = Span{}
			s := Start{Name: "n", Kind: trace.SpanKindServer, Attributes: kvs}
			d := on.Decide(ctx, &s)
			on.StartIn(&span, ctx, &s, &d)
			span.End()
		}},
		{"unsampled root", 1, func() {
			_, s := off.Start(ctx, "n")
			s.End()
		}},
		{"unsampled child", 1, func() {
			_, s := off.Start(local, "n")
			s.End()
		}},
		{"unsampled with a remote parent, in the instrumentation's memory", 0, func() {
			none = Unrecorded{}
			s := Start{Name: "n", Remote: remote}
			d := off.Decide(ctx, &s)
			off.DropIn(&none, ctx, &d)
		}},
	} {
		// The exporter's goroutine allocates, too, where the test is kept from the CPU: the least of a few counts.
		got := testing.AllocsPerRun(1000, c.run)
		for range 9 {
			got = min(got, testing.AllocsPerRun(1000, c.run))
		}
		assert.LessOrEqual(t, got, c.most, "%s: allocations", c.name)
	}
}
