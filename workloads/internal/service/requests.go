package service

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Requests are metrics of the requests: one observation each, with tracing and without.
type Requests struct {
	seconds *prometheus.HistogramVec
}

// buckets from 1 µs to 10 s, each with an upper end that is 12% above its lower one: so
// much a quantile may be off at most, of a fast endpoint and of a slow one.
var buckets = prometheus.ExponentialBucketsRange(1e-6, 10, 141)

// NewRequests registers http_request_duration_seconds, http_requests_total and
// http_requests_2xx_total.
func NewRequests(reg *prometheus.Registry) *Requests {
	m := &Requests{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "http_request_duration_seconds",
		Help:    "Time from when a request's head was read until the handlers returned.",
		Buckets: buckets,
	}, []string{"endpoint", "status"})}
	reg.MustRegister(m.seconds, sums{m.seconds})
	return m
}

// Observe is around an endpoint. Observers of the usual statuses are looked up
// once.
func (m *Requests) Observe(path string, next http.Handler) http.Handler {
	usual := map[int]prometheus.Observer{}
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
		usual[status] = m.seconds.WithLabelValues(path, strconv.Itoa(status))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		rec := Record(w)
		next.ServeHTTP(&rec, r)
		o, ok := usual[rec.Status]
		if !ok {
			o = m.seconds.WithLabelValues(path, strconv.Itoa(rec.Status))
		}
		o.Observe(time.Since(begin).Seconds())
	})
}

// sums shows the numbers of requests as counters of their own (the thesis'
// rps_total and rps_2xx, whose rates are requests per second). They are added
// up from the histogram when they are asked for.
type sums struct{ seconds *prometheus.HistogramVec }

var (
	allRequests = prometheus.NewDesc("http_requests_total",
		"Requests answered.", []string{"endpoint"}, nil)
	goodRequests = prometheus.NewDesc("http_requests_2xx_total",
		"Requests answered with a status of the class 2xx.", []string{"endpoint"}, nil)
)

func (sums) Describe(ch chan<- *prometheus.Desc) {
	ch <- allRequests
	ch <- goodRequests
}

func (s sums) Collect(ch chan<- prometheus.Metric) {
	all, good := map[string]float64{}, map[string]float64{}
	series := make(chan prometheus.Metric)
	go func() {
		s.seconds.Collect(series)
		close(series)
	}()
	for m := range series {
		var out dto.Metric
		if err := m.Write(&out); err != nil {
			ch <- prometheus.NewInvalidMetric(allRequests, err)
			continue
		}
		labels := map[string]string{}
		for _, l := range out.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		n := float64(out.GetHistogram().GetSampleCount())
		path := labels["endpoint"]
		all[path] += n
		good[path] += 0 // shown even if there is none
		if labels["status"][0] == '2' {
			good[path] += n
		}
	}
	for path := range all {
		ch <- prometheus.MustNewConstMetric(allRequests, prometheus.CounterValue, all[path], path)
		ch <- prometheus.MustNewConstMetric(goodRequests, prometheus.CounterValue, good[path], path)
	}
}
