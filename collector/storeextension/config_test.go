package storeextension

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/tare-trace/tare/internal/duration"
)

// value is the sum of a metric's points.
func value(t *testing.T, tel *componenttest.Telemetry, name string) int64 {
	t.Helper()
	m, err := tel.GetMetric(name)
	if err != nil {
		t.Fatal(err)
	}
	var points []metricdata.DataPoint[int64]
	switch d := m.Data.(type) {
	case metricdata.Gauge[int64]:
		points = d.DataPoints
	case metricdata.Sum[int64]:
		points = d.DataPoints
	}
	if len(points) != 1 {
		t.Fatalf("%s has %d points", name, len(points))
	}
	return points[0].Value
}

func TestConfig(t *testing.T) {
	cfg := NewFactory().CreateDefaultConfig().(*Config)
	if err := componenttest.CheckConfigStruct(cfg); err != nil {
		t.Error(err)
	}
	if !cfg.Sync || cfg.Retention.Age.Std() != 168*time.Hour || cfg.Retention.Size != 10<<30 || !filepath.IsAbs(cfg.Directory) {
		t.Errorf("default: %+v", cfg)
	}
	conf := confmap.NewFromStringMap(map[string]any{
		"directory": "/x", "sync": false,
		"retention": map[string]any{"age": "2d", "size": "1.5GiB", "services": map[string]any{"payments": "24h", "Audit.*": "1d12h"}},
	})
	if err := conf.Unmarshal(cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Directory != "/x" || cfg.Sync || cfg.Retention.Age.Std() != 48*time.Hour || cfg.Retention.Size != 3<<29 {
		t.Errorf("%+v", cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	if s := cfg.Retention.services(); len(s) != 2 || s["payments"] != 24*time.Hour || s["Audit.*"] != 36*time.Hour {
		t.Errorf("%v", s)
	}
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Directory = "" }, "`directory`"},
		{func(c *Config) { c.Retention.Age = -1 }, "`retention::age`"},
		{func(c *Config) {
			c.Retention.Services = map[string]duration.Duration{"a": duration.Duration(72 * time.Hour)}
		}, "nothing is kept for longer"},
		{func(c *Config) { c.Retention.Services = map[string]duration.Duration{"a": 0} }, "at least 1s"},
	} {
		bad := *cfg
		c.change(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want one that names %s", err, c.want)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]any{
		"10GiB": 10 << 30, "500MB": 500_000_000, "1000000": 1_000_000, "0": 0, "1 MiB": 1 << 20,
	} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != Size(want.(int)) {
			t.Errorf("%s: %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "much", "-1", "10 apples", "99999999999GiB"} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "10GiB") {
			t.Errorf("%q: %d, %v", text, s, err)
		}
	}
	// A number in YAML is not text.
	cfg := NewFactory().CreateDefaultConfig().(*Config)
	if err := confmap.NewFromStringMap(map[string]any{"retention": map[string]any{"size": 1000000}}).Unmarshal(cfg); err != nil || cfg.Retention.Size != 1_000_000 {
		t.Errorf("%d, %v", cfg.Retention.Size, err)
	}
	// What is printed can be read.
	conf := confmap.New()
	if err := conf.Marshal(cfg); err != nil {
		t.Fatal(err)
	}
	if err := conf.Unmarshal(cfg); err != nil {
		t.Errorf("%v in %v", err, conf.ToStringMap())
	}
}

func FuzzSize(f *testing.F) {
	for _, s := range []string{"10GiB", "1e3", "1.5 MB", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s Size
		if s.UnmarshalText([]byte(text)) == nil && s < 0 {
			t.Errorf("%q is %d", text, s)
		}
	})
}

func TestDefaultDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		if d := defaultDirectory(); d != "/var/lib/tare/store" {
			t.Error(d)
		}
		return
	}
	t.Setenv("XDG_STATE_HOME", "/state")
	if d := defaultDirectory(); d != "/state/tare/store" {
		t.Error(d)
	}
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "/home/x")
	if d := defaultDirectory(); d != "/home/x/.local/state/tare/store" {
		t.Error(d)
	}
}
