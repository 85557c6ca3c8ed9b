package keep_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/otel/keep"
	"github.com/tare-trace/tare/otel/rule"
)

func TestSamplerDecisions(t *testing.T) {
	ratio0 := sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0))
	ratio1 := sdktrace.ParentBased(sdktrace.TraceIDRatioBased(1))
	for _, c := range []struct {
		name      string
		inner     sdktrace.Sampler
		parent    context.Context
		recording bool
		sampled   bool
		state     string
	}{
		{"root, dropped", ratio0, context.Background(), true, false, ""},
		{"root, sampled", ratio1, context.Background(), true, true, ""},
		{"remote parent not sampled", ratio1, remoteParent(1, false, "a=b"), true, false, "a=b"},
		{"remote parent sampled", ratio0, remoteParent(1, true, "ot=th:8,a=b"), true, true, "ot=th:8,a=b"},
		{"not parent-based, remote parent sampled", sdktrace.NeverSample(), remoteParent(1, true, "a=b"), true, false, "a=b"},
		{"not parent-based, remote parent not sampled", sdktrace.AlwaysSample(), remoteParent(1, false, "a=b"), true, true, "a=b"},
		{"threshold of a head that drops", consistent.NewRate(0), remoteParent(1, true, "ot=th:8;rv:00000000000001"), true, false, "ot=rv:00000000000001"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPipeline(t, c.inner, keep.Policy{})
			ctx, root := p.tracer.Start(c.parent, "root")
			defer root.End()
			for range 2 { // the local root, and a child that has to share its fate
				sc := trace.SpanContextFromContext(ctx)
				assert.Equal(t, c.recording, trace.SpanFromContext(ctx).IsRecording(), "recording")
				if sc.IsSampled() != c.sampled || sc.TraceState().String() != c.state {
					t.Errorf("sampled %t with tracestate %q, want %t, %q", sc.IsSampled(), sc.TraceState(), c.sampled, c.state)
				}
				var child trace.Span
				ctx, child = p.tracer.Start(ctx, "child")
				defer child.End()
			}
		})
	}
}

// A head that decides for each span would tear local traces: what a local root
// was not sampled for, its children are not either.
func TestSamplerKeepsLocalTracesWhole(t *testing.T) {
	p := newPipeline(t, childrenOnly{}, keep.Policy{})
	ctx, root := p.tracer.Start(context.Background(), "root")
	root.End() // and the child starts after it
	_, child := p.tracer.Start(ctx, "child")
	defer child.End()
	if !child.IsRecording() || child.SpanContext().IsSampled() {
		t.Errorf("the child of an unsampled root: recording %t, sampled %t; want true, false", child.IsRecording(), child.SpanContext().IsSampled())
	}
}

type childrenOnly struct{ sdktrace.Sampler }

func (childrenOnly) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.Name == "child" {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	}
	return sdktrace.SamplingResult{}
}
func (childrenOnly) Description() string { return "childrenOnly" }

func TestSamplerExceptions(t *testing.T) {
	health := rule.MustCompile(rule.Spec{Kind: "server", Attributes: map[string]string{"url.path": "/health"}})
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(keep.Sampler(sdktrace.NeverSample(), health, nil)))
	defer provider.Shutdown(context.Background()) //nolint:errcheck // nothing to shut down
	tracer := provider.Tracer("test")
	for path, recording := range map[string]bool{"/health": false, "/pay": true} {
		ctx, root := tracer.Start(context.Background(), "GET", trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("url.path", path)))
		_, child := tracer.Start(ctx, "query")
		if root.IsRecording() != recording || child.IsRecording() != recording {
			t.Errorf("%s: recording %t, child %t; want %t", path, root.IsRecording(), child.IsRecording(), recording)
		}
		root.End()
		_, late := tracer.Start(ctx, "after the root")
		assert.Equal(t, recording, late.IsRecording(), "%s: child after the root's end: recording", path)
	}
}

func TestSamplerUsesAttributes(t *testing.T) {
	byName := rule.MustCompile(rule.Spec{Name: "GET /health"})
	byPath := rule.MustCompile(rule.Spec{Attributes: map[string]string{"url.path": "/health"}})
	parentBased := sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.25))
	for _, c := range []struct {
		sampler sdktrace.Sampler
		want    bool
	}{
		{keep.Sampler(sdktrace.AlwaysSample()), false},
		{keep.Sampler(parentBased), false},
		{keep.Sampler(sdktrace.AlwaysRecord(sdktrace.NeverSample())), false},
		{keep.Sampler(consistent.ParentBased(consistent.NewRate(0.1))), false},
		{keep.Sampler(keep.Sampler(sdktrace.NeverSample())), false},
		{keep.Sampler(parentBased, byName), false},
		{keep.Sampler(parentBased, byPath), true},
		{keep.Sampler(keep.Sampler(sdktrace.NeverSample(), byPath)), true},
		{keep.Sampler(childrenOnly{}), true},
		{keep.Sampler(sdktrace.ParentBased(childrenOnly{})), true},
	} {
		assert.Equal(t, c.want, c.sampler.(interface{ UsesAttributes() bool }).UsesAttributes(), "%s: uses attributes", c.sampler.Description())
	}
	if got, want := keep.Sampler(sdktrace.NeverSample()).Description(), "Keep{AlwaysOffSampler}"; got != want {
		t.Errorf("description %q, want %q", got, want)
	}
}
