package keep_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/keep"
	"github.com/tare-trace/tare/otel/rule"
)

func compile(t testing.TB, p keep.Policy) *keep.Compiled {
	t.Helper()
	c, err := p.Compile()
	require.NoError(t, err)
	return c
}

func TestVerdict(t *testing.T) {
	policy := keep.Policy{
		Errors:           true,
		ServerErrors:     true,
		SlowerThan:       time.Second,
		SlowerThanByName: map[string]time.Duration{"report": time.Minute, "stream": 0, "ping": time.Millisecond},
		Rules: []*rule.Rule{
			rule.MustCompile(rule.Spec{Attributes: map[string]string{"user.tier": "gold"}}),
			rule.MustCompile(rule.Spec{Name: "audit*", Kind: "internal"}),
		},
	}
	server, client := trace.SpanKindServer, trace.SpanKindClient
	gold := []attribute.KeyValue{attribute.String("user.tier", "gold")}
	for _, c := range []struct {
		name   string
		policy keep.Policy
		spans  []keep.Ended
		want   keep.Reason
	}{
		{"no spans", policy, nil, keep.NotKept},
		{"nothing special", policy, []keep.Ended{{Name: "a", Kind: server, Status: 404, LocalRoot: true, Duration: time.Second}}, keep.NotKept},
		{"failed", policy, []keep.Ended{{Name: "a", Failed: true}, {Name: "b", LocalRoot: true}}, keep.Failed},
		{"status 500 without error", policy, []keep.Ended{{Kind: server, Status: 500}}, keep.Failed},
		{"a client saw 500", policy, []keep.Ended{{Kind: client, Status: 500}}, keep.NotKept},
		{"slow root", policy, []keep.Ended{{LocalRoot: true, Duration: time.Second + 1}}, keep.Slow},
		{"slow child", policy, []keep.Ended{{Duration: time.Hour}}, keep.NotKept},
		{"name with more time", policy, []keep.Ended{{Name: "report", LocalRoot: true, Duration: time.Minute}}, keep.NotKept},
		{"name with more time, slow", policy, []keep.Ended{{Name: "report", LocalRoot: true, Duration: time.Minute + 1}}, keep.Slow},
		{"name without limit", policy, []keep.Ended{{Name: "stream", LocalRoot: true, Duration: time.Hour}}, keep.NotKept},
		{"name with less time", policy, []keep.Ended{{Name: "ping", LocalRoot: true, Duration: 2 * time.Millisecond}}, keep.Slow},
		{"attribute", policy, []keep.Ended{{Name: "x", Attributes: gold}}, keep.Matched},
		{"name and kind", policy, []keep.Ended{{Name: "audit log", Kind: trace.SpanKindInternal}}, keep.Matched},
		{"name and other kind", policy, []keep.Ended{{Name: "audit log", Kind: client}}, keep.NotKept},
		{"first reason stays", policy, []keep.Ended{{Attributes: gold}, {Failed: true}}, keep.Matched},
		{"zero policy", keep.Policy{}, []keep.Ended{{Failed: true, Kind: server, Status: 500, LocalRoot: true, Duration: time.Hour, Attributes: gold}}, keep.NotKept},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compile(t, c.policy)
			var v keep.Verdict
			for _, s := range c.spans {
				p.Observe(&v, s)
			}
			kept, reason := p.Decide(v)
			if reason != c.want || kept != (c.want != keep.NotKept) || v.Kept() != kept {
				t.Errorf("%t, %v; want %v", kept, reason, c.want)
			}
		})
	}
}

func TestNeedsAttributes(t *testing.T) {
	byName := rule.MustCompile(rule.Spec{Name: "audit*"})
	byAttribute := rule.MustCompile(rule.Spec{Attributes: map[string]string{"k": "v"}})
	for want, rules := range map[bool][]*rule.Rule{false: {byName}, true: {byName, byAttribute}} {
		assert.Equal(t, want, compile(t, keep.Policy{Errors: true, ServerErrors: true, Rules: rules}).NeedsAttributes(), "%v: needs attributes", rules)
	}
}

