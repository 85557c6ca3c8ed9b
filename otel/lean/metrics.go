package lean

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/otelconv"
)

// scopeName is the instrumentation scope of the provider's own metrics.
const scopeName = "github.com/tare-trace/tare/otel/lean"

// components numbers the providers, for otel.component.name.
var components atomic.Int64

// observe publishes the provider's counters under the names of the semantic conventions for SDK
// metrics. The component is called a batching span processor: that is the role it has.
func (p *TracerProvider) observe(meters metric.MeterProvider) {
	m := meters.Meter(scopeName, metric.WithSchemaURL(semconv.SchemaURL))
	var errs [6]error
	var started otelconv.SDKSpanStartedObservable
	var live otelconv.SDKSpanLiveObservable
	var processed otelconv.SDKProcessorSpanProcessedObservable
	var exported otelconv.SDKExporterSpanExportedObservable
	started, errs[0] = otelconv.NewSDKSpanStartedObservable(m)
	live, errs[1] = otelconv.NewSDKSpanLiveObservable(m)
	processed, errs[2] = otelconv.NewSDKProcessorSpanProcessedObservable(m)
	exported, errs[3] = otelconv.NewSDKExporterSpanExportedObservable(m)
	size, err := m.Int64ObservableUpDownCounter(otelconv.SDKProcessorSpanQueueSize{}.Name(),
		metric.WithUnit(otelconv.SDKProcessorSpanQueueSize{}.Unit()),
		metric.WithDescription(otelconv.SDKProcessorSpanQueueSize{}.Description()))
	errs[4] = err
	capacity, err := m.Int64ObservableUpDownCounter(otelconv.SDKProcessorSpanQueueCapacity{}.Name(),
		metric.WithUnit(otelconv.SDKProcessorSpanQueueCapacity{}.Unit()),
		metric.WithDescription(otelconv.SDKProcessorSpanQueueCapacity{}.Description()))
	errs[5] = err
	if err := errors.Join(errs[:]...); err != nil {
		otel.Handle(fmt.Errorf("lean: no metrics: %w", err))
		return
	}

	kind := otelconv.ComponentTypeBatchingSpanProcessor
	component := []attribute.KeyValue{
		processed.AttrComponentType(kind),
		processed.AttrComponentName(fmt.Sprintf("%s/lean-%d", kind, components.Add(1)-1)),
	}
	plain := metric.WithAttributeSet(attribute.NewSet(component...))
	failed := func(reason string) metric.MeasurementOption {
		kvs := append([]attribute.KeyValue{processed.AttrErrorType(otelconv.ErrorTypeAttr(reason))}, component...)
		return metric.WithAttributeSet(attribute.NewSet(kvs...))
	}
	queueFull, queueBytes, shutdown := failed("queue_full"), failed("queue_bytes_full"), failed("already_shutdown")
	undecided := failed("undecided")
	rejected, unsent := failed("rejected"), failed(string(otelconv.ErrorTypeOther))
	origins := [3]otelconv.SpanParentOriginAttr{
		noParent: otelconv.SpanParentOriginNone, localParent: otelconv.SpanParentOriginLocal,
		remoteParent: otelconv.SpanParentOriginRemote,
	}
	results := [3]otelconv.SpanSamplingResultAttr{
		otelconv.SpanSamplingResultDrop, otelconv.SpanSamplingResultRecordOnly, otelconv.SpanSamplingResultRecordAndSample,
	}
	var startedAs [3][3]metric.MeasurementOption
	var liveAs [3]metric.MeasurementOption
	for r := range results {
		for o := range origins {
			startedAs[o][r] = metric.WithAttributeSet(attribute.NewSet(
				started.AttrSpanParentOrigin(origins[o]), started.AttrSpanSamplingResult(results[r])))
		}
		liveAs[r] = metric.WithAttributeSet(attribute.NewSet(live.AttrSpanSamplingResult(results[r])))
	}

	registration, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		count := func(i metric.Int64Observable, n uint64, as metric.ObserveOption) {
			o.ObserveInt64(i, int64(n), as)
		}
		s, over := p.Stats(), p.queue.over() // before started: live spans are never negative
		recorded := [3]uint64{}
		for origin, byResult := range p.queue.started() {
			for result, n := range byResult {
				count(started.Int64ObservableCounter, n, startedAs[origin][result])
				recorded[result] += n
			}
		}
		count(live.Int64ObservableUpDownCounter, recorded[1]-over[0], liveAs[1])
		count(live.Int64ObservableUpDownCounter, recorded[2]-over[1], liveAs[2])
		count(processed.Int64ObservableCounter, s.Exported+s.Rejected+s.Failed, plain)
		count(processed.Int64ObservableCounter, s.Dropped.QueueFull, queueFull)
		count(processed.Int64ObservableCounter, s.Dropped.QueueBytes, queueBytes)
		count(processed.Int64ObservableCounter, s.Dropped.Shutdown, shutdown)
		count(processed.Int64ObservableCounter, s.Dropped.Undecided, undecided)
		count(exported.Int64ObservableCounter, s.Exported, plain)
		count(exported.Int64ObservableCounter, s.Rejected, rejected)
		count(exported.Int64ObservableCounter, s.Failed, unsent)
		o.ObserveInt64(size, s.QueuedSpans, plain)
		o.ObserveInt64(capacity, p.queue.maxSpans, plain)
		return nil
	}, started.Int64ObservableCounter, live.Int64ObservableUpDownCounter, processed.Int64ObservableCounter,
		exported.Int64ObservableCounter, size, capacity)
	if err != nil {
		otel.Handle(fmt.Errorf("lean: no metrics: %w", err))
		return
	}
	p.mu.Lock()
	p.meter = registration
	p.mu.Unlock()
}
