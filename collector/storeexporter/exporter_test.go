package storeexporter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/goleak"

	"github.com/tare-trace/tare/collector/storeextension"
	"github.com/tare-trace/tare/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type host map[component.ID]component.Component

func (h host) GetExtensions() map[component.ID]component.Component { return h }

// opened is an extension with a store that is open.
type opened struct {
	component.StartFunc
	component.ShutdownFunc
	store *store.Store
}

func (o opened) Store() *store.Store { return o.store }

func open(t *testing.T) (*store.Store, host) {
	t.Helper()
	s, err := store.Open(store.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, host{component.NewID(storeextension.Type): opened{store: s}}
}

func newExporter(t *testing.T, change func(*Config)) (exporter.Traces, *componenttest.Telemetry) {
	t.Helper()
	cfg := NewFactory().CreateDefaultConfig().(*Config)
	if change != nil {
		change(cfg)
	}
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { _ = tel.Shutdown(context.WithoutCancel(t.Context())) })
	set := exportertest.NewNopSettings(Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	e, err := NewFactory().CreateTraces(t.Context(), set, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e, tel
}

func traceOf(id byte, spans int) ptrace.Traces {
	td := ptrace.NewTraces()
	list := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for i := range spans {
		sp := list.AppendEmpty()
		sp.SetTraceID([16]byte{id})
		sp.SetSpanID([8]byte{id, byte(i + 1)})
		sp.SetStartTimestamp(pcommon.NewTimestampFromTime(time.Now()))
		sp.SetEndTimestamp(sp.StartTimestamp() + 1000)
	}
	return td
}

func TestExportedIsStored(t *testing.T) {
	s, h := open(t)
	e, _ := newExporter(t, nil)
	if err := e.Start(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	for id := range byte(20) {
		if err := e.ConsumeTraces(t.Context(), traceOf(id+1, 3)); err != nil {
			t.Fatal(err)
		}
	}
	// What is in the queue is written before the exporter has stopped.
	if err := e.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id := range byte(20) {
		td, err := s.Trace(t.Context(), pcommon.TraceID{id + 1})
		if err != nil || td.SpanCount() != 3 {
			t.Errorf("trace %d: %v", id, err)
		}
	}
}

// Log records go to the same store.
func TestLogsAreStored(t *testing.T) {
	s, h := open(t)
	e, err := NewFactory().CreateLogs(t.Context(), exportertest.NewNopSettings(Type), NewFactory().CreateDefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	ld := plog.NewLogs()
	ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().SetTraceID(pcommon.TraceID{1})
	if err := e.ConsumeLogs(t.Context(), ld); err != nil {
		t.Fatal(err)
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Logs(t.Context(), pcommon.TraceID{1}); err != nil || got.LogRecordCount() != 1 {
		t.Errorf("%d records, %v", got.LogRecordCount(), err)
	}
}

// Metrics of all requests go there, too.
func TestMetricsAreStored(t *testing.T) {
	s, h := open(t)
	e, err := NewFactory().CreateMetrics(t.Context(), exportertest.NewNopSettings(Type), NewFactory().CreateDefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	md := pmetric.NewMetrics()
	m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("tare.service.request.duration")
	m.SetEmptyHistogram().SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	p := m.Histogram().DataPoints().AppendEmpty()
	p.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
	p.SetStartTimestamp(p.Timestamp() - 1)
	p.BucketCounts().FromRaw([]uint64{3})
	p.Attributes().PutStr("service", "web")
	if err := e.ConsumeMetrics(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Map(t.Context(), time.Time{}, time.Time{}); err != nil || len(got.Nodes) != 1 || got.Nodes[0].Weight != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestStartNeedsAStore(t *testing.T) {
	e, _ := newExporter(t, nil)
	err := e.Start(t.Context(), host{})
	if err == nil || !strings.Contains(err.Error(), "service::extensions") {
		t.Errorf("%v", err)
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// If the store refuses everything, the exporter does not wait for it, and counts the
// spans.
func TestWhatCannotBeStoredIsCountedAtOnce(t *testing.T) {
	s, err := store.Open(store.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	e, tel := newExporter(t, func(c *Config) {
		c.Retry.InitialInterval, c.Retry.MaxElapsedTime = time.Hour, 0 // a retry would last forever
	})
	if err := e.Start(t.Context(), host{component.NewID(storeextension.Type): opened{store: s}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.ConsumeTraces(t.Context(), traceOf(1, 7)); err != nil {
		t.Fatal(err)
	}
	if err := e.Shutdown(t.Context()); err != nil { // after the queue is empty
		t.Fatal(err)
	}
	m, err := tel.GetMetric("otelcol_exporter_send_failed_spans")
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v", m.Data); !strings.Contains(text, "Value:7") {
		t.Errorf("7 spans were lost, the metric says %s", text)
	}
}

func TestPermanent(t *testing.T) {
	for err, want := range map[error]bool{
		store.ErrFull:                            true,
		fmt.Errorf("write: %w", store.ErrFull):   true,
		store.ErrInvalid:                         true,
		store.ErrClosed:                          true,
		store.ErrCorrupt:                         true,
		context.DeadlineExceeded:                 false,
		errors.New("the disk answered an error"): false,
	} {
		if permanent(err) != want {
			t.Errorf("%v: permanent %t", err, !want)
		}
	}
	_, h := open(t)
	e := &storeExporter{config: NewFactory().CreateDefaultConfig().(*Config)}
	if err := e.start(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if err := e.writeTraces(t.Context(), traceOf(1, 1)); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.writeTraces(ctx, traceOf(2, 1)); consumererror.IsPermanent(err) {
		t.Errorf("a timeout is not tried again: %v", err)
	}
}

func TestConfig(t *testing.T) {
	cfg := NewFactory().CreateDefaultConfig().(*Config)
	if err := componenttest.CheckConfigStruct(cfg); err != nil {
		t.Error(err)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	if q := cfg.Queue.Get(); q.Sizer != exporterhelper.RequestSizerTypeItems || q.QueueSize != 200_000 || q.BlockOnOverflow || !q.Batch.HasValue() {
		t.Errorf("default queue: %+v", q)
	}
	err := confmap.NewFromStringMap(map[string]any{
		"store": "tare_store/other", "timeout": "1s",
		"sending_queue":    map[string]any{"queue_size": 5, "storage": "file_storage", "batch": map[string]any{"min_size": 5}},
		"retry_on_failure": map[string]any{"max_elapsed_time": "1m"},
	}).Unmarshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Store.String() != "tare_store/other" || cfg.Timeout != time.Second || cfg.Queue.Get().QueueSize != 5 ||
		cfg.Queue.Get().StorageID.String() != "file_storage" || cfg.Retry.MaxElapsedTime != time.Minute {
		t.Errorf("%+v", cfg)
	}
	cfg.Store = component.ID{}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "`store`") {
		t.Errorf("%v", err)
	}
}
