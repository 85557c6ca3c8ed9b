package export

import "github.com/prometheus/client_golang/prometheus"

var (
	descSpans = prometheus.NewDesc("tare_export_spans_total",
		"Spans that the OTLP receiver took.", nil, nil)
	descFailed = prometheus.NewDesc("tare_export_failed_batches_total",
		"Batches that were refused, or given up after retries; their spans are in tare_lost_total.", nil, nil)
	descBytes = prometheus.NewDesc("tare_export_queue_bytes",
		"Encoded spans that wait for the receiver or are on their way to it.", nil, nil)
)

var _ prometheus.Collector = (*Exporter)(nil)

// Describe implements prometheus.Collector.
func (e *Exporter) Describe(ch chan<- *prometheus.Desc) {
	ch <- descSpans
	ch <- descFailed
	ch <- descBytes
}

// Collect implements prometheus.Collector.
func (e *Exporter) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(descSpans, prometheus.CounterValue, float64(e.sentSpans.Load()))
	ch <- prometheus.MustNewConstMetric(descFailed, prometheus.CounterValue, float64(e.failedBatches.Load()))
	ch <- prometheus.MustNewConstMetric(descBytes, prometheus.GaugeValue, float64(e.queue.size()))
}
