package bench

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/tracer"
	"github.com/tare-trace/tare/workloads"
)

// counting is a service that counts its requests under a name, each as so long.
func counting(t *testing.T, name string, took time.Duration) *run {
	t.Helper()
	reg := prometheus.NewRegistry()
	seconds := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: "x", Buckets: []float64{0.001, 0.002, 0.1}})
	reg.MustRegister(seconds)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) { seconds.Observe(took.Seconds()) })
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	r := &run{
		stage: &Stage{},
		rec:   &record.Run{Values: map[string]float64{}},
		chain: &workloads.Chain{Entry: server.Listener.Addr().String()},
	}
	r.job.Workload = &experiment.Workload{Name: "w", Metrics: "/metrics"}
	return r
}

func TestServiceAndClientCountTheSame(t *testing.T) {
	for _, name := range durations {
		r := counting(t, name, 1500*time.Microsecond)
		send := func(n uint64) {
			t.Helper()
			result, err := load.Run(t.Context(), load.Options{
				Addr: r.chain.Entry, Connections: 2, Requests: n,
				AppendPath: func(dst []byte, _ uint64) []byte { return append(dst, "/"...) },
			})
			if err != nil || result.OK != n {
				t.Fatalf("%+v, %v", result, err)
			}
		}
		send(10) // before the window
		before, err := r.aside(t.Context())
		require.NoError(t, err)
		send(40)
		after, err := r.aside(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.asideValues(before, after))
		v := r.rec.Values
		if n := v[record.ServerThroughput] * after.at.Sub(before.at).Seconds(); n < 39.99 || n > 40.01 {
			t.Errorf("%s: the service counted %v requests", name, n)
		}
		// All are in the bucket from 1 to 2 ms.
		if p50, p99 := v[record.ServerP50], v[record.ServerP99]; p50 != 1.5 || p99 < 1.98 || p99 > 2 {
			t.Errorf("%s: p50 %v ms, p99 %v ms", name, p50, p99)
		}
		if width := v[record.ServerBucket]; width < 0.66 || width > 0.67 { // 1 ms of 1.5 ms
			t.Errorf("%s: the bucket is %v of the value", name, width)
		}
		r.job.Workload.Slow = experiment.Duration(time.Millisecond)
		if r.server, err = r.served(t.Context()); err != nil {
			t.Fatal(err)
		}
		if limit, n := r.slow(); limit != time.Millisecond || n != 50 {
			t.Errorf("%s: %d requests longer than %v", name, n, limit)
		}
	}
}

// What lies beyond the last bucket is no number, and nobody makes one up.
func TestLatenciesBeyondTheBucketsAreAbsent(t *testing.T) {
	r := counting(t, durations[0], time.Hour)
	before, err := r.aside(t.Context())
	require.NoError(t, err)
	resp, err := http.Get("http://" + r.chain.Entry + "/") //nolint:noctx // answered at once
	require.NoError(t, err)
	resp.Body.Close()
	after, err := r.aside(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.asideValues(before, after))
	v := r.rec.Values
	if _, has := v[record.ServerP50]; has || v[record.ServerThroughput] <= 0 {
		t.Errorf("%v", v)
	}
}

// exporter is a session whose tracer has exported so many bytes.
type exporter struct {
	tracer.Session
	bytes float64
}

func (e *exporter) Reported(context.Context) (float64, error) {
	if e.bytes < 0 {
		return 0, errors.New("it does not answer")
	}
	return e.bytes, nil
}

func TestReportedBytesAreThoseOfTheWindow(t *testing.T) {
	e := &exporter{bytes: 1000}
	r := &run{stage: &Stage{}, rec: &record.Run{Values: map[string]float64{record.Throughput: 50}}, session: e}
	r.job.Workload, r.job.Variant.Tracer = &experiment.Workload{}, &experiment.Tracer{}
	before, err := r.aside(t.Context())
	require.NoError(t, err)
	e.bytes += 6000
	after, err := r.aside(t.Context())
	require.NoError(t, err)
	after.reportedAt = before.reportedAt.Add(4 * time.Second)
	require.NoError(t, r.asideValues(before, after))
	if got := r.rec.Values[record.NetReported]; got != 30 { // 6000 bytes in 4 s of 50 requests each
		t.Errorf("%v bytes for a request, want 30", got)
	}
	e.bytes = -1
	if _, err := r.aside(t.Context()); err == nil {
		t.Error("an agent that does not answer is taken for one that does")
	}
	// One that stops before it exports has no such counter.
	r.job.Variant.Tracer.StopAt = "records"
	if a, err := r.aside(t.Context()); err != nil || !a.reportedAt.IsZero() {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestServiceWithoutMetricsIsSaid(t *testing.T) {
	r := counting(t, "requests_seconds", time.Millisecond)
	if _, err := r.aside(t.Context()); err == nil || !strings.Contains(err.Error(), "has none of http_server_request_duration_seconds") {
		t.Errorf("other metrics: %v", err)
	}
	r.job.Workload.Metrics = "/nothing/"
	if _, err := r.aside(t.Context()); err == nil || !strings.Contains(err.Error(), "the service's metrics") {
		t.Errorf("no metrics: %v", err)
	}
	r.job.Workload.Metrics = ""
	if a, err := r.aside(t.Context()); err != nil || !a.at.IsZero() {
		t.Errorf("metrics that nobody asked for: %+v, %v", a, err)
	}
}
