package scrape

import (
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const text = `# TYPE requests_total counter
requests_total{path="/a",status="200"} 7
requests_total{path="/a",status="500"} 1
requests_total{path="/b",status="200"} 4
# TYPE queue gauge
queue 3
# TYPE took_seconds histogram
took_seconds_bucket{path="/a",le="0.01"} 2
took_seconds_bucket{path="/a",le="0.1"} 8
took_seconds_bucket{path="/a",le="+Inf"} 9
took_seconds_sum{path="/a"} 3
took_seconds_count{path="/a"} 9
took_seconds_bucket{path="/b",le="0.01"} 0
took_seconds_bucket{path="/b",le="0.1"} 1
took_seconds_sum{path="/b"} 0.05
took_seconds_count{path="/b"} 1
`

func parse(t *testing.T, s string) Families {
	t.Helper()
	f, err := Parse(strings.NewReader(s))
	require.NoError(t, err)
	return f
}

func TestSums(t *testing.T) {
	f := parse(t, text)
	assert.EqualValues(t, 12, f.Total("requests_total"), "requests")
	assert.Equal(t, map[string]float64{"/a": 8, "/b": 4}, f.ByLabel("requests_total", "path"), "by path")
	if f.Total("queue") != 3 || f.Total("nothing") != 0 || len(f.ByLabel("nothing", "path")) != 0 {
		t.Error("a gauge, or what is not there")
	}
}

func TestHistogramsAreAddedUp(t *testing.T) {
	h, err := parse(t, text).Histogram("took_seconds")
	require.NoError(t, err)
	if want := (Histogram{Bounds: []float64{0.01, 0.1, math.Inf(1)}, Counts: []uint64{2, 7, 1}}); !reflect.DeepEqual(h, want) {
		t.Errorf("%v, want %v", h, want)
	}
	earlier := Histogram{Bounds: h.Bounds, Counts: []uint64{2, 3, 0}}
	if d, err := h.Since(earlier); err != nil || !reflect.DeepEqual(d.Counts, []uint64{0, 4, 1}) || d.Count() != 5 {
		t.Errorf("since: %v, %v", d, err)
	}
	if d, err := h.Since(Histogram{}); err != nil || d.Count() != 10 {
		t.Errorf("since it had no series: %v, %v", d, err)
	}
	if _, err := earlier.Since(h); err == nil || !strings.Contains(err.Error(), "restarted") {
		t.Errorf("a counter that went back: %v", err)
	}
	if _, err := h.Since(Histogram{Bounds: []float64{1, 2, 3}, Counts: []uint64{0, 0, 0}}); err == nil {
		t.Error("other buckets were taken")
	}
}

func TestWrongHistogramsAreRefused(t *testing.T) {
	for name, s := range map[string]string{
		"no histogram":  "# TYPE h gauge\nh 1\n",
		"other buckets": "# TYPE h histogram\nh_bucket{a=\"1\",le=\"1\"} 1\nh_count{a=\"1\"} 1\nh_bucket{a=\"2\",le=\"2\"} 1\nh_count{a=\"2\"} 1\n",
		"falling":       "# TYPE h histogram\nh_bucket{le=\"1\"} 5\nh_bucket{le=\"2\"} 4\nh_count 5\n",
		"out of order":  "# TYPE h histogram\nh_bucket{le=\"2\"} 1\nh_bucket{le=\"1\"} 1\nh_count 5\n",
	} {
		if h, err := parse(t, s).Histogram("h"); err == nil {
			t.Errorf("%s: %v", name, h)
		}
	}
	if _, err := (Families{}).Histogram("h"); err == nil {
		t.Error("a histogram that is not there")
	}
}

func TestQuantiles(t *testing.T) {
	h := Histogram{Bounds: []float64{1, 2, 4, math.Inf(1)}, Counts: []uint64{0, 10, 80, 10}}
	for _, c := range []struct {
		q, value, lo, hi float64
		ok               bool
	}{
		{0.05, 1.5, 1, 2, true}, {0.1, 2, 1, 2, true}, {0.5, 3, 2, 4, true}, {0.9, 4, 2, 4, true},
		{0.95, 0, 0, 0, false}, {-1, 0, 0, 0, false}, {math.NaN(), 0, 0, 0, false},
	} {
		value, lo, hi, ok := h.Quantile(c.q)
		if ok != c.ok || ok && (math.Abs(value-c.value) > 1e-9 || lo != c.lo || hi != c.hi) {
			t.Errorf("%v: %v in %v to %v, %v; want %+v", c.q, value, lo, hi, ok, c)
		}
	}
	if _, _, _, ok := (Histogram{}).Quantile(0.5); ok {
		t.Error("a quantile of nothing")
	}
}

func TestAbove(t *testing.T) {
	h := Histogram{Bounds: []float64{1, 2, 4, math.Inf(1)}, Counts: []uint64{5, 10, 80, 3}}
	for limit, want := range map[float64]struct {
		bound float64
		n     uint64
	}{0.5: {1, 93}, 1: {1, 93}, 1.5: {2, 83}, 4: {4, 3}} {
		if bound, n, ok := h.Above(limit); !ok || bound != want.bound || n != want.n {
			t.Errorf("above %v: %d above %v, %v", limit, n, bound, ok)
		}
	}
	for _, h := range []Histogram{h, {}} {
		if bound, n, ok := h.Above(5); ok {
			t.Errorf("beyond the last bound: %d above %v", n, bound)
		}
	}
}

func TestGet(t *testing.T) {
	reg := prometheus.NewRegistry()
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "took_seconds", Help: "x", Buckets: []float64{1, 2}})
	reg.MustRegister(took)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, v := range []float64{0.5, 1, 1.5, 9} {
		took.Observe(v)
	}
	f, err := Get(t.Context(), server.Client(), server.URL+"/metrics")
	require.NoError(t, err)
	if h, err := f.Histogram("took_seconds"); err != nil || !reflect.DeepEqual(h.Counts, []uint64{2, 1, 1}) {
		t.Errorf("%v, %v", h, err)
	}
	if _, err := Get(t.Context(), server.Client(), server.URL+"/nothing"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("an endpoint that is not there: %v", err)
	}
}

func FuzzHistogram(f *testing.F) {
	f.Add(text, 0.5)
	f.Add("# TYPE took_seconds histogram\ntook_seconds_bucket{le=\"-1\"} 5\ntook_seconds_count 7\n", 0.1)
	f.Fuzz(func(t *testing.T, s string, q float64) {
		families, err := Parse(strings.NewReader(s))
		if err != nil {
			return
		}
		h, err := families.Histogram("took_seconds")
		if err != nil {
			return
		}
		if value, lo, hi, ok := h.Quantile(q); ok && (lo > hi || value < lo-1e-9*math.Abs(lo) || value > hi+1e-9*math.Abs(hi)) {
			t.Errorf("the quantile %v is not from %v to %v", value, lo, hi)
		}
		if _, n, ok := h.Above(q); ok && n > h.Count() {
			t.Errorf("%d of %d are above %v", n, h.Count(), q)
		}
	})
}
