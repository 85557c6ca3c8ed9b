package config_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-trace/tare/agent/config"
)

func TestThreshold(t *testing.T) {
	for _, tt := range []struct {
		sampler string
		arg     float64
		th      uint64
		parent  bool
		state   string
	}{
		{"always_on", 0.3, 0, false, "ot=th:0"},
		{"always_off", 0.3, 1 << 56, false, ""},
		{"parentbased_always_on", 0, 0, true, "ot=th:0"},
		{"parentbased_always_off", 1, 1 << 56, true, ""},
		{"traceidratio", 1, 0, false, "ot=th:0"},
		{"traceidratio", 0, 1 << 56, false, ""},
		{"traceidratio", 0.5, 1 << 55, false, "ot=th:8"},
		{"parentbased_traceidratio", 0.25, 0xc0000000000000, true, "ot=th:c"},
		{"parentbased_traceidratio", 0.01, 0xfd70a3d70a3d71, true, "ot=th:fd70a3d70a3d71"},
		{"traceidratio", 1 - 1.0/65536, 0x00010000000000, false, "ot=th:0001"},
		{"traceidratio", math.SmallestNonzeroFloat64, 1 << 56, false, ""},
	} {
		th, parent, err := config.Threshold(tt.sampler, tt.arg)
		if err != nil || th != tt.th || parent != tt.parent || config.TraceState(th) != tt.state {
			t.Errorf("%s %v: %x %v %q %v", tt.sampler, tt.arg, th, parent, config.TraceState(th), err)
		}
	}
	for _, arg := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if th, _, err := config.Threshold("traceidratio", arg); err == nil || th != config.Never {
			t.Errorf("%v: %x %v", arg, th, err)
		}
	}
	if _, _, err := config.Threshold("", 1); err == nil {
		t.Error("no sampler: no error")
	}
}

func FuzzThreshold(f *testing.F) {
	f.Add(0.01)
	f.Add(1.0)
	f.Add(1e-17)
	f.Fuzz(func(t *testing.T, p float64) {
		th, _, err := config.Threshold("traceidratio", p)
		if err != nil {
			return
		}
		if got := config.Probability(th); math.Abs(got-p) > 1.0/(1<<55) {
			t.Errorf("%v became %v", p, got)
		}
		if th == config.Never {
			return
		}
		digits := strings.TrimPrefix(config.TraceState(th), "ot=th:")
		if back, err := strconv.ParseUint((digits + strings.Repeat("0", 14))[:14], 16, 64); err != nil || back != th {
			t.Errorf("%x became %x, %v", th, back, err)
		}
	})
}
