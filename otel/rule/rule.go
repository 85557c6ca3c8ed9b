package rule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Span is what a rule looks at. For a sampler it holds what is known at the
// start; for a decision at the end, pass what the ended span has.
type Span struct {
	Name       string
	Kind       trace.SpanKind
	Attributes []attribute.KeyValue
}

// Spec is a rule as it is written, in Go or as JSON. All conditions that it gives
// must hold. To add fields, embed it in a struct.
type Spec struct {
	// Name is a pattern (see [CompilePattern]) of the span's name.
	Name string `json:"name,omitempty"`
	// Kind is internal, server, client, producer or consumer.
	Kind string `json:"kind,omitempty"`
	// Attributes maps keys to patterns of their values. An attribute that the
	// span does not have does not match.
	Attributes map[string]string `json:"attributes,omitempty"`
}

// Rule is a compiled Spec. It is immutable and may be shared.
type Rule struct {
	spec       Spec
	name       *Pattern // nil: any
	kind       trace.SpanKind
	attributes []condition
}

type condition struct {
	key     string
	pattern *Pattern
}

var kinds = map[string]trace.SpanKind{
	"":         trace.SpanKindUnspecified, // any
	"internal": trace.SpanKindInternal,
	"server":   trace.SpanKindServer,
	"client":   trace.SpanKindClient,
	"producer": trace.SpanKindProducer,
	"consumer": trace.SpanKindConsumer,
}

// Compile compiles the spec. The error says which condition is wrong, and how.
// A spec without any condition matches every span.
func Compile(s Spec) (*Rule, error) {
	r := &Rule{spec: s}
	r.spec.Attributes = make(map[string]string, len(s.Attributes))
	var errs []error
	if s.Name != "" {
		p, err := CompilePattern(s.Name)
		if err != nil {
			errs = append(errs, fmt.Errorf("name: %w", err))
		}
		r.name = p
	}
	kind, ok := kinds[s.Kind]
	if !ok {
		errs = append(errs, fmt.Errorf("kind %q is none of internal, server, client, producer, consumer", s.Kind))
	}
	r.kind = kind
	for key, text := range s.Attributes {
		r.spec.Attributes[key] = text
		if key == "" {
			errs = append(errs, errors.New("attributes: a key is empty"))
			continue
		}
		p, err := CompilePattern(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("attribute %s: %w", key, err))
			continue
		}
		r.attributes = append(r.attributes, condition{key, p})
	}
	if len(errs) > 0 {
		slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return nil, errors.Join(errs...)
	}
	// The cheapest conditions first.
	slices.SortFunc(r.attributes, func(a, b condition) int {
		if la, lb := a.pattern.isLiteral(), b.pattern.isLiteral(); la != lb {
			if la {
				return -1
			}
			return 1
		}
		return strings.Compare(a.key, b.key)
	})
	return r, nil
}

// MustCompile is [Compile] for rules that are written in the program itself. It
// panics if the spec is wrong.
func MustCompile(s Spec) *Rule {
	r, err := Compile(s)
	if err != nil {
		panic(fmt.Sprintf("rule %s: %v", s, err))
	}
	return r
}

// Parse compiles a rule from JSON text, such as
//
//	{"name":"GET /health*","kind":"server","attributes":{"url.path":"/auth/**"}}
//
// Unknown fields are errors: a misspelt condition would make the rule match
// more than it should.
func Parse(text []byte) (*Rule, error) {
	var s Spec
	if err := DecodeStrict(text, &s); err != nil {
		return nil, fmt.Errorf("rule: %w", err)
	}
	r, err := Compile(s)
	if err != nil {
		return nil, fmt.Errorf("rule %s: %w", s, err)
	}
	return r, nil
}

// Matches reports whether all conditions hold. It allocates nothing (but see
// [Pattern.MatchValue] on slices). A kind that is unspecified counts as
// internal, as in the SDK; of several attributes with the same key the last
// counts.
func (r *Rule) Matches(s Span) bool {
	return r.MatchesFunc(s.Name, s.Kind, func(key string, value *Pattern) bool {
		for i := len(s.Attributes) - 1; i >= 0; i-- {
			if string(s.Attributes[i].Key) == key {
				return value.MatchValue(s.Attributes[i].Value)
			}
		}
		return false
	})
}

// MatchesFunc is [Rule.Matches] for a span that holds its attributes in another
// form: has reports whether it has the key with a value that matches.
func (r *Rule) MatchesFunc(name string, kind trace.SpanKind, has func(key string, value *Pattern) bool) bool {
	if r.kind != trace.SpanKindUnspecified && r.kind != trace.ValidateSpanKind(kind) || r.name != nil && !r.name.Match(name) {
		return false
	}
	for i := range r.attributes {
		if !has(r.attributes[i].key, r.attributes[i].pattern) {
			return false
		}
	}
	return true
}

// UsesAttributes reports whether the rule has a condition on attributes.
func (r *Rule) UsesAttributes() bool { return len(r.attributes) > 0 }

// String returns the rule as JSON text.
func (r *Rule) String() string { return r.spec.String() }

// String returns the spec as JSON text.
func (s Spec) String() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // patterns are read by people
	if err := e.Encode(s); err != nil {
		return err.Error() // not reached: strings and a map of strings
	}
	return strings.TrimSuffix(b.String(), "\n")
}
