package adaptive

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/tare-trace/tare/otel/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a sampler whose time only moves when the test says so.
type rig struct {
	*Sampler
	t   testing.TB
	now time.Time
	rnd *rand.Rand
}

func newRig(t testing.TB, c Config, opts ...Option) *rig {
	t.Helper()
	r := &rig{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), rnd: rand.New(rand.NewPCG(1, 2))}
	opts = append(opts, WithConfig(c), optionFunc(func(o *options) { o.clock = func() time.Time { return r.now } }))
	o, err := newOptions(opts)
	require.NoError(t, err)
	r.Sampler = newSampler(o)
	return r
}

// wait lets time pass, with a step where run would take one.
func (r *rig) wait(d time.Duration) {
	end := r.now.Add(d)
	for {
		next := r.untilNext()
		if r.now.Add(next).After(end) {
			r.now = end
			return
		}
		r.now = r.now.Add(next)
		r.step(false)
	}
}

func (r *rig) observe(route string, failed bool, d time.Duration) {
	r.Observe(Observation{Route: route, Failed: failed, Duration: d})
}

// ask decides about a root span with a random trace id.
func (r *rig) ask(name string) sdktrace.SamplingResult {
	return r.ShouldSample(root(r.rnd, name))
}

func (r *rig) wantRate(want float64) {
	r.t.Helper()
	if got := r.Rate(); !close4(got, want) {
		r.t.Errorf("rate is %v, want %v", got, want)
	}
}

// close4: th has four significant digits.
func close4(a, b float64) bool { return a-b <= b/4096 && b-a <= b/4096 }

func root(rnd *rand.Rand, name string) sdktrace.SamplingParameters {
	return sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: traceID(rnd), Name: name, Kind: trace.SpanKindServer}
}

func traceID(rnd *rand.Rand) (id trace.TraceID) {
	binary.BigEndian.PutUint64(id[:8], rnd.Uint64())
	binary.BigEndian.PutUint64(id[8:], rnd.Uint64())
	return id
}

func named(pattern string) *rule.Rule { return rule.MustCompile(rule.Spec{Name: pattern}) }
