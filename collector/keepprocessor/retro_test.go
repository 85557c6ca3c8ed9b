package keepprocessor

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tare-trace/tare/span/semconv"
)

// retro is what the agent's retroactive sampling makes of a trace.
func retro(specs []spec) []spec {
	specs = slices.Clone(specs)
	for i := range specs {
		specs[i].attributes = maps.Clone(specs[i].attributes)
		if specs[i].attributes == nil {
			specs[i].attributes = map[string]any{}
		}
		specs[i].attributes[semconv.Retro] = true
	}
	specs[len(specs)-1].attributes[semconv.RetroReason] = "error"
	return specs
}

func TestRetro(t *testing.T) {
	all := defaultConfig()
	all.Slow.SlowerThan = time.Second
	all.Rules = []Rule{{Service: "shop"}}
	all.Incomplete = IncompleteKeep
	plain := retro(request("shop", "GET /"))
	for name, c := range map[string]struct {
		config *Config
		specs  []spec
		want   string
	}{
		"nothing else keeps it":          {quiet(), plain, "retro"},
		"everything else would":          {all, change(change(plain, 0, incomplete), 0, func(s *spec) { s.failed, s.duration = true, time.Minute }), "retro"},
		"one span only has the mark":     {quiet(), append(request("shop", "GET /"), plain[2]), "retro"},
		"the mark says no":               {quiet(), change(request("shop", "GET /"), 1, func(s *spec) { s.attributes[semconv.Retro] = false }), ""},
		"a reason without the mark":      {quiet(), change(request("shop", "GET /"), 1, func(s *spec) { s.attributes[semconv.RetroReason] = "slow" }), ""},
		"a span of it was sampled":       {quiet(), change(plain, 2, func(s *spec) { s.state = "ot=th:8" }), ""},
		"a tracestate without threshold": {quiet(), change(plain, 0, func(s *spec) { s.state = "a=b,ot=rv:00000000000001" }), "retro"},
		"a rule drops it": {func() *Config {
			c := quiet()
			c.Rules = []Rule{{Service: "stock", Probability: ptr(0.)}}
			return c
		}(), plain, ""},
		"a rule keeps a share": {func() *Config {
			c := quiet()
			c.Rules = []Rule{{Service: "stock", Probability: ptr(1e-9)}}
			return c
		}(), plain, "retro"},
		"incomplete ones are dropped": {func() *Config {
			c := quiet()
			c.Incomplete = IncompleteDrop
			return c
		}(), change(plain, 0, incomplete), ""},
	} {
		left := decided(t, keeperOf(t, c.config, newClock()), one(1, c.specs...))
		assert.Equal(t, c.want, reasonOf(t, left), name)
		for s := range spans(left) {
			assert.NotContains(t, s.TraceState().AsRaw(), "th:", "%s: it has no probability", name)
		}
	}
}

// What is decided about other traces is the same with traces among them that were kept retroactively, however many
// there are, and however slow and new.
func TestRetroTeachesNothing(t *testing.T) {
	run := func(among bool) (kept []string, k *keeper) {
		config := defaultConfig()
		config.Slow.Learn.After = 200
		config.Rare = Rare{First: 3, Interval: time.Hour, AtMost: 5}
		config.Share = Share{Probability: 1, TracesPerSecond: 10, Adapt: 5 * time.Second}
		at := newClock()
		k = keeperOf(t, config, at)
		for i := range uint64(2000) {
			at.advance(10 * time.Millisecond)
			bits := i * 0x9e3779b97f4a7c15
			if among {
				slow := change(retro(request("shop", "GET /")), 0, func(s *spec) { s.duration = time.Minute })
				decided(t, k, one(^bits, slow...))
				decided(t, k, one(^bits-1, retro(request("shop", "GET /new/"+string(rune('a'+i%26))))...))
			}
			specs := change(request("shop", "GET /"), 0, func(s *spec) { s.duration += time.Duration(i%100) * time.Millisecond })
			if i%200 == 199 {
				specs = change(specs, 0, func(s *spec) { s.duration = time.Second })
			}
			if i == 1000 {
				specs[0].name = "GET /new/a"
			}
			kept = append(kept, reasonOf(t, decided(t, k, one(bits, specs...))))
		}
		return kept, k
	}
	want, plain := run(false)
	got, mixed := run(true)
	assert.Equal(t, want, got)
	assert.Equal(t, plain.share.threshold, mixed.share.threshold)
	assert.Equal(t, plain.learned.operations, mixed.learned.operations)
	assert.EqualValues(t, 4000, mixed.counts.kept[byRetro])
	for _, why := range []string{"slow", "rare", "share", ""} {
		assert.Contains(t, want, why, "no trace shows it")
	}
	for why := range reason(numReasons) {
		if why != byRetro {
			assert.Equal(t, plain.counts.kept[why], mixed.counts.kept[why], reasonNames[why])
		}
		assert.Equal(t, plain.counts.dropped[why], mixed.counts.dropped[why], reasonNames[why])
	}
}

// Late spans of a trace that was kept retroactively are kept for as long as decisions are remembered, and beyond; if
// they are the first that the agent kept of a dropped trace, they keep it.
func TestLateRetro(t *testing.T) {
	config := quiet()
	config.Remember = 10
	at := newClock()
	k := keeperOf(t, config, at)
	lately := func(bits uint64, marked bool) int {
		specs := change([]spec{{service: "stock", name: "late", parent: 7}}, 0, late)
		if marked {
			specs = retro(specs)
		}
		return decided(t, k, one(bits, specs...)).SpanCount()
	}
	decided(t, k, one(1, retro(request("shop", "GET /"))...))
	at.advance(time.Minute)
	assert.Equal(t, 1, lately(1, true), "late after a minute")
	assert.Equal(t, 1, lately(1, false), "of an SDK, late after a minute")
	assert.EqualValues(t, 2, k.counts.lateKept)
	for bits := range uint64(10) {
		decided(t, k, one(100+bits, request("shop", "GET /")...))
	}
	assert.Equal(t, 1, lately(1, true), "late, and forgotten")
	assert.EqualValues(t, 1, k.counts.lateUnknown)

	assert.Equal(t, 0, lately(109, false), "late, of a dropped trace")
	assert.Equal(t, 1, lately(109, true), "kept retroactively after it was dropped")
	assert.Equal(t, 1, lately(109, false), "what follows")
	assert.EqualValues(t, 1, k.counts.lateReversed)
}
