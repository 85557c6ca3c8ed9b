package adaptive

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFromEnv(t *testing.T) {
	env := map[string]string{}
	get := func(name string) string { return env[name] }
	if c, err := fromEnv(get); err != nil || c != DefaultConfig() {
		t.Errorf("nothing set: %+v, %v", c, err)
	}
	env = map[string]string{
		"ADAPTIVE_BASE_RATE": "0.1", "ADAPTIVE_ERROR_BOOST": "4", "ADAPTIVE_LATENCY_THRESHOLD": " 250.5 ",
		"ADAPTIVE_LATENCY_BOOST": "1.5", "ADAPTIVE_UPDATE_INTERVAL": "0.5", "ADAPTIVE_MAX_RATE": "0.8",
	}
	want := DefaultConfig()
	want.BaseRate, want.ErrorBoost, want.LatencyThreshold = 0.1, 4, 250500*time.Microsecond
	want.LatencyBoost, want.UpdateInterval, want.MaxRate = 1.5, 500*time.Millisecond, 0.8
	if c, err := fromEnv(get); err != nil || c != want {
		t.Errorf("all set: %+v, %v", c, err)
	}
	for name, values := range map[string][]string{
		"ADAPTIVE_BASE_RATE":         {"5%", "-0.1", "1.1", "NaN", "0.9"}, // 0.9 is above the maximum of 0.8
		"ADAPTIVE_ERROR_BOOST":       {"x3", "0.5", "Inf", "1e7"},
		"ADAPTIVE_LATENCY_THRESHOLD": {"1s", "-1", "1e12"},
		"ADAPTIVE_LATENCY_BOOST":     {"0", "NaN"},
		"ADAPTIVE_UPDATE_INTERVAL":   {"30s", "0", "0.0001", "1e9"},
		"ADAPTIVE_MAX_RATE":          {"2", "-1", "0.05"}, // below the base rate
	} {
		right := env[name]
		for _, v := range values {
			env[name] = v
			if _, err := fromEnv(get); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%s: error %v does not name it", name, v, err)
			}
		}
		env[name] = right
	}
	t.Setenv("ADAPTIVE_MAX_RATE", "ten")
	if _, err := New(); err == nil || !strings.Contains(err.Error(), `ADAPTIVE_MAX_RATE="ten"`) {
		t.Errorf("New: %v", err)
	}
}

func TestValidate(t *testing.T) {
	nan := math.NaN()
	for name, edit := range map[string]func(*Config){
		"base rate":         func(c *Config) { c.BaseRate = nan },
		"minimum rate":      func(c *Config) { c.MinRate = -1 },
		"maximum rate":      func(c *Config) { c.MaxRate = 1.5 },
		"above the maximum": func(c *Config) { c.MaxRate = 0.01 },
		"error boost":       func(c *Config) { c.ErrorBoost = math.Inf(1) },
		"error share":       func(c *Config) { c.ErrorShare = nan },
		"latency threshold": func(c *Config) { c.LatencyThreshold = -1 },
		"latency boost":     func(c *Config) { c.LatencyBoost = 0 },
		"latency trigger":   func(c *Config) { c.LatencyTrigger = "p" },
		"update interval":   func(c *Config) { c.UpdateInterval = 0 },
		"traces per second": func(c *Config) { c.Budget.TracesPerSecond = -1 },
		"CPU":               func(c *Config) { c.Budget.CPUCores = nan },
		"p99":               func(c *Config) { c.Budget.P99 = 1 },
	} {
		c := DefaultConfig()
		edit(&c)
		assert.ErrorContains(t, c.Validate(), name)
		r := newRig(t, DefaultConfig())
		if r.Set(c) == nil || r.Config() != DefaultConfig() {
			t.Errorf("%s: Set accepted it", name)
		}
		if _, err := New(WithConfig(c)); err == nil {
			t.Errorf("%s: New accepted it", name)
		}
	}
}

