package keep

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/otel/rule"
)

// Defaults of the bounds in a [Policy].
const (
	DefaultMaxTraces        = 8192
	DefaultMaxBytes         = 64 << 20
	DefaultMaxSpansPerTrace = 1000
	DefaultMaxAge           = time.Minute
	DefaultMaxLate          = 1024
)

// Policy says which local traces are kept and how much memory may be used
// until that is known. The zero value keeps nothing beyond the head's decision.
type Policy struct {
	// Errors keeps a trace with a span whose status is Error.
	Errors bool
	// ServerErrors keeps a trace with a server span whose attribute
	// http.response.status_code (or the older http.status_code) is 500 or
	// more, whatever its status says.
	ServerErrors bool
	// SlowerThan keeps a trace whose local root took longer. 0 means no limit.
	SlowerThan time.Duration
	// SlowerThanByName overrides SlowerThan for local roots by span name. 0
	// means no limit for that name.
	SlowerThanByName map[string]time.Duration
	// Learn keeps a trace whose local root is unusually slow for its name.
	Learn Learn
	// Rules keep a trace with an ended span that matches one of them.
	Rules []*rule.Rule

	// ExactCounts makes traces that the head sampled wait for the decision,
	// too, so that every exported span's threshold says its probability. See
	// the package comment.
	ExactCounts bool

	// MaxTraces bounds the local traces that are open at a time. 0 means
	// DefaultMaxTraces.
	MaxTraces int
	// MaxBytes bounds the estimated bytes of all buffered spans. 0 means
	// DefaultMaxBytes.
	MaxBytes int
	// MaxSpansPerTrace bounds the buffered spans of one local trace; further
	// ones still take part in the decision, but are dropped unless the trace
	// is kept because of them. 0 means DefaultMaxSpansPerTrace.
	MaxSpansPerTrace int
	// MaxAge bounds how long a local trace waits for its root to end; it is
	// exceeded by at most an eighth. 0 means DefaultMaxAge.
	MaxAge time.Duration
	// MaxLate bounds how many kept traces are remembered, at most for MaxAge,
	// so that spans which end after their root are exported, and how many
	// dropped ones, so that such spans are dropped. 0 means DefaultMaxLate.
	MaxLate int
}

// Learn configures thresholds that are learned from the durations of local
// roots, per span name. What is slow for one operation of a service is usual
// for another; a quantile of the operation's own durations suits each, and about
// 1-Quantile of the traces are kept. When an operation becomes slower as a
// whole, more are kept until the threshold has followed, some thousand traces
// later.
type Learn struct {
	// Quantile is the duration quantile above which a trace is kept, for
	// example 0.99. 0 turns learning off; other values must lie in
	// [0.5, 0.9999].
	Quantile float64
	// Operations bounds the number of names that are learned; those that come
	// later have no learned threshold and are counted. 0 means 256.
	Operations int
	// After is the number of observations of a name before its threshold
	// holds. 0 means 20/(1-Quantile), which is 2,000 for 0.99.
	After int
	// AtLeast is the shortest duration that a learned threshold calls slow. 0
	// means no lower limit.
	AtLeast time.Duration
}

// Compiled is a checked policy, ready for use by many goroutines. It holds what
// has been learned.
type Compiled struct {
	policy  Policy
	needs   bool
	learned *learned // nil without Learn
}

// Compile checks the policy, fills in defaults and copies what it refers to.
func (p Policy) Compile() (*Compiled, error) {
	p.SlowerThanByName = maps.Clone(p.SlowerThanByName)
	p.Rules = slices.Clone(p.Rules)
	var errs []error
	needs := false
	for i, r := range p.Rules {
		if r == nil {
			errs = append(errs, fmt.Errorf("keep: rule %d is nil; leave it out", i))
			continue
		}
		needs = needs || r.UsesAttributes()
	}
	if p.SlowerThan < 0 {
		errs = append(errs, fmt.Errorf("keep: SlowerThan is %v; use a positive duration, or 0 for no limit", p.SlowerThan))
	}
	for name, d := range p.SlowerThanByName {
		if d < 0 {
			errs = append(errs, fmt.Errorf("keep: SlowerThanByName[%q] is %v; use a positive duration, or 0 for no limit", name, d))
		}
	}
	if err := p.Learn.complete(); err != nil {
		errs = append(errs, err)
	}
	for _, b := range []struct {
		name  string
		value *int
		unset int
	}{
		{"MaxTraces", &p.MaxTraces, DefaultMaxTraces},
		{"MaxBytes", &p.MaxBytes, DefaultMaxBytes},
		{"MaxSpansPerTrace", &p.MaxSpansPerTrace, DefaultMaxSpansPerTrace},
		{"MaxLate", &p.MaxLate, DefaultMaxLate},
	} {
		switch {
		case *b.value < 0:
			errs = append(errs, fmt.Errorf("keep: %s is %d; use a positive number, or 0 for %d", b.name, *b.value, b.unset))
		case *b.value == 0:
			*b.value = b.unset
		}
	}
	switch {
	case p.MaxAge < 0:
		errs = append(errs, fmt.Errorf("keep: MaxAge is %v; use a positive duration, or 0 for %v", p.MaxAge, DefaultMaxAge))
	case p.MaxAge == 0:
		p.MaxAge = DefaultMaxAge
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	c := &Compiled{policy: p, needs: needs}
	if p.Learn.Quantile > 0 {
		c.learned = newLearned(p.Learn)
	}
	return c, nil
}

// complete checks the values and fills in defaults.
func (l *Learn) complete() error {
	var errs []error
	if l.Quantile != 0 && !(l.Quantile >= 0.5 && l.Quantile <= 0.9999) {
		errs = append(errs, fmt.Errorf("keep: Learn.Quantile is %g; use a value from 0.5 to 0.9999, or 0 to turn learning off", l.Quantile))
	}
	if l.Operations < 0 || l.After < 0 || l.AtLeast < 0 {
		errs = append(errs, fmt.Errorf("keep: Learn has Operations %d, After %d, AtLeast %v; none may be negative", l.Operations, l.After, l.AtLeast))
	}
	if len(errs) > 0 || l.Quantile == 0 {
		return errors.Join(errs...)
	}
	if l.Operations == 0 {
		l.Operations = 256
	}
	if l.After == 0 {
		l.After = int(math.Ceil(20/(1-l.Quantile) - 1e-6)) // 1-0.99 is not exactly 0.01
	}
	return nil
}

// Policy returns the policy with all defaults filled in.
func (c *Compiled) Policy() Policy {
	p := c.policy
	p.SlowerThanByName = maps.Clone(p.SlowerThanByName)
	p.Rules = slices.Clone(p.Rules)
	return p
}

// NeedsAttributes reports whether [Ended.Attributes] is read: only if a rule has
// conditions on them. A pipeline for which attributes are costly leaves them
// away otherwise.
func (c *Compiled) NeedsAttributes() bool { return c.needs }

// State returns the tracestate of a span that is exported for reason r, made of
// its own: probability 1 with exact counts, no threshold (unknown) without, see
// the package comment. For Head and NotKept it returns ts.
func (c *Compiled) State(ts trace.TraceState, r Reason) trace.TraceState {
	switch {
	case r == Head || r == NotKept:
		return ts
	case !c.policy.ExactCounts:
		if ts.Len() == 0 {
			return ts
		}
		return consistent.WithoutThreshold(ts)
	case ts.Len() == 0:
		return certain
	default:
		return consistent.WithThreshold(ts, consistent.Always)
	}
}

// certain is shared by all kept spans that have no tracestate of their own.
var certain = consistent.State(consistent.Always)
