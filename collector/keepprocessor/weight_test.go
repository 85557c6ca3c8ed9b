package keepprocessor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/span/semconv"
)

// estimate is a Horvitz-Thompson estimate of a count, with the variance that
// its weights tell (Σ w(w-1)).
type estimate struct {
	truth          int
	sum, deviation float64
	kept           int
}

func (e *estimate) add(weight float64) {
	e.sum += weight
	e.deviation += weight * (weight - 1)
	e.kept++
}

// The sums of weights of kept traces estimate the number of requests: in total, of each
// class and of each operation, for every reason, whatever their sampling rate was before,
// and while the share's probability changes.
func TestWeightsAreUnbiased(t *testing.T) {
	classes := map[string]*estimate{}
	for seed := range uint64(5) {
		simulate(t, seed, classes)
	}
	for name, e := range classes {
		t.Logf("%-15s truth %6d, estimate %8.0f from %6d traces, sd %5.0f", name, e.truth, e.sum, e.kept, math.Sqrt(e.deviation))
		if e.truth == 0 {
			continue
		}
		// Weights of 1 have no variance: then it must be exact.
		if off := math.Abs(e.sum - float64(e.truth)); off > 4*math.Sqrt(e.deviation)+0.01 {
			t.Errorf("%s: estimate %.1f, truth %d: %.1f standard deviations away", name, e.sum, e.truth, off/math.Sqrt(e.deviation))
		}
	}
	for _, name := range []string{"error", "slow", "rare", "rule", "share"} {
		if e := classes["kept by "+name]; e == nil || e.kept < 100 {
			t.Errorf("%s kept too few for this to be a test: %+v", name, e)
		}
	}
	if e := classes["all"]; e.kept > e.truth/3 {
		t.Errorf("%d of %d requests kept: the share had nothing to do", e.kept, e.truth)
	}
}

func simulate(t *testing.T, seed uint64, classes map[string]*estimate) {
	const requests = 40_000
	at := newClock()
	config := defaultConfig()
	config.Slow.SlowerThan = 700 * time.Millisecond
	config.Slow.Learn.After = 500
	config.Rare = Rare{First: 2, Interval: time.Minute, AtMost: 50}
	config.Rules = []Rule{{Name: "GET /op/3", Root: true, Probability: ptr(0.3)}, {Name: "GET /op/4", Root: true}}
	config.Share = Share{Probability: 0.8, TracesPerSecond: 20, Adapt: 5 * time.Second}
	k := keeperOf(t, config, at)
	rng := rand.New(rand.NewPCG(11, seed))
	heads := []float64{1, 0.5, 0.25, 0.1}
	states := make([]string, len(heads))
	thresholds := make([]consistent.Threshold, len(heads))
	for i, p := range heads {
		thresholds[i] = consistent.NewRate(p).Threshold()
		states[i] = "ot=th:" + thresholds[i].String()
	}
	states[0] = "" // a sampler that takes everything and says nothing

	class := func(name string) *estimate {
		if classes[name] == nil {
			classes[name] = &estimate{}
		}
		return classes[name]
	}
	of := map[[16]byte][]string{}
	td, resources := ptrace.NewTraces(), map[string]ptrace.SpanSlice{}
	flush := func() {
		left := decided(t, k, td)
		for s := range spans(left) {
			if !s.ParentSpanID().IsEmpty() {
				continue
			}
			ts, err := trace.ParseTraceState(s.TraceState().AsRaw())
			require.NoError(t, err)
			th, _ := consistent.ThresholdOf(ts) // none: 0, Always
			for _, name := range of[s.TraceID()] {
				class(name).add(consistent.AdjustedCount(th))
			}
			v, _ := s.Attributes().Get(semconv.KeepReason)
			class("kept by " + v.Str()).add(consistent.AdjustedCount(th))
		}
		td, resources = ptrace.NewTraces(), map[string]ptrace.SpanSlice{}
		clear(of)
	}
	for i := range requests {
		// The load doubles after a third, and falls to a fourth after two.
		at.advance(time.Duration([]float64{4, 2, 8}[i*3/requests] * rng.ExpFloat64() * float64(time.Millisecond)))
		h, op := rng.IntN(len(heads)), int(math.Sqrt(rng.Float64()*36)) // operations 0 to 5, the later the more
		failed, took := rng.IntN(50) == 0, time.Duration(rng.ExpFloat64()*float64(100*time.Millisecond))
		names := []string{"all", fmt.Sprint("op ", op), fmt.Sprint("head ", heads[h]), fmt.Sprint("failed ", failed), fmt.Sprint("long ", took > 300*time.Millisecond), fmt.Sprint("third ", i*3/requests)}
		for _, name := range names {
			class(name).truth++
		}
		bits := rng.Uint64()
		if !thresholds[h].Samples(consistent.Randomness(bits & (1<<56 - 1))) {
			continue // the head did not take it
		}
		specs := request("shop", fmt.Sprint("GET /op/", op))
		specs[0].state, specs[0].duration, specs[1].failed = states[h], took, failed
		id := idOf(bits)
		id[1], id[2] = byte(i), byte(i>>8) // no two alike
		of[id] = names
		addTrace(td, resources, id, specs)
		if rng.IntN(20) == 0 {
			flush()
		}
	}
	flush()
}

// A smaller probability keeps a subset of what a greater one does, so that
// collectors agree with each other and with samplers.
func TestConsistent(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	keepers := make([]*keeper, 4)
	for i := range keepers {
		config := quiet()
		config.Share.Probability = math.Pow(0.4, float64(i))
		keepers[i] = keeperOf(t, config, newClock())
	}
	kept := make([]int, len(keepers))
	for range 5000 {
		bits := rng.Uint64()
		for i, k := range keepers {
			sampled := consistent.NewRate(math.Pow(0.4, float64(i))).Threshold().Samples(consistent.Randomness(bits & (1<<56 - 1)))
			if got := decided(t, k, one(bits, request("shop", "GET /")...)).SpanCount() > 0; got != sampled {
				t.Fatalf("%x at %g: kept %v, a sampler says %v", bits, math.Pow(0.4, float64(i)), got, sampled)
			} else if got {
				kept[i]++
			}
		}
	}
	for i := range kept {
		if want := 5000 * math.Pow(0.4, float64(i)); math.Abs(float64(kept[i])-want) > 5*math.Sqrt(want) {
			t.Errorf("kept %d at %g", kept[i], math.Pow(0.4, float64(i)))
		}
	}
}
