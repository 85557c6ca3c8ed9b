package export

import "github.com/prometheus/client_golang/prometheus"

var (
	descSpans = prometheus.NewDesc("tare_export_spans_total",
		"Spans that the OTLP receiver took.", nil, nil)
	descSent = prometheus.NewDesc("tare_export_bytes_total",
		"Bytes of the requests that the OTLP receiver took, before compression.", nil, nil)
	descFailed = prometheus.NewDesc("tare_export_failed_batches_total",
		"Batches that were refused, or given up after retries; their spans are in tare_lost_total.", nil, nil)
	descBytes = prometheus.NewDesc("tare_export_queue_bytes",
		"Encoded spans that wait for the receiver or are on their way to it.", nil, nil)
)

var _ prometheus.Collector = (*Exporter)(nil)

// Describe implements prometheus.Collector.
func (e *Exporter) Describe(ch chan<- *prometheus.Desc) {
	ch <- descSpans
	ch <- descSent
	ch <- descFailed
	ch <- descBytes
}

// Bytes is how many the receiver took so far, before compression.
func (e *Exporter) Bytes() uint64 { return e.sentBytes.Load() }

// Collect implements prometheus.Collector.
func (e *Exporter) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(descSpans, prometheus.CounterValue, float64(e.sentSpans.Load()))
	ch <- prometheus.MustNewConstMetric(descSent, prometheus.CounterValue, float64(e.Bytes()))
	ch <- prometheus.MustNewConstMetric(descFailed, prometheus.CounterValue, float64(e.failedBatches.Load()))
	ch <- prometheus.MustNewConstMetric(descBytes, prometheus.GaugeValue, float64(e.queue.size()))
}
