package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// measurement is what an agent sends of one edge, or of a service where peer is "".
type measurement struct {
	service, peer    string
	traced, failed   bool
	protocol         string
	end              time.Time // of a minute
	fast, slow, more uint64    // of 1 ms at most, of 2 ms, beyond 4 ms
}

func metricsOf(list ...measurement) pmetric.Metrics {
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	for _, one := range list {
		m := ms.AppendEmpty()
		m.SetName(serviceRequests)
		h := m.SetEmptyHistogram()
		h.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
		p := h.DataPoints().AppendEmpty()
		p.SetTimestamp(pcommon.NewTimestampFromTime(one.end))
		p.SetStartTimestamp(pcommon.NewTimestampFromTime(one.end.Add(-time.Minute)))
		p.ExplicitBounds().FromRaw([]float64{0.001, 0.002, 0.004})
		p.BucketCounts().FromRaw([]uint64{one.fast, one.slow, 0, one.more})
		a := p.Attributes()
		a.PutBool("error", one.failed)
		a.PutStr("protocol", one.protocol)
		if one.peer == "" {
			a.PutStr("service", one.service)
			continue
		}
		m.SetName(edgeRequests)
		a.PutStr("client", one.service)
		a.PutStr("peer", one.peer)
		a.PutBool("peer_traced", one.traced)
	}
	return md
}

