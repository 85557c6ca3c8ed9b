package otlpgrpc

import (
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	type want struct {
		target   string
		insecure bool
	}
	for endpoint, want := range map[string]want{
		"http://localhost:4317":      {"localhost:4317", true},
		"HTTPS://collector/path":     {"collector", false},
		"http://[::1]:4317":          {"[::1]:4317", true},
		"collector:4317":             {"collector:4317", false},
		"127.0.0.1:4317":             {"127.0.0.1:4317", false},
		"dns:///collector:4317":      {"dns:///collector:4317", false},
		"unix:/run/otel.sock":        {"unix:/run/otel.sock", true},
		"unix:///run/otel.sock":      {"unix:///run/otel.sock", true},
		"//collector:4317":           {"collector:4317", false},
		"ipv4:10.0.0.1:1,10.0.0.2:1": {"ipv4:10.0.0.1:1,10.0.0.2:1", false},
	} {
		target, insecure, err := parseTarget(endpoint)
		if err != nil || target != want.target || insecure != want.insecure {
			t.Errorf("%q: %q, insecure %v, error %v; want %+v", endpoint, target, insecure, err, want)
		}
	}
	for _, endpoint := range []string{"", "collector", "http://", "http://h?x", "https://user@h", "user:secret@h:4317", "a b:1", "h:", "h:http", "h:65536", "htp://h:4317", "http://h:0"} {
		if target, _, err := parseTarget(endpoint); err == nil {
			t.Errorf("%q is accepted as %q", endpoint, target)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error %v shows a password", endpoint, err)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, seed := range []string{"", "http://h:1", "https://h/p", "h:1", "unix:/s", "dns:///h", "//h", "http://%zz", "h::"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		target, _, err := parseTarget(endpoint)
		if err == nil && target == "" {
			t.Errorf("%q: no target and no error", endpoint)
		}
	})
}