func TestCompileErrors(t *testing.T) {
	for want, p := range map[string]keep.Policy{
		"rule 0 is nil":               {Rules: []*rule.Rule{nil}},
		"SlowerThan is -1s":           {SlowerThan: -time.Second},
		`SlowerThanByName["a"] is -1`: {SlowerThanByName: map[string]time.Duration{"a": -1}},
		"Quantile is 0.2":             {Learn: keep.Learn{Quantile: 0.2}},
		"Quantile is 1;":              {Learn: keep.Learn{Quantile: 1}},
		"Operations -1":               {Learn: keep.Learn{Quantile: 0.9, Operations: -1}},
		"MaxTraces is -1":             {MaxTraces: -1},
		"MaxBytes is -1":              {MaxBytes: -1},
		"MaxSpansPerTrace is -1":      {MaxSpansPerTrace: -1},
		"MaxLate is -1":               {MaxLate: -1},
		"MaxAge is -1ns":              {MaxAge: -1},
	} {
		_, err := p.Compile()
		assert.ErrorContains(t, err, want)
		if _, processorErr := keep.NewProcessor(tracetest.NewSpanRecorder(), p); processorErr == nil {
			t.Errorf("NewProcessor accepts what Compile refuses: %v", err)
		}
	}
	if _, err := keep.NewProcessor(nil, keep.Policy{}); err == nil {
		t.Error("NewProcessor accepts a nil processor")
	}
	_, err := keep.Policy{MaxTraces: -1, MaxBytes: -1}.Compile()
	assert.Equal(t, 2, strings.Count(err.Error(), "keep:"), "errors that are reported: %v", err)
}

func TestCompileCopies(t *testing.T) {
	limits := map[string]time.Duration{"a": time.Second}
	rules := []*rule.Rule{rule.MustCompile(rule.Spec{Name: "a"})}
	c := compile(t, keep.Policy{SlowerThanByName: limits, Rules: rules})
	limits["a"], rules[0] = 0, nil
	p := c.Policy()
	if p.SlowerThanByName["a"] != time.Second || p.Rules[0] == nil {
		t.Error("the compiled policy changes with the caller's map or slice")
	}
	if p.MaxTraces != keep.DefaultMaxTraces || p.MaxBytes != keep.DefaultMaxBytes || p.MaxAge != keep.DefaultMaxAge ||
		p.MaxSpansPerTrace != keep.DefaultMaxSpansPerTrace || p.MaxLate != keep.DefaultMaxLate {
		t.Errorf("defaults are not filled in: %+v", p)
	}
}

func TestState(t *testing.T) {
	for _, c := range []struct {
		exact    bool
		reason   keep.Reason
		from, to string
	}{
		{true, keep.Failed, "", "ot=th:0"},
		{true, keep.Slow, "ot=th:e6;rv:12345678901234,a=b", "ot=th:0;rv:12345678901234,a=b"},
		{true, keep.Matched, "a=b", "ot=th:0,a=b"},
		{true, keep.Head, "ot=th:e6,a=b", "ot=th:e6,a=b"},
		{false, keep.Failed, "", ""},
		{false, keep.Unusual, "ot=th:e6;rv:12345678901234,a=b", "ot=rv:12345678901234,a=b"},
		{false, keep.Head, "ot=th:e6", "ot=th:e6"},
	} {
		from, err := trace.ParseTraceState(c.from)
		require.NoError(t, err)
		got := compile(t, keep.Policy{ExactCounts: c.exact}).State(from, c.reason).String()
		assert.Equal(t, c.to, got, "exact %t, %v, %q", c.exact, c.reason, c.from)
	}
}

func TestNamesOfReasonsAndCauses(t *testing.T) {
	seen := map[string]bool{"": true}
	for i := range len(keep.Stats{}.TracesKept) {
		if n := keep.Reason(i).String(); seen[n] || n == "unknown" {
			t.Errorf("reason %d has the name %q", i, n)
		} else {
			seen[n] = true
		}
	}
	for i := range len(keep.Stats{}.SpansDropped) {
		if n := keep.Cause(i).String(); seen[n] || n == "unknown" {
			t.Errorf("cause %d has the name %q", i, n)
		} else {
			seen[n] = true
		}
	}
	if keep.Reason(200).String() != "unknown" || keep.Cause(200).String() != "unknown" {
		t.Error("values out of range have names")
	}
}

// Size must not be below what a span's own text needs, for values of all types.
func TestSize(t *testing.T) {
	text := strings.Repeat("x", 1000)
	size := func(kv ...attribute.KeyValue) int {
		stub := tracetest.SpanStub{Name: "n", Attributes: kv,
			Events: []sdktrace.Event{{Name: "e", Attributes: kv}},
			Links:  []sdktrace.Link{{Attributes: kv}}}
		return keep.Size(stub.Snapshot())
	}
	base := size(attribute.Bool("k", true))
	for name, kv := range map[string]attribute.KeyValue{
		"string":  attribute.String("k", text),
		"strings": attribute.StringSlice("k", []string{text[:600], text[600:]}),
		"ints":    attribute.Int64Slice("k", make([]int64, 125)),
		"floats":  attribute.Float64Slice("k", make([]float64, 125)),
		"bools":   attribute.BoolSlice("k", make([]bool, 1000)),
		"bytes":   attribute.ByteSlice("k", []byte(text)),
		"slice":   attribute.Slice("k", attribute.StringValue(text)),
		"map":     attribute.Map("k", attribute.String("m", text)),
	} {
		if more := size(kv) - base; more < 3*1000 || more > 3*1200 {
			t.Errorf("%s: 3 × 1000 bytes more are estimated as %d", name, more)
		}
	}
}
