package weight_test

import (
	"testing"
	"unsafe"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store/weight"
)

const (
	kept       = semconv.RetroKept
	onePercent = "ot=th:fd70a3d70a3d71" // 1%
)

func TestTrace(t *testing.T) {
	type span struct {
		state string
		root  bool
		retro semconv.RetroSet
	}
	failed := semconv.RetroSetOf("error")
	for name, c := range map[string]struct {
		spans []span
		want  float64
		kept  semconv.RetroSet
	}{
		"no spans":                         {nil, 1, 0},
		"no threshold":                     {[]span{{root: true}, {}}, 1, 0},
		"the root's threshold":             {[]span{{state: "ot=th:8"}, {state: "ot=th:c", root: true}, {state: "ot=th:8"}}, 4, 0},
		"a threshold below the root":       {[]span{{root: true}, {state: "ot=th:c"}, {state: "ot=th:8"}}, 4, 0},
		"1%":                               {[]span{{state: onePercent, root: true}, {state: onePercent}}, 100, 0},
		"kept":                             {[]span{{root: true, retro: kept}, {retro: kept | failed}}, 0, kept | failed},
		"kept, other spans beside it":      {[]span{{root: true}, {state: "a=b", retro: kept}}, 0, kept},
		"kept, and sampled by its SDK":     {[]span{{root: true, retro: kept | failed}, {state: onePercent}}, 100, 0},
		"a reason on a trace not so kept":  {[]span{{root: true, retro: failed}}, 1, 0},
		"a tracestate that cannot be read": {[]span{{state: "ot=th:zz", root: true, retro: kept}}, 0, kept},
	} {
		var got weight.Trace
		var states weight.States
		for _, s := range c.spans {
			got.Add(states.Adjusted(s.state), s.root, s.retro)
		}
		if w := got.Traces(); w < c.want*(1-1e-9) || w > c.want*(1+1e-9) || got.Kept() != c.kept {
			t.Errorf("%s: stands for %v, kept %b; want %v, %b", name, w, got.Kept(), c.want, c.kept)
		}
	}
}

func TestStates(t *testing.T) {
	var states weight.States
	for state, want := range map[string]float64{
		"": 0, "ot=th:0": 1, "ot=th:8": 2, onePercent: 100, "a=b, ot=rv:00;th:c": 4, "ot=rv:00000000000001": 0,
		"ot=th:": 0, "ot=th:zz": 0, "ot=th:123456789012345": 0, "th:8": 0, "ot=th:-8": 0, "ot=th:ffffffffffffff": 1 << 56,
	} {
		for range 2 { // also from what is remembered
			if got := states.Adjusted(state); got < want*(1-1e-9) || got > want*(1+1e-9) {
				t.Errorf("%q: got %v, want %v", state, got, want)
			}
		}
	}
	// The store passes memory that it uses again.
	memory := []byte("ot=th:8")
	states.Adjusted(unsafe.String(&memory[0], len(memory)))
	if copy(memory, "ot=th:c"); states.Adjusted("ot=th:c") != 4 {
		t.Error("what is remembered changed with the caller's memory")
	}
}