// A map of what agents measured, where there is no span at all.
func TestMapFromMetrics(t *testing.T) {
	s := open(t, Options{})
	now := time.Now()
	for minute := range 3 {
		end := now.Add(-time.Duration(minute) * time.Minute)
		err := s.WriteMetrics(t.Context(), metricsOf(
			measurement{service: "web", end: end, fast: 90, slow: 10},
			measurement{service: "web", peer: "stock", traced: true, end: end, slow: 40},
			measurement{service: "web", peer: "stock", traced: true, failed: true, end: end, more: 10},
			measurement{service: "web", peer: "192.0.2.1:6379", protocol: "redis", end: end, fast: 200},
			measurement{service: "stock", end: end, fast: 50},
		))
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func(s *Store, from time.Time, minutes float64) {
		t.Helper()
		m, err := s.Map(t.Context(), from, now.Add(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Nodes) != 2 || m.Nodes[0].Service != "web" || m.Nodes[0].Weight != 100*minutes || !m.Nodes[0].Measured || m.Nodes[0].Count != 0 {
			t.Errorf("nodes %+v", m.Nodes)
		}
		if len(m.Edges) != 2 {
			t.Fatalf("edges %+v", m.Edges)
		}
		redis, stock := m.Edges[0], m.Edges[1]
		if redis.To != "redis 192.0.2.1:6379" || redis.Traced || !redis.Measured || redis.Weight != 200*minutes || redis.Errors != 0 || redis.P50 != 500*time.Microsecond {
			t.Errorf("redis %+v", redis)
		}
		if stock.To != "stock" || !stock.Traced || stock.Weight != 50*minutes || stock.Errors != 10*minutes || stock.P50 < 1450*time.Microsecond || stock.P50 > 1550*time.Microsecond || stock.P99 < 3900*time.Microsecond {
			t.Errorf("stock %+v", stock)
		}
		if want := now.Add(-time.Duration(minutes) * time.Minute); m.MeasuredSince.UnixNano() != want.UnixNano() {
			t.Errorf("measured since %v, want %v", m.MeasuredSince, want)
		}
	}
	check(s, now.Add(-time.Hour), 3)
	check(s, now.Add(-time.Minute), 1)
	if st := s.MetricStats(); st.Points != 15 || st.Written != 15 || st.Bytes == 0 || st.Bytes > 1000 {
		t.Errorf("%+v", st)
	}
	// Another reader sees what it may.
	m, err := s.Map(WithScope(t.Context(), &Scope{Services: []string{"stock"}}), time.Time{}, time.Time{})
	if err != nil || len(m.Edges) != 0 || len(m.Nodes) != 1 || m.Nodes[0].Service != "stock" {
		t.Errorf("of one service: %+v, %v", m, err)
	}
	m, err = s.Map(WithScope(t.Context(), &Scope{Services: []string{"web"}}), time.Time{}, time.Time{})
	if err != nil || len(m.Edges) != 2 || m.Edges[1].To != OtherServices {
		t.Errorf("a callee that may not be seen: %+v, %v", m.Edges, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.opt)
	check(s, now.Add(-time.Hour), 3)
	if st := s.MetricStats(); st.Points != 15 || st.Written != 0 {
		t.Errorf("opened again: %+v", st)
	}
}

// What spans show is not shown again.
func TestMetricsBesideSpans(t *testing.T) {
	s := open(t, Options{})
	write(t, s, shop(0, 3))
	before, err := s.Map(t.Context(), time.Time{}, time.Time{})
	if err != nil || len(before.Edges) == 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	e := before.Edges[0]
	now := time.Now()
	err = s.WriteMetrics(t.Context(), metricsOf(
		measurement{service: e.From, end: now, fast: 1000},
		measurement{service: e.From, peer: e.To, traced: e.Traced, end: now, fast: 1000},
		measurement{service: e.From, peer: "elsewhere", end: now, fast: 7},
	))
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Map(t.Context(), time.Time{}, time.Time{})
	if err != nil || len(m.Edges) != len(before.Edges)+1 || len(m.Nodes) != len(before.Nodes) {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, got := range m.Edges {
		if got.Measured != (got.To == "elsewhere") || !got.Measured && got.Weight > 100 {
			t.Errorf("%+v", got)
		}
	}
}

func TestMetricsThatAreNotKept(t *testing.T) {
	s := open(t, Options{})
	now := time.Now()
	change := func(f func(pmetric.Metric, pmetric.HistogramDataPoint)) pmetric.Metrics {
		md := metricsOf(measurement{service: "web", peer: "stock", end: now, fast: 1})
		m := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0)
		f(m, m.Histogram().DataPoints().At(0))
		return md
	}
	many := metricsOf()
	for i := range MaxMetricPoints + 2 {
		metricsOf(measurement{service: fmt.Sprint("s", i), end: now, fast: 1}).ResourceMetrics().MoveAndAppendTo(many.ResourceMetrics())
	}
	for _, c := range []struct {
		what string
		md   pmetric.Metrics
		want MetricStats
	}{
		{"another metric", change(func(m pmetric.Metric, _ pmetric.HistogramDataPoint) { m.SetName("http.server.request.duration") }), MetricStats{Other: 1}},
		{"of another type", change(func(m pmetric.Metric, _ pmetric.HistogramDataPoint) { m.SetEmptyGauge().DataPoints().AppendEmpty() }), MetricStats{Other: 1}},
		{"cumulative", change(func(m pmetric.Metric, _ pmetric.HistogramDataPoint) {
			m.Histogram().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		}), MetricStats{Cumulative: 1}},
		{"no service", change(func(_ pmetric.Metric, p pmetric.HistogramDataPoint) { p.Attributes().Remove("client") }), MetricStats{Invalid: 1}},
		{"no peer", change(func(_ pmetric.Metric, p pmetric.HistogramDataPoint) { p.Attributes().PutInt("peer", 7) }), MetricStats{Invalid: 1}},
		{"no time", change(func(_ pmetric.Metric, p pmetric.HistogramDataPoint) { p.SetTimestamp(0) }), MetricStats{Invalid: 1}},
		{"buckets", change(func(_ pmetric.Metric, p pmetric.HistogramDataPoint) { p.BucketCounts().FromRaw([]uint64{1}) }), MetricStats{Invalid: 1}},
		{"bounds", change(func(_ pmetric.Metric, p pmetric.HistogramDataPoint) {
			p.ExplicitBounds().FromRaw([]float64{math.NaN(), 1, 2})
		}), MetricStats{Invalid: 1}},
		{"too many", many, MetricStats{Points: MaxMetricPoints, Written: MaxMetricPoints, TooMany: 2}},
	} {
		before := s.MetricStats()
		if err := s.WriteMetrics(t.Context(), c.md); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		got := s.MetricStats()
		got = MetricStats{
			Points: got.Points - before.Points, Written: got.Written - before.Written, Other: got.Other - before.Other,
			Cumulative: got.Cumulative - before.Cumulative, Invalid: got.Invalid - before.Invalid, TooMany: got.TooMany - before.TooMany,
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteMetrics(t.Context(), metricsOf(measurement{service: "a", end: now, fast: 1})); !errors.Is(err, ErrClosed) || s.MetricStats().Refused != 1 {
		t.Errorf("after Close: %v", err)
	}
}

func TestMetricsExpire(t *testing.T) {
	s := open(t, Options{MaxAge: time.Hour, MaxBytes: MinBytes, byHand: true})
	now := time.Now()
	for minute := range 100 {
		if err := s.WriteMetrics(t.Context(), metricsOf(measurement{service: "web", end: now.Add(-time.Duration(minute) * time.Minute), fast: 1})); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.expireRequests(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if st := s.MetricStats(); st.Points != 61 || st.Expired != 39 || st.Evicted != 0 {
		t.Errorf("by age: %+v", st)
	}
	s.opt.MaxBytes = logShare * int64(s.MetricStats().Bytes) / 2
	if err := s.expireRequests(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	st := s.MetricStats()
	if st.Evicted == 0 || int64(st.Bytes) > s.opt.maxMetricBytes() || st.Points+st.Evicted != 61 {
		t.Errorf("by size: %+v", st)
	}
	m, err := s.Map(t.Context(), time.Time{}, time.Time{})
	if err != nil || len(m.Nodes) != 1 || m.Nodes[0].Weight != float64(st.Points) {
		t.Errorf("%+v, %v", m, err)
	}
	if r := s.requests.records; r[len(r)-1].end != uint64(now.UnixNano()) {
		t.Error("the newest is gone")
	}
}

func FuzzRequests(f *testing.F) {
	p := measured{service: "web", peer: "redis 192.0.2.1:6379", failed: true, start: 5, end: 9, values: []valueCount{{1000, 3}, {2000, 1}}}
	good := append([]byte{1}, s2.Encode(nil, encodeRequests([]measured{p}))...)
	f.Add(good)
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, value []byte) {
		points, err := decodeRequests(value)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again := append([]byte{byte(len(points))}, s2.Encode(nil, encodeRequests(points))...)
		if len(points) > 127 {
			return
		}
		back, err := decodeRequests(again)
		if err != nil || !bytes.Equal(encodeRequests(back), encodeRequests(points)) {
			t.Fatalf("%+v became %+v, %v", points, back, err)
		}
	})
}
