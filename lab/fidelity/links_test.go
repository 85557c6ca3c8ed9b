package fidelity

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

// What begins a warm-up is left out, what a later request is part of is not.
func TestBetween(t *testing.T) {
	r := (&run{}).trace(t, "shop", 7)
	one := len(r.spans)
	r.trace(t, "shop", 8)
	assert.Equal(t, one, len(Between(slices.Clone(r.spans), 8, 0, 0)), "spans")
	r.change(stockClient, numbered("/stock/9"))
	for first, want := range map[uint64]int{0: 2 * one, 8: 2 * one, 9: one, 10: 0} {
		assert.Equal(t, want, len(Between(slices.Clone(r.spans), first, 0, 0)), "since %d: spans", first)
	}
	// What has no number, as a call of FastCGI that was not linked, is told by its time.
	var starts []uint64
	for _, s := range Between([]span.Span{
		{TraceID: span.TraceID{1}, Start: 5}, {TraceID: span.TraceID{1}, Start: 15}, // began before the load
		{TraceID: span.TraceID{2}, Start: 15}, {TraceID: span.TraceID{2}, Start: 25}, // ends after it
		{TraceID: span.TraceID{3}, Start: 25}, // asked after it, as the service's own metrics are
	}, 9, 10, 20) {
		starts = append(starts, s.Start)
	}
	assert.Equal(t, []uint64{15, 25}, starts, "starts")
}

func TestCountLinks(t *testing.T) {
	both := func(f func(r *run)) []span.Span {
		r := (&run{}).trace(t, "shop", 7).trace(t, "shop", 8)
		f(r)
		return r.spans
	}
	const calls = 2 * 4 // the proxy's, and three of the shop
	truth, err := workloads.TruthOf("shop")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		spans []span.Span
		want  Links
	}{
		"all":        {both(func(*run) {}), Links{calls, calls, 0}},
		"none came":  {nil, Links{}},
		"not linked": {both(func(r *run) { r.drop(redisServer).drop(redisClient) }), Links{calls, calls - 1, 0}},
		"of another request": {both(func(r *run) {
			r.change(redisClient, numbered("GET item:8")).change(redisServer, numbered("GET item:8"))
		}), Links{calls, calls - 1, 1}},
		"twice": {both(func(r *run) { r.spans = append(r.spans, r.spans[stockClient]) }), Links{calls, calls, 0}},
		"of another kind": {both(func(r *run) {
			r.change(redisClient, numbered("HELLO 3"))
		}), Links{calls, calls - 1, 0}},
		"unnamed, as those of FastCGI": {both(func(r *run) {
			r.change(proxyClient, unnamed).change(shopServer, unnamed)
		}), Links{calls, calls, 0}},
		"unnamed, and a call of another request": {both(func(r *run) {
			r.change(proxyClient, unnamed).change(shopServer, unnamed).change(stockClient, numbered("/stock/9"))
		}), Links{calls, calls - 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, CountLinks(c.spans, truth))
		})
	}
}
