package keepprocessor

import (
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"

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
	service, name *rule.Pattern // nil: any
	kind          ptrace.SpanKind
	attributes    []condition
	root          bool
	threshold     consistent.Threshold
}

type condition struct {
	key     string
	pattern *rule.Pattern
}

var kinds = map[string]ptrace.SpanKind{
	"":         ptrace.SpanKindUnspecified, // any
	"internal": ptrace.SpanKindInternal,
	"server":   ptrace.SpanKindServer,
	"client":   ptrace.SpanKindClient,
	"producer": ptrace.SpanKindProducer,
	"consumer": ptrace.SpanKindConsumer,
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

func compileRule(r *Rule) (compiledRule, error) {
	c := compiledRule{root: r.Root}
	// Reports the errors that package rule knows, in its words.
	if _, err := rule.Compile(rule.Spec{Name: r.Name, Kind: r.Kind, Attributes: r.Attributes}); err != nil {
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
	c.kind = kinds[r.Kind]
	var err error
	if c.service, err = optional(r.Service); err != nil {
		return c, fmt.Errorf("service: %w", err)
	}
	if c.name, err = optional(r.Name); err != nil {
		return c, fmt.Errorf("name: %w", err)
	}
	for key, text := range r.Attributes {
		pattern, err := rule.CompilePattern(text)
		if err != nil {
			return c, fmt.Errorf("attribute %s: %w", key, err)
		}
		c.attributes = append(c.attributes, condition{strings.Clone(key), pattern})
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
	if r.kind != ptrace.SpanKindUnspecified && r.kind != kindOf(s) {
		return false
	}
	if r.service != nil && !r.service.Match(service) || r.name != nil && !r.name.Match(s.Name()) {
		return false
	}
	for i := range r.attributes {
		c := &r.attributes[i]
		v, ok := s.Attributes().Get(c.key)
		if !ok {
			v, ok = resource.Get(c.key)
		}
		if !ok || !matchValue(c.pattern, v) {
			return false
		}
	}
	return true
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
