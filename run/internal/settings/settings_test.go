package settings

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func valid() Settings {
	return Settings{Store: "/s", Page: "127.0.0.1:4680", Retention: time.Hour, MaxSize: "1GiB", OTLP: true, Metrics: ":8888", Retro: "127.0.0.1:4319"}
}

// at finds a value by its path, "a.b".
func at(t *testing.T, text, path string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	for key := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

func TestYAML(t *testing.T) {
	list := func(items ...any) any { return append([]any{}, items...) }
	for name, tt := range map[string]struct {
		change func(*Settings)
		traced bool
		listen string
		want   map[string]any
	}{
		"all": {traced: true, listen: "0.0.0.0:9464", want: map[string]any{
			"service.pipelines.traces.receivers":   list("tare_agent", "otlp"),
			"service.extensions":                   list("tare_store", "tare_page", "tare_retro"),
			"extensions.tare_retro.endpoint":       "127.0.0.1:4319",
			"extensions.tare_store.directory":      "/s",
			"extensions.tare_store.retention.age":  "1h0m0s",
			"extensions.tare_store.retention.size": "1GiB",
			"extensions.tare_page.endpoint":        "127.0.0.1:4680",
			"extensions.tare_page.health":          list("http://127.0.0.1:9464/metrics", "http://127.0.0.1:8888/metrics"),
			"service.telemetry.logs.level":         "warn",
			"service.telemetry.metrics.level":      "normal",
		}},
		"no agent": {want: map[string]any{
			"service.pipelines.traces.receivers": list("otlp"),
			"receivers.tare_agent":               nil,
			"extensions.tare_page.health":        list("http://127.0.0.1:8888/metrics"),
		}},
		"agent alone, no page": {traced: true, listen: "127.0.0.1:9464",
			change: func(s *Settings) { s.OTLP, s.Page, s.Metrics, s.Retro, s.Verbose = false, "none", "none", "none", true },
			want: map[string]any{
				"service.pipelines.traces.receivers": list("tare_agent"),
				"service.extensions":                 list("tare_store"),
				"extensions.tare_page":               nil,
				"extensions.tare_retro":              nil,
				"service.telemetry.metrics.level":    "none",
				"service.telemetry.metrics.readers":  nil,
				"service.telemetry.logs.level":       "info",
			}},
	} {
		s := valid()
		if tt.change != nil {
			tt.change(&s)
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text, err := s.YAML(tt.traced, tt.listen)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range tt.want {
			if got := at(t, text, path); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is %#v, want %#v", name, path, got, want)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	for flag, change := range map[string]func(*Settings){
		"--store":            func(s *Settings) { s.Store = "" },
		"--retention":        func(s *Settings) { s.Retention = 0 },
		"--page":             func(s *Settings) { s.Page = "4680" },
		"--collector-listen": func(s *Settings) { s.Metrics = "localhost:http" },
		"--retro-listen":     func(s *Settings) { s.Retro = "4319" },
	} {
		s := valid()
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// Whoever receives no OTLP has no pipeline of log records, and all else as it was.
func TestTracesOnly(t *testing.T) {
	text, err := TracesOnly("receivers: {otlp: null}\nservice: {extensions: [x], pipelines: {logs: {receivers: [otlp]}, metrics: {receivers: [otlp]}, traces: {receivers: [otlp]}}}\n")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"service.pipelines.logs": nil, "service.pipelines.metrics": nil, "service.pipelines.traces.receivers": []any{"otlp"}, "service.extensions": []any{"x"}, "receivers": map[string]any{"otlp": nil},
	} {
		if got := at(t, text, path); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %#v, want %#v", path, got, want)
		}
	}
}

func TestReachable(t *testing.T) {
	for address, want := range map[string]string{
		":80": "127.0.0.1:80", "0.0.0.0:80": "127.0.0.1:80", "[::]:80": "127.0.0.1:80",
		"10.0.0.1:80": "10.0.0.1:80", "host:80": "host:80", "[::1]:80": "[::1]:80",
	} {
		if got := Reachable(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
