package record

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShortenKeepsWhatIsExact(t *testing.T) {
	r := Run{
		Begin: time.Date(2026, 11, 28, 9, 37, 15, 998_526_474, time.UTC), Window: 3.501349817, Rate: 0.123456789,
		Values:   map[string]float64{P99: 0.123456789, "count": 1234567890, "tiny": -1.23456789e-9, "big": 123456789.5, "none": 0},
		Programs: []Program{{Runs: 123456789, NsPerRun: 1234.56789}},
		Shares:   []Share{{Micros: 1.23456789}}, Packages: []Share{{Micros: 12.3456789}},
		Sampler:  []SamplerState{{At: 1.23456789, Rate: 0.0123456789}},
		ReadBack: map[string]any{"ratio": 0.123456789},
	}
	r.Shorten()
	once, err := json.Marshal(r)
	require.NoError(t, err)
	for got, want := range map[float64]float64{
		r.Window: 3.50135, r.Values[P99]: 0.123457, r.Values["count"]: 1234567890, r.Values["tiny"]: -1.23457e-9, r.Values["big"]: 123457000, r.Values["none"]: 0,
		float64(r.Programs[0].Runs): 123456789, r.Programs[0].NsPerRun: 1234.57, r.Shares[0].Micros: 1.23457, r.Packages[0].Micros: 12.3457,
		r.Sampler[0].At: 1.23457, r.Sampler[0].Rate: 0.0123457, r.Rate: 0.123456789, r.ReadBack["ratio"].(float64): 0.123456789,
	} {
		assert.Equal(t, want, got)
	}
	assert.Equal(t, 998_000_000, r.Begin.Nanosecond(), r.Begin)
	r.Shorten()
	if again, err := json.Marshal(r); err != nil || string(again) != string(once) {
		t.Errorf("%v: a second time it is %s, after %s", err, again, once)
	}
	if v := shorten(math.NaN()); !math.IsNaN(v) {
		t.Errorf("no number became %v", v)
	}
}
