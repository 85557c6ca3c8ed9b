package keep

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/rule"
)

// Reason says why a local trace is exported.
type Reason uint8

// Reasons. A trace with several has the first that was seen.
const (
	NotKept    Reason = iota // there is no reason to keep the trace
	Head                     // only the head sampler took it
	Failed                   // Errors or ServerErrors
	Slow                     // SlowerThan or SlowerThanByName
	Unusual                  // Learn
	Matched                  // Rules
	numReasons = iota
)

var reasonNames = [numReasons]string{"not kept", "head", "failed", "slow", "unusual", "matched"}

// String returns the reason's name in lower case.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// Ended is what the policy needs of a span that has ended.
type Ended struct {
	Name string
	Kind trace.SpanKind
	// Failed: the span's status is Error.
	Failed bool
	// Status is the value of http.response.status_code (or http.status_code),
	// 0 if the span has none.
	Status int
	// LocalRoot: the span has no parent, or a remote one.
	LocalRoot bool
	Duration  time.Duration
	// Attributes may be left away unless NeedsAttributes. It is not kept.
	Attributes []attribute.KeyValue
}

// Verdict accumulates the reasons that the ended spans of one local trace give to
// keep it. The zero value is ready for use. It is small, holds no pointers and is not safe for
// concurrent use.
type Verdict struct {
	reason Reason
}

// Kept reports whether the spans seen so far are enough to keep the trace. Then
// further spans need not be observed, except for local roots if the policy
// learns thresholds.
func (v Verdict) Kept() bool { return v.reason != NotKept }

// Observe adds an ended span to the verdict. It does not allocate and takes no
// lock.
func (c *Compiled) Observe(v *Verdict, s Ended) {
	var unusual bool
	if c.learned != nil && s.LocalRoot {
		// Every root is learned from, kept or not: the quantile is that of all.
		unusual = c.learned.observe(s.Name, s.Duration)
	}
	if v.reason != NotKept {
		return
	}
	switch {
	case c.policy.Errors && s.Failed,
		c.policy.ServerErrors && s.Kind == trace.SpanKindServer && s.Status >= 500:
		v.reason = Failed
	case s.LocalRoot && c.slow(s.Name, s.Duration):
		v.reason = Slow
	case unusual:
		v.reason = Unusual
	case len(c.policy.Rules) > 0 && c.matches(&s):
		v.reason = Matched
	}
}

// Decide returns whether the trace is kept and why. If it is not, a trace that
// the head sampled is exported for the reason Head.
func (c *Compiled) Decide(v Verdict) (bool, Reason) { return v.reason != NotKept, v.reason }

func (c *Compiled) slow(name string, d time.Duration) bool {
	limit := c.policy.SlowerThan
	if len(c.policy.SlowerThanByName) > 0 {
		if own, ok := c.policy.SlowerThanByName[name]; ok {
			limit = own
		}
	}
	return limit > 0 && d > limit
}

func (c *Compiled) matches(s *Ended) bool {
	span := rule.Span{Name: s.Name, Kind: s.Kind, Attributes: s.Attributes}
	for _, r := range c.policy.Rules {
		if r.Matches(span) {
			return true
		}
	}
	return false
}
