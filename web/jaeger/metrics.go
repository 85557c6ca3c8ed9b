package jaeger

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/internal/answer"
)

// Defaults of Jaeger's metrics query API, and bounds of it.
const (
	metricsLookback = time.Hour
	metricsStep     = 5 * time.Second
	metricsRatePer  = 10 * time.Minute
	minStep         = time.Millisecond
	maxServices     = 100
)

// The JSON of metrics in Jaeger's query service, a MetricFamily of OpenMetrics.
type (
	metricFamily struct {
		Name    string   `json:"name"` // service_latencies, service_operation_call_rate …
		Type    string   `json:"type"` // GAUGE
		Help    string   `json:"help"`
		Metrics []metric `json:"metrics"`
	}
	metric struct {
		Labels []label       `json:"labels"`
		Points []metricPoint `json:"metricPoints"`
	}
	label struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	metricPoint struct {
		Gauge     gauge  `json:"gaugeValue"`
		Timestamp string `json:"timestamp"` // RFC 3339
	}
	gauge struct {
		Value any `json:"doubleValue"` // a number, or "NaN"
	}
)

// notANumber is how the protobuf JSON mapping writes NaN: there is no quantile and no
// share of no requests.
const notANumber = "NaN"

// kindOfMetrics is one of the paths below metrics/.
type kindOfMetrics struct {
	suffix, help string
	value        func(p store.Point) any
}

var metricKinds = map[string]kindOfMetrics{
	"latencies": {"latencies", "latency in milliseconds", func(p store.Point) any {
		if p.Requests == 0 {
			return notANumber
		}
		return float64(p.Duration) / float64(time.Millisecond)
	}},
	"calls": {"call_rate", "calls/sec", func(p store.Point) any { return p.Rate }},
	"errors": {"error_rate", "error rate, computed as a fraction of errors/sec over calls/sec", func(p store.Point) any {
		if p.Requests == 0 {
			return notANumber
		}
		return p.Errors / p.Requests
	}},
}

// metrics is /api/metrics/{latencies,calls,errors,minstep}, which the Monitor tab of
// Jaeger's page asks. A point is of the spans of the ratePer before it.
func (a *api) metrics(r *http.Request) (any, error) {
	name := r.PathValue("kind")
	if name == "minstep" {
		return response{Data: minStep.Milliseconds()}, nil
	}
	kind, ok := metricKinds[name]
	if !ok {
		return nil, answer.NotFound("use /api/metrics/{latencies, calls, errors, minstep}")
	}
	p := newParams(r)
	q := p.series(time.Now(), name == "latencies")
	if p.err != nil {
		return nil, p.err
	}
	found, err := a.Store.Series(r.Context(), q)
	if err != nil {
		return nil, err
	}
	out := metricFamily{Name: "service_" + kind.suffix, Type: "GAUGE", Help: kind.help + ", grouped by service", Metrics: make([]metric, 0, len(found))}
	if q.ByOperation {
		out.Name, out.Help = "service_operation_"+kind.suffix, out.Help+" & operation"
	}
	for _, s := range found {
		m := metric{Points: make([]metricPoint, 0, len(s.Points))}
		if q.ByOperation {
			m.Labels = append(m.Labels, label{"operation", s.Operation})
		}
		m.Labels = append(m.Labels, label{"service_name", s.Service})
		for _, x := range s.Points {
			m.Points = append(m.Points, metricPoint{gauge{kind.value(x)}, x.Time.UTC().Format(time.RFC3339Nano)})
		}
		out.Metrics = append(out.Metrics, m)
	}
	return out, nil
}

// series reads the parameters of metrics. A tag narrows them, as in a search.
func (p *params) series(now time.Time, quantile bool) store.SeriesQuery {
	q := store.SeriesQuery{Services: p.Values["service"]}
	if len(q.Services) == 0 || len(q.Services) > maxServices || slices.Contains(q.Services, "") {
		p.fail("service", "the names of 1 to 100 services")
	}
	if v := p.text("groupByOperation"); v != "" {
		by, err := strconv.ParseBool(v)
		if err != nil {
			p.fail("groupByOperation", "true or false")
		}
		q.ByOperation = by
	}
	for _, v := range p.Values["spanKind"] {
		n := kindNumber(strings.TrimPrefix(strings.ToLower(v), "span_kind_"))
		if n == 0 && !strings.HasSuffix(strings.ToLower(v), "unspecified") {
			p.fail("spanKind", "unspecified, internal, server, client, producer or consumer")
		}
		q.Kinds = append(q.Kinds, n)
	}
	if len(q.Kinds) == 0 {
		q.Kinds = []int32{kindNumber("server")}
	}
	if v := p.text("quantile"); v != "" || quantile {
		var err error
		if q.Quantile, err = strconv.ParseFloat(v, 64); err != nil || !(q.Quantile > 0 && q.Quantile <= 1) {
			p.fail("quantile", "a number above 0, up to 1")
		}
	}
	q.End = p.time("endTs", time.Millisecond, now)
	q.Start = q.End.Add(-p.milliseconds("lookback", metricsLookback))
	q.Step = p.milliseconds("step", metricsStep)
	q.Window = p.milliseconds("ratePer", metricsRatePer)
	var tags store.Query
	p.tags(&tags)
	if tags.Status != store.AnyStatus || tags.Kind != 0 {
		p.fail("tag", "attributes: spanKind selects kinds, and errors are a metric")
	}
	q.Conditions = tags.Conditions
	return q
}