func TestOptionErrors(t *testing.T) {
	for want, opt := range map[string]Option{
		"WithRoutes(-1)":      WithRoutes(-1),
		"without WithRoutes":  WithRouteAttribute("http.route"),
		"nothing to match":    WithRules(Rule{}),
		"base rate is 2":      WithRules(Base(named("x"), 2)),
		"WithRoutes(1000000)": WithRoutes(1_000_000),
	} {
		if _, err := New(opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// Set acts at once: also on boosts that are on.
func TestSet(t *testing.T) {
	r := newRig(t, DefaultConfig())
	r.observe("", true, ok)
	r.wait(30 * time.Second)
	r.wantRate(0.15)
	c := r.Config()
	c.ErrorBoost, c.UpdateInterval = 10, time.Minute
	require.NoError(t, r.Set(c))
	r.wantRate(0.5)
	r.wait(59 * time.Second)
	r.wantRate(0.5)
	r.wait(time.Second)
	r.wantRate(0.05)
}

func configs() []Config {
	all := Config{
		BaseRate: 0.1, MinRate: 0.02, MaxRate: 1.0 / 3, ErrorBoost: 2.5, ErrorShare: 1e-3, LatencyThreshold: 1500 * time.Microsecond,
		LatencyBoost: 7, LatencyTrigger: "p99.9", UpdateInterval: 90 * time.Second,
		Budget: Budget{TracesPerSecond: 12.5, P99: 250 * time.Millisecond},
	}
	if cpuKnown {
		all.Budget.CPUCores = 0.5
	}
	return []Config{DefaultConfig(), all}
}

func TestConfigRoundTrips(t *testing.T) {
	for _, c := range configs() {
		r := newRig(t, c, WithRoutes(7), WithRules(Never(named("GET /health"))))
		got, err := ParseDescription(r.Description())
		if err != nil || got != c {
			t.Errorf("%s: %+v, %v", r.Description(), got, err)
		}
		text, err := json.Marshal(c)
		require.NoError(t, err)
		var back Config
		if err := json.Unmarshal(text, &back); err != nil || back != c {
			t.Errorf("%s: %+v, %v", text, back, err)
		}
	}
	const want = "AdaptiveSampler{base:0.05,min:0.01,max:1,errorBoost:3,errorShare:0,latencyThreshold:1s,latencyBoost:2," +
		"latencyTrigger:any,interval:30s,tracesPerSecond:0,cpuCores:0,p99:0s,parent:follow,routes:0,rules:0}"
	assert.Equal(t, want, newRig(t, DefaultConfig()).Description(), "description")
	for _, bad := range []string{"", "AdaptiveSampler{}", "AdaptiveSampler{base:0.05", "TraceIDRatioBased{0.05}",
		strings.Replace(want, "base:0.05", "base:x", 1), strings.Replace(want, "base:0.05,", "", 1),
		strings.Replace(want, "base:0.05", "base:0.05,base:0.05", 1), strings.Replace(want, "base:0.05", "base:5", 1)} {
		if _, err := ParseDescription(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestHistogram(t *testing.T) {
	// Buckets follow each other without a gap.
	for i := range buckets {
		if got := bucketOf(bucketStart(i)); got != i {
			t.Errorf("bucket %d starts at %v, which is in bucket %d", i, bucketStart(i), got)
		}
		if i > 0 && bucketOf(bucketStart(i)-1) != i-1 {
			t.Errorf("below bucket %d is bucket %d", i, bucketOf(bucketStart(i)-1))
		}
	}
	for _, d := range []time.Duration{math.MinInt64, -1, 0, math.MaxInt64} {
		if b := bucketOf(d); b != 0 && d <= 0 || d > 0 && b != buckets-1 {
			t.Errorf("%v is in bucket %d", d, b)
		}
	}
	var o observations
	var m mark
	for ms := range 1000 {
		o.add(time.Duration(ms+1)*time.Millisecond, false, false)
	}
	w := o.since(&m)
	if w.total != 1000 || w.mean() != 500500*time.Microsecond {
		t.Errorf("%d, mean %v", w.total, w.mean())
	}
	for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
		got, want := w.quantile(q).Seconds(), q
		if math.Abs(got-want) > 0.1*want {
			t.Errorf("quantile %v is %v s", q, got)
		}
	}
	if w := o.since(&m); w.total != 0 || w.quantile(0.5) != 0 || w.mean() != 0 {
		t.Errorf("an empty window: %+v", w)
	}
	// A counter that wraps around.
	o[0].buckets[3].Store(math.MaxUint32 - 1)
	o.since(&m)
	for range 4 {
		o[0].buckets[3].Add(1)
	}
	assert.EqualValues(t, 4, o.since(&m).total, "after the counter wrapped around")
}
