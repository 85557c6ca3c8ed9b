package keepprocessor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/span/semconv"
)

func late(s *spec) { s.attributes[semconv.Late] = true }

// lateOf is a late span of the trace with these random bits.
func lateOf(bits uint64) ptrace.Traces {
	return one(bits, change([]spec{{service: "stock", name: "late", parent: 7}}, 0, late)...)
}

// A late span gets the decision about its trace, whether it failed itself or not, unless that keeps a dropped one.
func TestLateSpansFollow(t *testing.T) {
	config := quiet()
	config.Errors = ErrorsAny
	config.Share.Probability = 0.5
	k := keeperOf(t, config, newClock())
	const dropped, shared, failed, unknown = 1, 1<<56 - 1, 2, 3
	decided(t, k, one(dropped, request("shop", "GET /")...))
	decided(t, k, one(shared, request("shop", "GET /")...))
	decided(t, k, one(failed, change(request("shop", "GET /"), 1, fails)...))
	for bits, want := range map[uint64]string{dropped: "", shared: "ot=th:8", failed: "plain", unknown: "plain"} {
		td := lateOf(bits)
		for s := range spans(td) {
			if bits != dropped {
				s.Status().SetCode(ptrace.StatusCodeError)
			}
		}
		left := decided(t, k, td)
		got := ""
		for s := range spans(left) {
			if got = s.TraceState().AsRaw(); got == "" {
				got = "plain"
			}
			if _, ok := s.Attributes().Get(semconv.KeepReason); ok {
				t.Error("a late span has a reason")
			}
		}
		assert.Equal(t, want, got, "%d", bits)
	}
	c := k.counts
	if c.lateKept != 2 || c.lateDropped != 1 || c.lateUnknown != 1 || c.spansDropped != 4 {
		t.Errorf("%+v", c)
	}
	if n := c.kept[byError] + c.kept[byShare] + c.dropped[byShare]; n != 3 {
		t.Errorf("%d traces counted: late spans are none", n)
	}
}

// Late spans of a trace that was dropped keep it from then on if they show a reason for that, and say that spans are missing.
func TestLateSpansReverse(t *testing.T) {
	slow := func(s *spec) { s.duration = 2 * time.Second }
	root := func(s *spec) { s.parent = 0 }
	never := 0.0
	for name, tt := range map[string]struct {
		config func(*Config)
		late   []func(*spec)
		want   string // reason
	}{
		"error":                             {func(c *Config) { c.Errors = ErrorsAny }, []func(*spec){fails}, "error"},
		"no error":                          {func(c *Config) { c.Errors = ErrorsAny }, nil, ""},
		"an error that is not the root's":   {func(c *Config) { c.Errors = ErrorsRoot }, []func(*spec){fails}, ""},
		"the root's error":                  {func(c *Config) { c.Errors = ErrorsRoot }, []func(*spec){fails, root}, "error"},
		"a slow root":                       {func(c *Config) { c.Slow.SlowerThan = time.Second }, []func(*spec){slow, root}, "slow"},
		"a slow span that is not the root":  {func(c *Config) { c.Slow.SlowerThan = time.Second }, []func(*spec){slow}, ""},
		"a rule":                            {func(c *Config) { c.Rules = []Rule{{Service: "stock", Name: "late"}} }, nil, "rule"},
		"a rule for roots":                  {func(c *Config) { c.Rules = []Rule{{Name: "late", Root: true}} }, nil, ""},
		"a rule for roots, matched":         {func(c *Config) { c.Rules = []Rule{{Name: "late", Root: true}} }, []func(*spec){root}, "rule"},
		"an error, and a rule that drops":   {func(c *Config) { c.Errors, c.Rules = ErrorsAny, []Rule{{Name: "late", Probability: &never}} }, []func(*spec){fails}, ""},
		"an error, dropped by a rule":       {func(c *Config) { c.Errors, c.Rules = ErrorsAny, []Rule{{Name: "GET /", Probability: &never}} }, []func(*spec){fails}, ""},
		"an error, incomplete ones dropped": {func(c *Config) { c.Errors, c.Incomplete = ErrorsAny, IncompleteDrop }, []func(*spec){fails}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := quiet()
			config.Share.Probability = 0
			tt.config(config)
			k := keeperOf(t, config, newClock())
			require.Equal(t, 0, decided(t, k, one(1, request("shop", "GET /")...)).SpanCount(), "the trace is kept")
			specs := change([]spec{{service: "stock", name: "late", parent: 7}}, 0, late)
			for _, f := range tt.late {
				f(&specs[0])
			}
			kept, state := "", ""
			for s := range spans(decided(t, k, one(1, specs...))) {
				a := s.Attributes().AsRaw()
				kept, state = fmt.Sprint(a[semconv.KeepReason]), fmt.Sprint(a[semconv.TraceState], ": ", a[semconv.TraceReason])
			}
			if kept != tt.want || kept != "" && state != "incomplete: spans_dropped" {
				t.Errorf("kept by %q, want %q; %s", kept, tt.want, state)
			}
			want := 0
			if tt.want != "" {
				want = 1
			}
			more, c := decided(t, k, lateOf(1)).SpanCount(), k.counts
			if more != want || c.lateReversed != uint64(want) || c.lateKept != uint64(want) {
				t.Errorf("%d later spans are kept, want %d; %+v", more, want, c)
			}
		})
	}
}

// Late spans and whole traces in the same message are distinguished.
func TestLateBesideWhole(t *testing.T) {
	config := quiet()
	config.Share.Probability = 0.5
	k := keeperOf(t, config, newClock())
	decided(t, k, one(1, request("shop", "GET /")...))
	td := one(1<<56-1, request("shop", "GET /")...)
	lateOf(1).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	assert.Equal(t, 3, decided(t, k, td).SpanCount(), "spans left: those of the whole trace")
}

func TestMemory(t *testing.T) {
	m := newMemory(10)
	for i := range uint64(1000) {
		m.put(idOf(i), consistent.Threshold(i))
		if n := len(m.young) + len(m.older); n > 10 {
			t.Fatalf("%d decisions are remembered, 10 were asked for", n)
		}
		for back := range min(i+1, 6) { // at least half
			if th, ok := m.get(idOf(i - back)); !ok || th != consistent.Threshold(i-back) {
				t.Fatalf("after %d: decision %d is %v, %v", i, i-back, th, ok)
			}
		}
		if _, ok := m.get(idOf(i - 10)); ok && i >= 10 {
			t.Fatalf("after %d: decision %d is still there", i, i-10)
		}
	}
	none := newMemory(0)
	none.put(idOf(1), 1)
	if _, ok := none.get(idOf(1)); ok {
		t.Error("something is remembered, nothing was asked for")
	}
}
