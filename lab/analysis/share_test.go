package analysis

import (
	"strings"
	"testing"
)

func TestShareOfWhatAnotherAdds(t *testing.T) {
	rounds := func(v ...float64) byRound {
		b := byRound{}
		for i, x := range v {
			b[i] = x
		}
		return b
	}
	base := rounds(10, 20, 10, 20, 10, 20)
	other := rounds(20, 30, 20, 30, 20, 30)
	for _, c := range []struct {
		x      byRound
		other  byRound
		target float64
		want   string
	}{
		{rounds(11, 21, 12, 22, 11, 21), other, 0.25, "target (at most 0.25): met; 0.10 of what official adds (0.10 to 0.20, n=6)"},
		{rounds(15, 25, 16, 26, 15, 25), other, 0.25, "target (at most 0.25): missed"},
		{rounds(11, 21, 14, 21, 11, 24), other, 0.25, "met by the median, not by the whole interval"},
		{rounds(14, 24, 14, 24, 11, 24), other, 0.25, "missed by the median, not by the whole interval"},
		{rounds(11, 21), other, 0.25, "too few rounds to tell"},
		{rounds(9, 19, 9, 19, 9, 19), other, 0, "−0.10 of what official adds (−0.10 to −0.10, n=6)"},
		// One round in which the other added nothing: no upper limit, and the
		// middle moves up, not down.
		{rounds(11, 22, 13, 24, 15, 26), rounds(20, 30, 20, 30, 20, 19), 0, "0.35 of what official adds (0.14 to unbounded, n=6)"},
	} {
		var f Finding
		if missing := share(&f, c.x, c.other, base, "official", c.target); missing != "" || !strings.Contains(f.Text, c.want) {
			t.Errorf("%v: %q %s, want %q", c.x, f.Text, missing, c.want)
		}
		if none := strings.Contains(f.Text, "unbounded"); none != (f.Value.Hi == unbounded) {
			t.Errorf("%v: %q, upper limit %v", c.x, f.Text, f.Value.Hi)
		}
	}
	var f Finding
	if missing := share(&f, rounds(), other, base, "official", 0); !strings.Contains(missing, "no round") {
		t.Errorf("%q", missing)
	}
	if missing := share(&f, base, base, base, "official", 0); !strings.Contains(missing, "adds nothing") || f.Value != nil {
		t.Errorf("%q", missing)
	}
}
