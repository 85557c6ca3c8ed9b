package health

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// maxMetrics bounds the listed series of a source.
const maxMetrics = 2000

// Metric is one series.
type Metric struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
}

// shown reports whether a family is listed: Tare's, the collector framework's, and CPU
// time, memory and start of the process. The many of the Go runtime are left out.
func shown(name string) bool {
	return strings.HasPrefix(name, "tare_") || strings.HasPrefix(name, "otelcol_") ||
		name == "process_cpu_seconds_total" || name == "process_resident_memory_bytes" || name == "process_start_time_seconds"
}

// flatten lists the series of a family; for a histogram or summary, its count and sum. It
// omits values that are not finite.
func flatten(f *dto.MetricFamily) []Metric {
	var out []Metric
	add := func(name string, m *dto.Metric, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return
		}
		labels := make(map[string]string, len(m.GetLabel()))
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		out = append(out, Metric{name, labels, v})
	}
	name := f.GetName()
	for _, m := range f.GetMetric() {
		switch {
		case m.Counter != nil:
			add(name, m, m.GetCounter().GetValue())
		case m.Gauge != nil:
			add(name, m, m.GetGauge().GetValue())
		case m.Untyped != nil:
			add(name, m, m.GetUntyped().GetValue())
		case m.Histogram != nil:
			add(name+"_count", m, float64(m.GetHistogram().GetSampleCount()))
			add(name+"_sum", m, m.GetHistogram().GetSampleSum())
		case m.Summary != nil:
			add(name+"_count", m, float64(m.GetSummary().GetSampleCount()))
			add(name+"_sum", m, m.GetSummary().GetSampleSum())
		}
	}
	return out
}

// series are a source's metrics by name.
type series map[string][]Metric

// group fills in the source from its families, in the order of their names.
func (s *Source) group(families map[string]*dto.MetricFamily) {
	all := series{}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		for _, m := range flatten(families[name]) {
			all[m.Name] = append(all[m.Name], m)
			if shown(name) && len(s.Metrics) < maxMetrics {
				s.Metrics = append(s.Metrics, m)
			}
		}
	}
	s.Agent = agent(all)
	s.Collector = collector(all)
}

// sum adds the series of the first name that exists: depending on version and settings,
// OpenTelemetry's Prometheus exporter appends _total to a counter's name.
func (s series) sum(names ...string) float64 {
	var n float64
	for _, m := range s.any(names...) {
		n += m.Value
	}
	return n
}

func (s series) any(names ...string) []Metric {
	for _, name := range names {
		if ms, ok := s[name]; ok {
			return ms
		}
	}
	return nil
}

// by adds the series of the first name that exists, by one label.
func (s series) by(label string, names ...string) map[string]float64 {
	out := map[string]float64{}
	for _, m := range s.any(names...) {
		out[m.Labels[label]] += m.Value
	}
	return out
}

// has reports whether some name has the prefix.
func (s series) has(prefix string) bool {
	for name := range s {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func byName(a, b Program) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Hook, b.Hook))
}
