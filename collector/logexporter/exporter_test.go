package logexporter

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request is one trace: a server span, and a client span below it.
func request() ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop")
	spans := rs.ScopeSpans().AppendEmpty().Spans()
	for i, kind := range []ptrace.SpanKind{ptrace.SpanKindServer, ptrace.SpanKindClient} {
		s := spans.AppendEmpty()
		s.SetTraceID(pcommon.TraceID{1})
		s.SetSpanID(pcommon.SpanID{byte(i + 1)})
		s.SetParentSpanID(pcommon.SpanID{byte(i)})
		s.SetKind(kind)
	}
	return td
}

func start(t *testing.T, change func(*Config)) (exporter.Traces, *componenttest.Telemetry) {
	t.Helper()
	cfg := NewFactory().CreateDefaultConfig().(*Config)
	change(cfg)
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { _ = tel.Shutdown(context.WithoutCancel(t.Context())) })
	set := exportertest.NewNopSettings(Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	e, err := NewFactory().CreateTraces(t.Context(), set, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	return e, tel
}

func count(t *testing.T, tel *componenttest.Telemetry, name string) int64 {
	t.Helper()
	m, err := tel.GetMetric(name)
	if err != nil {
		t.Fatal(err)
	}
	return m.Data.(metricdata.Sum[int64]).DataPoints[0].Value
}

// A trace that comes at once is a line for each span or request, and no span waits in memory.
func TestLines(t *testing.T) {
	for lines, perRequest := range map[int]bool{2: false, 1: true} {
		path := filepath.Join(t.TempDir(), "spans.jsonl")
		e, tel := start(t, func(c *Config) { c.Path, c.PerRequest = path, perRequest; c.Queue.Get().WaitForResult = true })
		if err := e.ConsumeTraces(t.Context(), request()); err != nil {
			t.Fatal(err)
		}
		if n := count(t, tel, "tare_log_written_spans"); n != 2 {
			t.Errorf("%d spans counted", n)
		}
		if err := e.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || strings.Count(string(b), "\n") != lines || !strings.Contains(string(b), `"service.name":"shop"`) {
			t.Errorf("want %d lines: %s, %v", lines, b, err)
		}
	}
}

func TestLost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	e, tel := start(t, func(c *Config) { c.Path = filepath.Join(dir, "spans.jsonl"); c.Queue.Get().WaitForResult = true })
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := e.ConsumeTraces(t.Context(), request()); err == nil {
		t.Error("written to a directory that is gone")
	}
	if n := count(t, tel, "tare_log_lost_spans"); n != 2 {
		t.Errorf("%d spans counted as lost", n)
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		"path: /tmp/x\nmax_file_size: 1MiB\nmax_total_size: 10MiB\nmax_file_age: 7d": "",
		"sync: true":                      "`path` is empty",
		"path: /tmp/x\nmax_file_age: -1s": "`max_file_age` is negative",
		"path: /tmp/x\nmax_file_size: 1GiB\nmax_total_size: 1GiB": "at least twice as many",
	} {
		conf, err := confmap.NewRetrievedFromYAML([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		m, err := conf.AsConf()
		if err != nil {
			t.Fatal(err)
		}
		cfg := NewFactory().CreateDefaultConfig().(*Config)
		if err := m.Unmarshal(cfg); err != nil {
			t.Fatal(err)
		}
		if err := cfg.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A file that cannot be opened keeps the collector from starting.
func TestCannotOpen(t *testing.T) {
	cfg := NewFactory().CreateDefaultConfig().(*Config)
	cfg.Path = t.TempDir()
	e, err := NewFactory().CreateTraces(t.Context(), exportertest.NewNopSettings(Type), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context(), componenttest.NewNopHost()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
