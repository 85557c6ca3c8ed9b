package ratelimit

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
)

// traffic is a service that receives requests by chance.
type traffic struct {
	t   *testing.T
	s   *Sampler
	now int64
	ids *rand.Rand

	times    []int64 // of sampled
	requests int
	scaled   float64 // requests that the sampled ones stand for
	unknown  int     // sampled without a threshold
}

func newTraffic(t *testing.T, limit float64, opts ...Option) *traffic {
	tr := &traffic{t: t, ids: rand.New(rand.NewPCG(9, 10))}
	tr.s = at(&tr.now, limit, append(opts, WithMode(Consistent))...)
	return tr
}

// run receives so many requests a second for some seconds, and counts anew.
func (tr *traffic) run(perSecond float64, seconds int) {
	tr.t.Helper()
	tr.requests, tr.scaled, tr.unknown, tr.times = 0, 0, 0, nil
	end := tr.now + int64(seconds)*second
	for {
		tr.now += int64(tr.ids.ExpFloat64() / perSecond * float64(second))
		if tr.now >= end {
			tr.now = end
			return
		}
		var id trace.TraceID
		binary.BigEndian.PutUint64(id[:], tr.ids.Uint64())
		binary.BigEndian.PutUint64(id[8:], tr.ids.Uint64())
		tr.requests++
		r := tr.s.ShouldSample(sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: id})
		th, ok := consistent.ThresholdOf(r.Tracestate)
		if r.Decision == sdktrace.Drop {
			if ok {
				tr.t.Fatal("a dropped span has a threshold")
			}
			continue
		}
		tr.times = append(tr.times, tr.now)
		if !ok {
			tr.unknown++
			continue
		}
		if !th.Samples(consistent.OfTraceID(id)) {
			tr.t.Fatalf("%v was sampled below its threshold %v", id, th)
		}
		tr.scaled += consistent.AdjustedCount(th)
	}
}

func TestConsistentFollowsSteadyTraffic(t *testing.T) {
	for _, c := range []struct {
		limit, perSecond float64
	}{{100, 10_000}, {100, 150}, {20, 5000}, {1000, 3000}} {
		tr := newTraffic(t, c.limit)
		tr.run(c.perSecond, 5) // finds its rate
		tr.run(c.perSecond, 40)
		checkBound(t, tr.times[:min(len(tr.times), 2000)], c.limit, int(c.limit))
		share := float64(len(tr.times)) / 40 / c.limit
		if share > 1 || share < 0.55 {
			t.Errorf("%+v: uses %.2f of the limit", c, share)
		}
		// Each sampled span is worth 1/p requests; p differs between windows.
		sd := float64(tr.requests) / math.Sqrt(float64(len(tr.times)))
		if off := math.Abs(tr.scaled - float64(tr.requests)); off > 5*sd+float64(tr.requests)*0.01 {
			t.Errorf("%+v: %d requests, scaled back %.0f (sd %.0f), %d unknown", c, tr.requests, tr.scaled, sd, tr.unknown)
		}
		if st := tr.s.Stats(); float64(st.Refused) > 0.05*float64(st.Sampled)+2*c.limit {
			t.Errorf("%+v: the bucket refused %d of %d", c, st.Refused, st.Sampled)
		}
	}
}

func TestConsistentSamplesEverythingWhereTheLimitAllows(t *testing.T) {
	tr := newTraffic(t, 100)
	tr.run(20, 60)
	if len(tr.times) != tr.requests || tr.scaled != float64(tr.requests) {
		t.Errorf("%d of %d sampled, scaled back %.0f", len(tr.times), tr.requests, tr.scaled)
	}
}

func TestConsistentSurgeAndEbb(t *testing.T) {
	tr := newTraffic(t, 100)
	tr.run(50, 10)
	tr.run(100_000, 1) // two thousand times as much
	assert.LessOrEqual(t, len(tr.times), 200, "traces in the second of the surge: limit and burst allow 200")
	assert.LessOrEqual(t, tr.s.Stats().Probability, 0.0015)
	tr.run(100_000, 2)
	tr.run(100_000, 5)
	assert.LessOrEqual(t, math.Abs(tr.scaled/float64(tr.requests)-1), 0.25, "%d requests after the surge, scaled back %.0f", tr.requests, tr.scaled)
	tr.run(5, 15)
	assert.EqualValues(t, 1, tr.s.Stats().Probability)
	tr.run(5, 15)
	assert.Equal(t, tr.requests, len(tr.times))
}

func TestConsistentAfterALongSilence(t *testing.T) {
	tr := newTraffic(t, 10)
	tr.run(10_000, 10)
	tr.now += 3600 * second
	tr.run(1, 1000)
	if tr.scaled != float64(len(tr.times)) || len(tr.times) < tr.requests-10 {
		t.Errorf("%d of %d sampled, scaled back %.0f", len(tr.times), tr.requests, tr.scaled)
	}
}

// After the bucket has refused a chosen trace, no threshold is claimed until
// the next window.
func TestRefusalErasesTheThreshold(t *testing.T) {
	var now int64
	s := at(&now, 10, WithBurst(1), WithMode(Consistent))
	for _, c := range []struct {
		now  int64
		want bool
		has  bool
	}{
		{0, true, true}, {0, false, false}, {second / 10, true, false}, {second, true, true},
	} {
		now = c.now
		got, state := sampled(context.Background(), s)
		if got != c.want || (state != "") != c.has {
			t.Errorf("at %d ms: %v %q, want %v, threshold %v", c.now/1e6, got, state, c.want, c.has)
		}
	}
	if st := s.Stats(); st.Refused != 1 || st.Sampled != 3 {
		t.Errorf("%+v", st)
	}
}

func TestRateDoesNotRoundToNever(t *testing.T) {
	var f follower
	f.set(1e-300, 1)
	w := f.now.Load()
	w.chosen.Store(1 << 40)
	assert.Less(t, f.at(1).rate.Threshold(), consistent.Never, "a rate of zero never measures anything again")
}
