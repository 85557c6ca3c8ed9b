package keepprocessor

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
)

func TestSamplingOf(t *testing.T) {
	const bits = 0x80000000000000
	half, most := consistent.FromProbability(0.5), consistent.FromProbability(0.125)
	for raw, want := range map[string]sampling{
		"":                              {consistent.Always, bits},
		"vendor=x":                      {consistent.Always, bits},
		"ot=th:8":                       {half, bits},
		"vendor=x,ot=th:8":              {half, bits},
		"ot=th:e":                       {consistent.Always, bits}, // the bits contradict it
		"ot=rv:f0000000000000":          {consistent.Always, 0xf0000000000000},
		"ot=th:e;rv:f0000000000000":     {most, 0xf0000000000000},
		"ot=th:8;rv:00000000000001":     {consistent.Always, 1},
		"ot=th:xyz":                     {consistent.Always, bits},
		"ot=th:8;th:c":                  {consistent.Always, bits},
		"ot=th:8,,=":                    {consistent.Always, bits}, // no trace state
		"ot=th:8;rv:123":                {half, bits},              // no randomness
		"notot=th:e":                    {consistent.Always, bits},
		"ot=x:1;th:8;y:2,rojo=00f067aa": {half, bits},
	} {
		var s states
		for range 2 { // read, and remembered
			if got := s.of(raw, idOf(bits)); got != want {
				t.Errorf("%q: %+v, want %+v", raw, got, want)
			}
		}
	}
	var s states // what is remembered is not another trace's randomness
	if a, b := s.of("ot=th:4", idOf(bits)), s.of("ot=th:4", idOf(bits+1)); a.randomness == b.randomness {
		t.Error("two traces with the same random bits")
	}
}

func TestRaise(t *testing.T) {
	half := consistent.FromProbability(0.5)
	for raw, want := range map[string]string{
		"":                             "ot=th:8",
		"ot=th:0":                      "ot=th:8",
		"ot=th:4":                      "ot=th:8",
		"ot=th:c":                      "ot=th:c", // it says more already
		"vendor=x":                     "ot=th:8,vendor=x",
		"vendor=x,ot=th:4;rv:" + rv:    "ot=th:8;rv:" + rv + ",vendor=x",
		"ot=rv:" + rv + ";th:c":        "ot=rv:" + rv + ";th:c",
		"ot=th:4;th:c":                 "ot=th:8",
		"this is = not a, trace state": "ot=th:8",
	} {
		var s states
		for range 2 {
			if got := s.raise(raw, half); got != want {
				t.Errorf("%q: %q, want %q", raw, got, want)
			}
		}
		quarter := consistent.FromProbability(0.25)
		if ts, err := trace.ParseTraceState(s.raise(raw, quarter)); err != nil {
			t.Error(err)
		} else if th, ok := consistent.ThresholdOf(ts); !ok || th < quarter {
			t.Errorf("%q: raised again to %v", raw, th)
		}
	}
}

const rv = "f0000000000000"

// Every span of a kept trace gets the trace's threshold if it had a lower one or none; a
// higher one stays.
func TestThresholdOnEverySpan(t *testing.T) {
	config := quiet()
	config.Share.Probability = 0.5
	k := keeperOf(t, config, newClock())
	specs := request("shop", "GET /")
	specs[0].state, specs[1].state, specs[2].state = "ot=th:4", "", "vendor=x,ot=th:e"
	want := map[string]string{"GET /": "ot=th:8", "GET": "ot=th:8", "GET /stock": "vendor=x,ot=th:e"}
	n := 0
	for s := range spans(decided(t, k, one(1<<56-1, specs...))) {
		n++
		if got := s.TraceState().AsRaw(); got != want[s.Name()] {
			t.Errorf("%s: %q, want %q", s.Name(), got, want[s.Name()])
		}
	}
	require.Equal(t, 3, n, "spans")
	// What came with less than the share's probability is kept as it is.
	specs[0].state = "ot=th:c"
	for s := range spans(decided(t, k, one(1<<56-1, specs...))) {
		if want := map[string]string{"GET /": "ot=th:c", "GET": "", "GET /stock": "vendor=x,ot=th:e"}[s.Name()]; s.TraceState().AsRaw() != want {
			t.Errorf("%s: %q, want %q", s.Name(), s.TraceState().AsRaw(), want)
		}
	}
	// An error keeps what it came with, whatever the share is.
	config.Errors = ErrorsAny
	k = keeperOf(t, config, newClock())
	specs[0].state = "ot=th:4"
	left := decided(t, k, one(0x50000000000000, change(specs, 2, fails)...))
	require.Equal(t, 3, left.SpanCount(), "the error was dropped")
	for s := range spans(left) {
		if s.Name() == "GET /" && s.TraceState().AsRaw() != "ot=th:4" {
			t.Errorf("the error says %q", s.TraceState().AsRaw())
		}
	}
}
