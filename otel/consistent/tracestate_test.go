package consistent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
)

func parse(t testing.TB, s string) trace.TraceState {
	t.Helper()
	ts, err := trace.ParseTraceState(s)
	require.NoError(t, err, "%q", s)
	return ts
}

func TestOfTraceIDAndOfParent(t *testing.T) {
	id := trace.TraceID{0, 1, 2, 3, 4, 5, 6, 7, 8, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f}
	assert.EqualValues(t, 0x090a0b0c0d0e0f, OfTraceID(id), "OfTraceID")
	for state, want := range map[string]Randomness{
		"":                                       0x090a0b0c0d0e0f,
		"ot=rv:00000000000001":                   1,
		"ot=th:8;rv:FFFFFFFFFFFFFF,x=y":          0xffffffffffffff,
		"ot=rv:1":                                0x090a0b0c0d0e0f, // too short
		"ot=rv:000000000000001":                  0x090a0b0c0d0e0f, // too long
		"ot=rv:0000000000000g":                   0x090a0b0c0d0e0f,
		"ot=rv:00000000000001;rv:00000000000001": 0x090a0b0c0d0e0f, // twice
		"x=rv:00000000000001":                    0x090a0b0c0d0e0f, // another's member
		"ot=xrv:00000000000001;rvx:00000000000001": 0x090a0b0c0d0e0f,
	} {
		if got := OfParent(parse(t, state), id); got != want {
			t.Errorf("%q: %v, want %v", state, got, want)
		}
	}
	assert.Equal(t, "00000000000001", Randomness(1).String())
}

func TestThresholdOf(t *testing.T) {
	for state, want := range map[string]string{
		"ot=th:c": "c", "a=b,ot=rv:00000000000000;th:c": "c", "ot=x:1;th:0;y:2": "0", "ot=th:FD70A4": "fd70a4",
		"": "", "ot=th:": "", "ot=th:x": "", "ot=th": "", "ot=th:c;th:c": "", "ot=th:c;th:8": "", "ot=TH:c": "",
		"ot=th: c": "", "ot=th:123456789012345": "", "a@ot=th:c": "", "ot= th:c": "", "ot=th:c:d": "",
	} {
		th, ok := ThresholdOf(parse(t, state))
		if got := th.String(); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q (%v), want %q", state, got, ok, want)
		}
	}
}

func TestWithThreshold(t *testing.T) {
	full := make([]string, 32)
	for i := range full {
		full[i] = "k" + strings.Repeat("x", i) + "=v"
	}
	long := "other:" + strings.Repeat("x", 240)
	for _, c := range []struct {
		in   string
		th   Threshold
		want string
	}{
		{"", 0xc << 52, "ot=th:c"},
		{"", Never, ""},
		{"a=b", Always, "ot=th:0,a=b"},
		{"a=b,ot=th:8,c=d", 0xc << 52, "ot=th:c,a=b,c=d"},           // changed: to the front
		{"a=b,ot=th:c;rv:00", 0xc << 52, "a=b,ot=th:c;rv:00"},       // unchanged: stays
		{"a=b,ot=p:8;th:1;r:62", 0xc << 52, "ot=th:c;p:8;r:62,a=b"}, // other sub-keys kept
		{"ot=th:1;th:2;x", 0xc << 52, "ot=th:c;x"},                  // both gone
		{"ot=th:bad value", 0xc << 52, "ot=th:c"},
		{"a=b,ot=th:8", Never, "a=b"},
		{"a=b,ot=th:8;rv:00", Never, "ot=rv:00,a=b"},
		{"a=b,ot=rv:00", Never, "a=b,ot=rv:00"},
		{"ot=x: ;th:8", Never, "ot=x:"}, // no value ends in a space
		{strings.Join(full, ","), 0xc << 52, "ot=th:c," + strings.Join(full[:31], ",")},
		{"ot=" + long, 0xc << 52, "ot=th:c;" + long},                              // 251
		{"ot=" + long + "xxxxx;th:8", 0xc << 52, "ot=th:c;" + long + "xxxxx"},     // 256
		{"a=b,ot=" + long + "xxxxx", 0xcc << 48, "a=b,ot=" + long + "xxxxx"},      // 257: no threshold
		{"a=b,ot=th:8;" + long + "xxxxx", 0xcc << 48, "ot=" + long + "xxxxx,a=b"}, // nor the old one
	} {
		in := parse(t, c.in)
		assert.Equal(t, c.want, WithThreshold(in, c.th).String(), "%q with %v", c.in, c.th)
		assert.Equal(t, c.in, in.String())
	}
}

func TestWithRandomness(t *testing.T) {
	ts, ok := WithRandomness(parse(t, "a=b,ot=th:8"), 0xabc)
	if want := "ot=rv:00000000000abc;th:8,a=b"; !ok || ts.String() != want {
		t.Errorf("%v (%v), want %s", ts, ok, want)
	}
	long := parse(t, "ot=other:"+strings.Repeat("x", 240))
	if ts, ok := WithRandomness(long, 1); ok || ts.String() != long.String() {
		t.Errorf("a list past 256 characters: %v (%v)", ts, ok)
	}
}

func FuzzTraceState(f *testing.F) {
	for _, s := range []string{
		"", "ot=th:c", "ot=th:0;rv:0123456789abcd,a=b", "ot=;;th:;th", "a@b=c,ot=x", "ot=th:c;th:c", "ot=x: ;th:8",
		"ot=th:8; ", "ot=" + strings.Repeat("x", 256), "ot=:", "ot=;", "ot=th:1;;;",
	} {
		f.Add(s, uint64(0xc<<52))
	}
	f.Add("ot=x", uint64(Never))
	f.Fuzz(func(t *testing.T, s string, v uint64) {
		in, err := trace.ParseTraceState(s)
		if err != nil {
			return
		}
		th := Threshold(v)
		out := WithThreshold(in, th)
		again, err := trace.ParseTraceState(out.String())
		if err != nil || again.String() != out.String() {
			t.Fatalf("%q with %v is no tracestate: %q: %v", s, th, out, err)
		}
		got, ok := ThresholdOf(out)
		if ok && got != th {
			t.Fatalf("%q with %v says %v: %q", s, th, got, out)
		}
		if !ok && th < Never && len(in.Get("ot"))+len("th:;")+digits <= maxValue {
			t.Fatalf("%q with %v says nothing: %q", s, th, out)
		}
		r, hadRandomness := RandomnessOf(in)
		if r2, ok := RandomnessOf(out); ok != hadRandomness || r2 != r {
			t.Fatalf("%q with %v changed rv: %q", s, th, out)
		}
		without := WithoutThreshold(out)
		if _, ok := ThresholdOf(without); ok || strings.Contains(";"+without.Get("ot"), ";th:") {
			t.Fatalf("%q still has a threshold", without)
		}
		// The other members are all there, in order, unless there were 32.
		if in.Len() < 32 {
			if a, b := in.Delete("ot").String(), out.Delete("ot").String(); a != b {
				t.Fatalf("members changed from %q to %q", a, b)
			}
		}
	})
}
