package keep

import (
	"context"
	"regexp"
	"slices"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/rule"
)

// Sampler returns a head sampler that records what inner would drop, so that a
// [Processor] can keep it: such spans are recorded, and propagated as not
// sampled. A child of a recorded, unsampled local parent is recorded, too,
// without asking inner: one decision holds for all spans of a local trace.
//
// Spans that match an exception (health checks, or whatever must not be
// recorded) are left to inner; what it drops is dropped, with its children,
// failed or not.
func Sampler(inner sdktrace.Sampler, except ...*rule.Rule) sdktrace.Sampler {
	except = slices.DeleteFunc(slices.Clone(except), func(r *rule.Rule) bool { return r == nil })
	return &sampler{
		inner:      inner,
		except:     except,
		attributes: slices.ContainsFunc(except, (*rule.Rule).UsesAttributes) || usesAttributes(inner),
	}
}

type sampler struct {
	inner      sdktrace.Sampler
	except     []*rule.Rule
	attributes bool
}

func (s *sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	if parent.IsValid() && !parent.IsRemote() && !parent.IsSampled() {
		if len(s.except) == 0 || recorded(p.ParentContext) {
			return sdktrace.SamplingResult{Decision: sdktrace.RecordOnly, Tracestate: parent.TraceState()}
		}
		return s.inner.ShouldSample(p)
	}
	result := s.inner.ShouldSample(p)
	if result.Decision == sdktrace.Drop && !s.excepted(&p) {
		result.Decision = sdktrace.RecordOnly
	}
	return result
}

// recorded reports whether the context's span is or was recorded: an ended span
// no longer says so itself, but the SDK's recorded spans can be read.
func recorded(ctx context.Context) bool {
	span := trace.SpanFromContext(ctx)
	if _, ok := span.(sdktrace.ReadOnlySpan); ok {
		return true
	}
	return span.IsRecording()
}

func (s *sampler) excepted(p *sdktrace.SamplingParameters) bool {
	if len(s.except) == 0 {
		return false
	}
	span := rule.Span{Name: p.Name, Kind: p.Kind, Attributes: p.Attributes}
	for _, r := range s.except {
		if r.Matches(span) {
			return true
		}
	}
	return false
}

// Description names the sampler and the one that it wraps.
func (s *sampler) Description() string { return "Keep{" + s.inner.Description() + "}" }

// UsesAttributes reports whether the attributes at a span's start are read.
func (s *sampler) UsesAttributes() bool { return s.attributes }

// samplerName finds the names in an SDK sampler's description, which nests as
// in "ParentBased{root:AlwaysOnSampler,...}".
var samplerName = regexp.MustCompile(`(?:^|:)([^:{},]*)`)

// usesAttributes asks the sampler; of those that cannot tell, only the SDK's
// are known to read none.
func usesAttributes(s sdktrace.Sampler) bool {
	if u, ok := s.(interface{ UsesAttributes() bool }); ok {
		return u.UsesAttributes()
	}
	for _, m := range samplerName.FindAllStringSubmatch(s.Description(), -1) {
		switch m[1] {
		case "AlwaysOnSampler", "AlwaysOffSampler", "TraceIDRatioBased", "ParentBased", "AlwaysRecord":
		default:
			return true
		}
	}
	return false
}
