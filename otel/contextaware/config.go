package contextaware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tare-trace/tare/otel/rule"
)

// EnvRules is the environment variable that [FromEnv] reads: JSON text, or the
// path of a file that holds it. A value that begins with { is text.
const EnvRules = "CONTEXT_SAMPLER_RULES"

// FromEnv returns the sampler that EnvRules describes. It is an error if the
// variable is not set.
func FromEnv(opts ...Option) (*Sampler, error) {
	value := strings.TrimSpace(os.Getenv(EnvRules))
	switch {
	case value == "":
		return nil, errors.New(EnvRules + ` is not set: it takes JSON text such as {"default":0.05,"rules":[]}, or the path of a file that holds it`)
	case value[0] == '{':
		s, err := Parse([]byte(value), opts...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", EnvRules, err)
		}
		return s, nil
	}
	s, err := FromFile(value, opts...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvRules, err)
	}
	return s, nil
}

// FromFile returns the sampler that the JSON text in the file describes.
func FromFile(path string, opts ...Option) (*Sampler, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := Parse(text, opts...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Parse returns the sampler that the JSON text describes, in the form that the
// package's documentation shows. "default" and the probability of each rule must
// be there.
func Parse(text []byte, opts ...Option) (*Sampler, error) {
	var doc struct {
		Default *float64          `json:"default"`
		Rules   []json.RawMessage `json:"rules"`
	}
	if err := rule.DecodeStrict(text, &doc); err != nil {
		return nil, err
	}
	var errs []error
	if doc.Default == nil {
		errs = append(errs, errors.New(`"default" is missing: the probability of spans that no rule matches`))
		doc.Default = new(float64)
	}
	rules := make([]Rule, len(doc.Rules))
	for i, raw := range doc.Rules {
		if err := decodeRule(raw, &rules[i]); err != nil {
			errs = append(errs, fmt.Errorf("rule %d %s: %w", i+1, oneLine(raw), err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return New(*doc.Default, rules, opts...)
}

func decodeRule(raw []byte, into *Rule) error {
	var r struct {
		rule.Spec
		Baggage     map[string]string `json:"baggage"`
		Probability *float64          `json:"probability"`
	}
	if err := rule.DecodeStrict(raw, &r); err != nil {
		return err
	}
	if r.Probability == nil {
		return errors.New(`"probability" is missing: 0 (never) to 1 (always)`)
	}
	*into = Rule{Spec: r.Spec, Baggage: r.Baggage, Probability: *r.Probability}
	return nil
}

// oneLine returns the rule as it can stand in an error.
func oneLine(raw []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return ""
	}
	const enough = 200
	if b.Len() > enough {
		b.Truncate(enough)
		b.WriteString("…")
	}
	return strings.ToValidUTF8(b.String(), "")
}
