package contextaware

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/baggage"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/otel/rule"
)

// Rule says with which probability spans are sampled for which all conditions
// hold. A rule without conditions holds for every span.
type Rule struct {
	rule.Spec
	// Baggage maps keys of baggage members to patterns of their values
	// (percent-decoded). A member that is not there does not match.
	Baggage map[string]string `json:"baggage,omitempty"`
	// Probability is 0 (never) to 1 (always).
	Probability float64 `json:"probability"`
}

// compiled is a Rule ready for decisions.
type compiled struct {
	span    *rule.Rule
	baggage []condition
	rate    *consistent.Rate
}

type condition struct {
	key     string
	pattern *rule.Pattern
}

func compile(r Rule) (compiled, error) {
	c := compiled{rate: consistent.NewRate(r.Probability)}
	var errs []error
	if err := checkProbability(r.Probability); err != nil {
		errs = append(errs, fmt.Errorf("probability: %w", err))
	}
	span, err := rule.Compile(r.Spec)
	if err != nil {
		errs = append(errs, err)
	}
	c.span = span
	keys := make([]string, 0, len(r.Baggage))
	for key := range r.Baggage {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if key == "" {
			errs = append(errs, errors.New("baggage: a key is empty"))
			continue
		}
		p, err := rule.CompilePattern(r.Baggage[key])
		if err != nil {
			errs = append(errs, fmt.Errorf("baggage %s: %w", key, err))
			continue
		}
		c.baggage = append(c.baggage, condition{key, p})
	}
	return c, errors.Join(errs...)
}

func checkProbability(p float64) error {
	if !(p >= 0 && p <= 1) {
		return fmt.Errorf("%v is not between 0 (never) and 1 (always)", p)
	}
	return nil
}

// matches reports whether all conditions hold.
func (c *compiled) matches(p *sdktrace.SamplingParameters) bool {
	if !c.span.Matches(rule.Span{Name: p.Name, Kind: p.Kind, Attributes: p.Attributes}) {
		return false
	}
	if len(c.baggage) == 0 {
		return true
	}
	if p.ParentContext == nil {
		return false
	}
	b := baggage.FromContext(p.ParentContext)
	for i := range c.baggage {
		m := b.Member(c.baggage[i].key)
		if m.Key() == "" || !c.baggage[i].pattern.Match(m.Value()) {
			return false
		}
	}
	return true
}

// describe names a rule in an error: its position from 1, and its conditions.
func describe(i int, r Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rule %d %s", i+1, r.Spec)
	if len(r.Baggage) > 0 {
		fmt.Fprintf(&b, " baggage %q", r.Baggage)
	}
	return b.String()
}
