package health

import "github.com/tare-trace/tare/span/semconv"

// Collector is the state of a collector.
type Collector struct {
	AcceptedSpans float64            `json:"accepted_spans"`
	RefusedSpans  float64            `json:"refused_spans"`
	Traces        Traces             `json:"traces"`
	LateSpans     float64            `json:"late_spans"`
	Kept          map[string]float64 `json:"kept"` // traces by reason
	DroppedTraces float64            `json:"dropped_traces"`
	ExportedSpans float64            `json:"exported_spans"`
	FailedSpans   float64            `json:"failed_spans"`
	Queue         float64            `json:"queue"` // batches that wait for exporters
}

// Traces are the traces that tare_tracer has emitted.
type Traces struct {
	Complete   float64            `json:"complete"`
	Unlinked   map[string]float64 `json:"unlinked"`   // by comma-separated reasons, as the next
	Incomplete map[string]float64 `json:"incomplete"` // by comma-separated reasons: each trace counts once
}

// collector returns nil unless the source has a collector's metrics.
func collector(s series) *Collector {
	if !s.has("otelcol_") && !s.has("tare_tracer_") && !s.has("tare_keep_") {
		return nil
	}
	c := &Collector{
		AcceptedSpans: s.sum("otelcol_receiver_accepted_spans_total", "otelcol_receiver_accepted_spans"),
		RefusedSpans:  s.sum("otelcol_receiver_refused_spans_total", "otelcol_receiver_refused_spans"),
		LateSpans:     s.sum("tare_tracer_late_spans_total", "tare_tracer_late_spans"),
		Kept:          s.by("reason", "tare_keep_traces_kept_total", "tare_keep_traces_kept"),
		DroppedTraces: s.sum("tare_keep_traces_dropped_total", "tare_keep_traces_dropped"),
		Traces:        Traces{Unlinked: map[string]float64{}, Incomplete: map[string]float64{}},
		ExportedSpans: s.sum("otelcol_exporter_sent_spans_total", "otelcol_exporter_sent_spans"),
		FailedSpans: s.sum("otelcol_exporter_send_failed_spans_total", "otelcol_exporter_send_failed_spans") +
			s.sum("otelcol_exporter_enqueue_failed_spans_total", "otelcol_exporter_enqueue_failed_spans"),
		Queue: s.sum("otelcol_exporter_queue_size"),
	}
	for _, m := range s.any("tare_tracer_traces_total", "tare_tracer_traces") {
		switch m.Labels["state"] {
		case semconv.StateComplete:
			c.Traces.Complete += m.Value
		case semconv.StateUnlinked:
			c.Traces.Unlinked[m.Labels["reason"]] += m.Value
		default:
			c.Traces.Incomplete[m.Labels["reason"]] += m.Value
		}
	}
	return c
}
