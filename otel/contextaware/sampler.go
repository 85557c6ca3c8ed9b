package contextaware

import (
	"context"
	"errors"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
)

// Option configures a [Sampler].
type Option func(*Sampler)

// WithProbability asks the function first, before any rule: it may find in the
// context what rules cannot see, such as the tenant or the user that an
// authentication layer has put there. ok false leaves the decision to the rules.
//
// It is called for every root span (every span, with [WithoutParent]),
// concurrently, and what it costs is added to each. Its result is limited to 0
// to 1, NaN is 0, and it must not be random: the trace's randomness is compared
// with it. Up to 64 different probabilities are kept ready; each further one is
// allocated for.
func WithProbability(f func(context.Context) (probability float64, ok bool)) Option {
	return func(s *Sampler) { s.ask = f }
}

// WithoutParent makes the sampler decide for every span by its rules, whatever
// the parent says. Decisions are still consistent: a span that is sampled with
// less probability than its parent has a sampled parent.
func WithoutParent() Option { return func(s *Sampler) { s.parent = false } }

// Sampler chooses a probability by rules. It is immutable; its methods may be
// called concurrently.
type Sampler struct {
	rules          []compiled
	rate           *consistent.Rate // where no rule matches
	ask            func(context.Context) (float64, bool)
	asked          rates
	parent         bool
	usesAttributes bool
	description    string
}

var _ sdktrace.Sampler = (*Sampler)(nil)

// New returns a sampler with the rules, in order, and the probability of spans
// that none of them matches. The error names every rule that is wrong.
func New(defaultProbability float64, rules []Rule, opts ...Option) (*Sampler, error) {
	s := &Sampler{rate: consistent.NewRate(defaultProbability), parent: true}
	var errs []error
	if err := checkProbability(defaultProbability); err != nil {
		errs = append(errs, fmt.Errorf("default: %w", err))
	}
	for i, r := range rules {
		c, err := compile(r)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", describe(i, r), err))
			continue
		}
		s.usesAttributes = s.usesAttributes || c.span.UsesAttributes()
		s.rules = append(s.rules, c)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for _, o := range opts {
		o(s)
	}
	s.description = fmt.Sprintf("ContextAware{rules:%d,default:%g}", len(s.rules), defaultProbability)
	if s.parent {
		s.description = "ParentBased{root:" + s.description + "}"
	}
	return s, nil
}

// ShouldSample implements [sdktrace.Sampler].
func (s *Sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	psc := trace.SpanContextFromContext(p.ParentContext)
	if s.parent && psc.IsValid() {
		return consistent.FollowParent(psc)
	}
	return s.choose(&p).Decide(psc, p.TraceID)
}

func (s *Sampler) choose(p *sdktrace.SamplingParameters) *consistent.Rate {
	if s.ask != nil {
		ctx := p.ParentContext
		if ctx == nil {
			ctx = context.Background()
		}
		if probability, ok := s.ask(ctx); ok {
			return s.asked.of(probability)
		}
	}
	for i := range s.rules {
		if s.rules[i].matches(p) {
			return s.rules[i].rate
		}
	}
	return s.rate
}

// Description implements [sdktrace.Sampler].
func (s *Sampler) Description() string { return s.description }

// UsesAttributes reports whether a rule has a condition on attributes. Where
// none has, instrumentation may leave them away when it starts a span.
func (s *Sampler) UsesAttributes() bool { return s.usesAttributes }
