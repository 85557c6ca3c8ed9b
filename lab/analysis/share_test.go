package analysis

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tare-trace/tare/lab/record"
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
		want   Row
	}{
		{rounds(11, 21, 12, 22, 11, 21), other, 0.25, Row{Effect: "0.10", Interval: "0.10–0.20", N: 6, Verdict: "met (≤ 0.25)"}},
		{rounds(15, 25, 16, 26, 15, 25), other, 0.25, Row{Effect: "0.50", Interval: "0.50–0.60", N: 6, Verdict: "missed (≤ 0.25)"}},
		{rounds(11, 21, 14, 21, 11, 24), other, 0.25, Row{Effect: "0.10", Interval: "0.10–0.40", N: 6, Verdict: "not resolved (≤ 0.25)"}},
		{rounds(14, 24, 14, 24, 11, 24), other, 0.25, Row{Effect: "0.40", Interval: "0.10–0.40", N: 6, Verdict: "not resolved (≤ 0.25)"}},
		{rounds(11, 21), other, 0.25, Row{Effect: "0.10", Interval: "0.10–0.10", N: 2, Verdict: "not resolved (≤ 0.25)"}},
		{rounds(9, 19, 9, 19, 9, 19), other, 0, Row{Effect: "−0.10", Interval: "−0.10 to −0.10", N: 6, Verdict: "–"}},
		// One round in which the other added nothing: no upper limit, and the
		// middle moves up, not down.
		{rounds(11, 22, 13, 24, 15, 26), rounds(20, 30, 20, 30, 20, 19), 0, Row{Effect: "0.35", Interval: "0.14 to unbounded", N: 6, Verdict: "–"}},
	} {
		var f Finding
		if missing := share(&f, c.x, c.other, base, "official", c.target); missing != "" {
			t.Fatalf("%v: %s", c.x, missing)
		}
		c.want.Metric, c.want.Base = "CPU of the service, share of what the base adds", "official"
		if got := (&ClaimAnswer{Metric: record.CPUService, ShareOfAdded: true, Findings: []Finding{f}}).Rows()[0]; got != c.want {
			t.Errorf("%v: %+v, want %+v", c.x, got, c.want)
		}
		if none := strings.Contains(c.want.Interval, "unbounded"); none != (f.Value.Hi == unbounded) {
			t.Errorf("%v: upper limit %v", c.x, f.Value.Hi)
		}
	}
	var f Finding
	assert.Contains(t, share(&f, rounds(), other, base, "official", 0), "no round")
	if missing := share(&f, base, base, base, "official", 0); !strings.Contains(missing, "adds nothing") || f.Value != nil {
		t.Errorf("%q", missing)
	}
}
