package lean

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// samplerFromEnv reads OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG as the SDK does; a nil
// sampler leaves the choice to the default.
func samplerFromEnv() (sdktrace.Sampler, error) {
	name := strings.ToLower(strings.TrimSpace(os.Getenv("OTEL_TRACES_SAMPLER")))
	ratio := func() (sdktrace.Sampler, error) {
		arg := strings.TrimSpace(os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
		if arg == "" {
			return sdktrace.TraceIDRatioBased(1), nil
		}
		v, err := strconv.ParseFloat(arg, 64)
		if err == nil && (v < 0 || v > 1) {
			err = errors.New("out of range")
		}
		if err != nil {
			return sdktrace.TraceIDRatioBased(1),
				fmt.Errorf("lean: OTEL_TRACES_SAMPLER_ARG=%q is not a ratio from 0 to 1; 1 is used: %w", arg, err)
		}
		return sdktrace.TraceIDRatioBased(v), nil
	}
	switch name {
	case "":
		return nil, nil
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		return ratio()
	case "parentbased_always_on":
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample()), nil
	case "parentbased_traceidratio":
		s, err := ratio()
		return sdktrace.ParentBased(s), err
	}
	return nil, fmt.Errorf("lean: OTEL_TRACES_SAMPLER=%q is not a sampler of the SDK; parentbased_always_on is used", name)
}

// The SDK's samplers do not read attributes. Their types are private, their descriptions are
// specified.
var indifferent = regexp.MustCompile(`AlwaysOnSampler|AlwaysOffSampler|TraceIDRatioBased\{[0-9.e+-]+\}`)
var wrappers = regexp.MustCompile(`ParentBased\{root:\x00,remoteParentSampled:\x00,remoteParentNotSampled:\x00,` +
	`localParentSampled:\x00,localParentNotSampled:\x00\}|AlwaysRecord\{root:\x00\}`)

// usesAttributes tells whether a sampler looks at SamplingParameters.Attributes: a sampler says so
// by a method UsesAttributes() bool; without one, only the SDK's are known not to.
func usesAttributes(s sdktrace.Sampler) bool {
	if u, ok := s.(interface{ UsesAttributes() bool }); ok {
		return u.UsesAttributes()
	}
	d := s.Description()
	d = indifferent.ReplaceAllString(d, "\x00")
	for before := ""; before != d; {
		before, d = d, wrappers.ReplaceAllString(d, "\x00")
	}
	return d != "\x00"
}

// parentContext shows a sampler a parent that is in no context yet: one from the wire, or none for
// a new root. It is lent for the call only, as SamplingParameters.ParentContext is anyway.
type parentContext struct {
	noop.Span
	context.Context
	sc trace.SpanContext
}

var parentContexts = sync.Pool{New: func() any { return new(parentContext) }}

func lendParent(ctx context.Context, sc trace.SpanContext) *parentContext {
	p := parentContexts.Get().(*parentContext)
	p.Context, p.sc = ctx, sc
	return p
}

func (p *parentContext) giveBack() {
	p.Context, p.sc = nil, trace.SpanContext{}
	parentContexts.Put(p)
}

// Value implements context.Context.
func (p *parentContext) Value(key any) any {
	if key == spanKey {
		return trace.Span(p)
	}
	return p.Context.Value(key)
}

// SpanContext implements trace.Span.
func (p *parentContext) SpanContext() trace.SpanContext { return p.sc }
