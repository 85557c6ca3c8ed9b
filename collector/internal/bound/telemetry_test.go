package bound

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/service/telemetry"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	otelconf "go.opentelemetry.io/contrib/otelconf/v0.3.0"
	"go.uber.org/zap"
)

// freePort is one that nothing listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func prometheusAt(host string, port int) otelconf.MetricReader {
	yes := true
	return otelconf.MetricReader{Pull: &otelconf.PullMetricReader{Exporter: otelconf.PullMetricExporter{Prometheus: &otelconf.Prometheus{
		Host: &host, Port: &port, WithoutScopeInfo: &yes, WithoutUnits: &yes, WithoutTypeSuffix: &yes,
		WithResourceConstantLabels: &otelconf.IncludeExclude{Included: []string{"service.name"}},
	}}}}
}

func meters(t *testing.T, readers ...otelconf.MetricReader) (telemetry.MeterProvider, error) {
	t.Helper()
	f := Telemetry()
	cfg := f.CreateDefaultConfig().(*otelconftelemetry.Config)
	cfg.Metrics.Readers = readers
	set := telemetry.Settings{BuildInfo: component.BuildInfo{Command: "tare", Version: "1"}}
	resource, schema, err := f.CreateResource(t.Context(), set, cfg)
	if err != nil {
		t.Fatal(err)
	}
	set.Resource, set.SchemaURL = &resource, schema
	return f.CreateMeterProvider(t.Context(), telemetry.MeterSettings{Settings: set, Logger: zap.NewNop()}, cfg)
}

// The collector's own metrics are for this machine's programs, not for the page of another site.
func TestOwnMetrics(t *testing.T) {
	for _, c := range []struct {
		name, listen, host, origin string
		status                     int
	}{
		{"a program", "localhost", "localhost", "", 200},
		{"by address", "127.0.0.1", "127.0.0.1", "", 200},
		{"a page", "localhost", "localhost", "https://evil.example", 403},
		{"DNS rebinding", "localhost", "evil.example", "", 403},
		{"a name of a host that others reach", "0.0.0.0", "collector.example", "", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := freePort(t)
			provider, err := meters(t, prometheusAt(c.listen, port))
			if err != nil {
				t.Fatal(err)
			}
			counter, err := provider.Meter("test").Int64Counter("tare.things")
			if err != nil {
				t.Fatal(err)
			}
			counter.Add(t.Context(), 3)
			var client http.Client
			defer client.CloseIdleConnections()
			client.Transport = &http.Transport{DisableKeepAlives: true}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+"/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = c.host + ":" + strconv.Itoa(port)
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != c.status {
				t.Errorf("%d, want %d: %s", res.StatusCode, c.status, body)
			}
			if told := strings.Contains(string(body), "things{service_name=\"tare\"} 3"); told != (c.status == 200) {
				t.Errorf("the counter is told: %v\n%s", told, body)
			}
			if err := provider.Shutdown(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
			if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(port)); err != nil {
				t.Errorf("the port is not free at the end: %v", err)
			} else {
				_ = l.Close()
			}
		})
	}
}

// A port that is taken is an error that names it, and leaves no other one open.
func TestOwnMetricsWithoutAPort(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	free := freePort(t)
	_, err = meters(t, prometheusAt("127.0.0.1", free), prometheusAt("127.0.0.1", taken.Addr().(*net.TCPAddr).Port))
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !strings.Contains(err.Error(), "service::telemetry::metrics") {
		t.Errorf("%v", err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(free))
	if err != nil {
		t.Fatalf("the first port is still open: %v", err)
	}
	_ = l.Close()
}
