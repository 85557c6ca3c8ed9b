// Package storeexporter is the collector exporter `tare_store`: it writes traces, log
// records beside them, and what agents measured of all requests, into the store that the extension tare_store holds open.
//
// It does not wait for space on a full disk: such spans are dropped at once and counted,
// as failed by the framework (otelcol_exporter_send_failed_spans) and as refused by the
// store (tare_store_refused_spans). Writes that fail for other reasons are retried.
package storeexporter

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/collector/storeextension"
	"github.com/tare-trace/tare/store"
)

type storeExporter struct {
	config *Config
	store  *store.Store
}

func (e *storeExporter) start(_ context.Context, host component.Host) error {
	s, err := storeextension.Find(host, e.config.Store)
	if err != nil {
		return err
	}
	e.store = s
	return nil
}

func (e *storeExporter) writeTraces(ctx context.Context, td ptrace.Traces) error {
	return classify(e.store.Write(ctx, td))
}

func (e *storeExporter) writeMetrics(ctx context.Context, md pmetric.Metrics) error {
	return classify(e.store.WriteMetrics(ctx, md))
}

func (e *storeExporter) writeLogs(ctx context.Context, ld plog.Logs) error {
	return classify(e.store.WriteLogs(ctx, ld))
}

// classify marks errors that a retry does not mend.
func classify(err error) error {
	if permanent(err) {
		return consumererror.NewPermanent(err)
	}
	return err
}

// permanent reports whether a retry is useless. Retention, or an operator, may free space
// on a full disk, but only after minutes: a queue that waited would fill and refuse newer
// spans instead.
func permanent(err error) bool {
	return errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrInvalid) ||
		errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrCorrupt)
}
