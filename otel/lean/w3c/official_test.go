package w3c_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/w3c"
)

var official = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// plain is a carrier that gives one value per key and is no http.Header.
type plain map[string]string

func (c plain) Get(k string) string { return c[k] }
func (c plain) Set(k, v string)     { c[k] = v }
func (c plain) Keys() []string      { return slices.Collect(maps.Keys(c)) }

// several is a carrier of several values that is no http.Header.
type several struct{ h http.Header }

func (c several) Get(k string) string      { return c.h.Get(k) }
func (c several) Values(k string) []string { return c.h.Values(k) }
func (c several) Set(k, v string)          { c.h.Set(k, v) }
func (c several) Keys() []string           { return slices.Collect(maps.Keys(c.h)) }

// compare extracts and injects with both propagators through every kind of
// carrier: what they read and what they write must be equal. The official one
// gets repeated tracestate headers as the one list that they are.
func compare(t *testing.T, traceparent string, tracestate, bag []string) {
	t.Helper()
	h := http.Header{}
	for k, v := range map[string][]string{"Traceparent": {traceparent}, "Tracestate": tracestate, "Baggage": bag} {
		if len(v) != 0 {
			h[k] = v
		}
	}
	joined := h.Clone()
	if len(tracestate) != 0 {
		joined["Tracestate"] = []string{strings.Join(tracestate, ",")}
	}
	first := plain{"traceparent": traceparent, "tracestate": strings.Join(tracestate, ",")}
	if len(bag) != 0 {
		first["baggage"] = bag[0]
	}
	for _, c := range []struct {
		name             string
		theirs, ours     propagation.TextMapCarrier
		theirOut, ourOut propagation.TextMapCarrier
	}{
		{"header", propagation.HeaderCarrier(joined), propagation.HeaderCarrier(h), propagation.HeaderCarrier{}, propagation.HeaderCarrier{}},
		{"several", several{joined}, several{h}, several{http.Header{}}, several{http.Header{}}},
		{"plain", first, first, plain{}, plain{}},
	} {
		want := official.Extract(context.Background(), c.theirs)
		got := w3c.Propagator{}.Extract(context.Background(), c.ours)
		ws, gs := trace.SpanContextFromContext(want), trace.SpanContextFromContext(got)
		if !ws.Equal(gs) {
			t.Errorf("%s: traceparent %q, tracestate %q\n got %s\nwant %s", c.name, traceparent, tracestate, show(gs), show(ws))
		}
		wb, gb := baggage.FromContext(want), baggage.FromContext(got)
		assert.True(t, sameBaggage(wb, gb), "%s: baggage %q\n got %s\nwant %s", c.name, bag, gb, wb)
		if (got == context.Background()) != (want == context.Background()) {
			t.Errorf("%s: context replaced: got %v, want %v", c.name, got != context.Background(), want != context.Background())
		}

		official.Inject(want, c.theirOut)
		w3c.Propagator{}.Inject(want, c.ourOut) // the same context: the order of baggage members is a map's
		for _, k := range (w3c.Propagator{}).Fields() {
			if w, g := c.theirOut.Get(k), c.ourOut.Get(k); k != "baggage" && w != g || k == "baggage" && len(w) != len(g) {
				t.Errorf("%s: injected %s\n got %q\nwant %q", c.name, k, g, w)
			}
		}
	}
}

func sameBaggage(a, b baggage.Baggage) bool {
	if a.Len() != b.Len() {
		return false
	}
	for _, m := range a.Members() {
		if b.Member(m.Key()).String() != m.String() {
			return false
		}
	}
	return true
}

var seeds = []struct{ traceparent, tracestate, more, baggage string }{
	{parent, "", "", ""},
	{parent, "foo=1", "bar=2", "a=b,c=d;p=q"},
	{"00-" + traceID + "-" + spanID + "-02", "foo=1,,bar=2", "", "a=%20"},
	{"00-" + traceID + "-" + spanID + "-04", "foo=1", "", ""},
	{parent + "-", "", "", ""},
	{parent + "--", "", "", ""},
	{"01" + parent[2:] + "-", "", "", ""},
	{"fe" + parent[2:53] + "ff-x", "ot=th:8;rv:00000000000001", "", "k=v;;"},
	{"FF" + parent[2:], "", "", "a=b, c"},
	{parent[:54], "x=", "", "=,="},
	{"00-" + traceID + "-0000000000000000-01", "", "", strings.Repeat("a=b,", 80)},
	{"", "foo=1", "", "a=1"},
	{"0" + string(rune(0xe9)) + parent[3:], "", "", ""},
}

func TestOfficial(t *testing.T) {
	for _, s := range seeds {
		compare(t, s.traceparent, []string{s.tracestate}, []string{s.baggage})
		compare(t, s.traceparent, []string{s.tracestate, s.more}, []string{s.baggage, "x=y"})
		compare(t, s.traceparent, nil, nil)
	}
	for i := range len(parent) { // every wrong byte in every place
		for _, c := range []byte("-0gG\x00\xff") {
			b := []byte(parent)
			b[i] = c
			compare(t, string(b), nil, nil)
		}
		compare(t, parent[:i]+parent[i+1:], nil, nil)
		compare(t, parent[:i]+"0"+parent[i:], nil, nil)
	}
}

func FuzzOfficial(f *testing.F) {
	for _, s := range seeds {
		f.Add(s.traceparent, s.tracestate, s.more, s.baggage)
	}
	f.Fuzz(func(t *testing.T, traceparent, tracestate, more, bag string) {
		compare(t, traceparent, []string{tracestate}, []string{bag})
		compare(t, traceparent, []string{tracestate, more}, []string{bag, more})
	})
}

func TestToHeaderLeavesWhatOthersRead(t *testing.T) {
	sc, _ := w3c.FromHeader(http.Header{"Traceparent": {parent}, "Tracestate": {"foo=1"}})
	old := http.Header{"Traceparent": {"before"}, "Tracestate": {"before"}}
	shallow := maps.Clone(old)
	w3c.ToHeader(shallow, sc)
	if old.Get("traceparent") != "before" || old.Get("tracestate") != "before" {
		t.Errorf("a header that shares its slices was changed: %v", old)
	}
	if shallow.Get("traceparent") != parent || shallow.Get("tracestate") != "foo=1" {
		t.Errorf("%v", shallow)
	}
	w3c.ToHeader(shallow, trace.SpanContext{})
	assert.Equal(t, parent, shallow.Get("traceparent"), "an invalid span context was written: %v", shallow)
}
