package keepprocessor

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/otel/rule"
)

// Rule selects traces with a span that meets all conditions that are set. Patterns are
// those of package otel/rule.
type Rule struct {
	// Service is a pattern of the resource's service.name.
	Service string `mapstructure:"service"`
	// Name is a pattern of the span's name.
	Name string `mapstructure:"name"`
	// Kind is internal, server, client, producer or consumer.
	Kind string `mapstructure:"kind"`
	// Attributes maps keys to patterns of their values, in the span or, if the span does
	// not have the key, in its resource. Keys may contain dots.
	Attributes map[string]string `mapstructure:"attributes"`
	// Root restricts the rule to the trace's top span.
	Root bool `mapstructure:"root"`
	// Probability with which such traces are kept, 0 to 1, of all requests; default 1.
	// With 0 they are dropped, even failed ones. A value between 0 and 1 replaces the
	// share's probability.
	Probability *float64 `mapstructure:"probability"`

	_ struct{}
}

func (r *Rule) probability() float64 {
	if r.Probability == nil {
		return 1
	}
	return *r.Probability
}

// compiledRule is a Rule whose patterns are compiled.
type compiledRule struct {
	service   *rule.Pattern // nil: any
	span      *rule.Rule
	root      bool
	threshold consistent.Threshold
}

func compileRules(rules []Rule) ([]compiledRule, error) {
	out := make([]compiledRule, len(rules))
	var errs []error
	for i := range rules {
		var err error
		if out[i], err = compileRule(&rules[i]); err != nil {
			errs = append(errs, fmt.Errorf("rules: rule %d: %w", i+1, err))
		}
	}
	return out, errors.Join(errs...)
}

func compileRule(r *Rule) (c compiledRule, err error) {
	c.root = r.Root
	if c.span, err = rule.Compile(rule.Spec{Name: r.Name, Kind: r.Kind, Attributes: r.Attributes}); err != nil {
		return c, err
	}
	if r.Service == "" && r.Name == "" && r.Kind == "" && len(r.Attributes) == 0 && !r.Root {
		return c, errors.New(`has no condition; give service, name, kind or attributes (for all traces: share)`)
	}
	p := r.probability()
	if !(p >= 0 && p <= 1) {
		return c, fmt.Errorf("probability is %g; use 0 to 1", p)
	}
	c.threshold = consistent.NewRate(p).Threshold()
	if c.service, err = optional(r.Service); err != nil {
		return c, fmt.Errorf("service: %w", err)
	}
	return c, nil
}

func optional(text string) (*rule.Pattern, error) {
	if text == "" {
		return nil, nil
	}
	return rule.CompilePattern(text)
}

// matches reports whether the span meets the conditions other than root.
func (r *compiledRule) matches(service string, resource pcommon.Map, s ptrace.Span) bool {
	if r.service != nil && !r.service.Match(service) {
		return false
	}
	return r.span.MatchesFunc(s.Name(), trace.SpanKind(s.Kind()), func(key string, value *rule.Pattern) bool { // OTLP's kinds are the API's
		v, ok := s.Attributes().Get(key)
		if !ok {
			v, ok = resource.Get(key)
		}
		return ok && matchValue(value, v)
	})
}

// kindOf returns the span's kind; an unspecified one counts as internal.
func kindOf(s ptrace.Span) ptrace.SpanKind {
	if k := s.Kind(); k != ptrace.SpanKindUnspecified {
		return k
	}
	return ptrace.SpanKindInternal
}

// matchValue matches the text of a value as package rule does for the SDK. For a slice, one
// element has to match; bytes and maps never match.
func matchValue(p *rule.Pattern, v pcommon.Value) bool {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return p.Match(v.Str())
	case pcommon.ValueTypeInt:
		return p.MatchValue(attribute.Int64Value(v.Int()))
	case pcommon.ValueTypeDouble:
		return p.MatchValue(attribute.Float64Value(v.Double()))
	case pcommon.ValueTypeBool:
		return p.MatchValue(attribute.BoolValue(v.Bool()))
	case pcommon.ValueTypeSlice:
		for _, e := range v.Slice().All() {
			if t := e.Type(); t != pcommon.ValueTypeSlice && matchValue(p, e) {
				return true
			}
		}
	}
	return false
}
