// Package logexporter is the collector exporter `tare_log`: it writes spans as structured logs into a
// file, by otel/lean/logfile, whose documentation has the form of the lines and what happens to files.
//
// A write that fails, for instance since the disk is full, is not repeated: its spans are dropped and
// counted, by the framework (otelcol_exporter_send_failed_spans) and as tare_log_lost_spans.
package logexporter

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tare-trace/tare/otel/lean/logfile"
)

type logExporter struct {
	config   *Config
	settings exporter.Settings
	file     *logfile.Exporter
	metrics  metric.Registration
}

func (e *logExporter) start(context.Context, component.Host) (err error) {
	if e.file, err = logfile.New(e.config.file()); err != nil {
		return err
	}
	e.metrics, err = observe(e.settings.MeterProvider, e.settings.ID, e.file)
	return err
}

func (e *logExporter) write(ctx context.Context, td ptrace.Traces) error {
	b, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err == nil {
		_, err = e.file.Export(ctx, b, td.SpanCount())
	}
	if err != nil {
		return consumererror.NewPermanent(err)
	}
	return nil
}

func (e *logExporter) shutdown(ctx context.Context) error {
	if e.file == nil {
		return nil
	}
	err := e.file.Shutdown(ctx)
	if e.metrics != nil {
		err = errors.Join(err, e.metrics.Unregister())
	}
	return err
}

// observe publishes the file's counts among the collector's own metrics.
func observe(provider metric.MeterProvider, id component.ID, file *logfile.Exporter) (metric.Registration, error) {
	meter := provider.Meter("github.com/tare-trace/tare/collector/logexporter")
	var errs error
	counter := func(name, unit, description string) metric.Int64ObservableCounter {
		c, err := meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = errors.Join(errs, err)
		return c
	}
	spans := counter("tare_log_written_spans", "{span}", "Spans written.")
	bytes := counter("tare_log_written_bytes", "By", "Bytes written.")
	lost := counter("tare_log_lost_spans", "{span}", "Spans that could not be written.")
	rotated := counter("tare_log_rotated_files", "{file}", "Files rotated.")
	removed := counter("tare_log_removed_files", "{file}", "Rotated files removed, so that all stay below the bound.")
	if errs != nil {
		return nil, errs
	}
	own := metric.WithAttributes(attribute.String("exporter", id.String()))
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := file.Stats()
		o.ObserveInt64(spans, int64(s.Spans), own)
		o.ObserveInt64(bytes, int64(s.Bytes), own)
		o.ObserveInt64(lost, int64(s.Lost), own)
		o.ObserveInt64(rotated, int64(s.Rotated), own)
		o.ObserveInt64(removed, int64(s.Removed), own)
		return nil
	}, spans, bytes, lost, rotated, removed)
}
