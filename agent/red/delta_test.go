package red

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/bpf"
)

// sent is how many requests each series has in what Read gave.
func sent(t *testing.T, d *Deltas, now time.Time) (map[string]uint64, *metrics.ExportMetricsServiceRequest) {
	t.Helper()
	b, points, err := d.Read(now)
	if err != nil {
		t.Fatal(err)
	}
	var r metrics.ExportMetricsServiceRequest
	if err := proto.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, p := range pointsOf(&r) {
		values := map[string]string{}
		for _, kv := range p.GetAttributes() {
			values[kv.GetKey()] = kv.GetValue().GetStringValue()
		}
		got[values["service"]+values["client"]+">"+values["peer"]] += p.GetCount()
		points--
	}
	if points != 0 {
		t.Errorf("%d more points than Read says", -points)
	}
	return got, &r
}

func pointsOf(r *metrics.ExportMetricsServiceRequest) (all []*metricspb.HistogramDataPoint) {
	for _, rm := range r.GetResourceMetrics() {
		for _, sm := range rm.GetScopeMetrics() {
			for _, m := range sm.GetMetrics() {
				all = append(all, m.GetHistogram().GetDataPoints()...)
			}
		}
	}
	return all
}

func TestEncode(t *testing.T) {
	f := &fake{}
	f.add(bpf.MeasureKey{Service: 1, Role: server, Protocol: http, Outcome: 5}, false, 2_500_000_000, 0, 3, len(bpf.Measure{}.Bucket)-1)
	f.add(edge(1, 7, "192.0.2.1", 80), false, 1000, 0)
	begin := time.Unix(1000, 5)
	d := New(f, resource, nil, nil).Deltas(begin, map[string]string{"service.name": "tare-agent", "host.name": "a\xff"})
	_, r := sent(t, d, begin.Add(time.Minute))
	rm := r.GetResourceMetrics()[0]
	if kv := rm.GetResource().GetAttributes(); len(kv) != 2 || kv[0].GetValue().GetStringValue() != "a\uFFFD" || kv[1].GetValue().GetStringValue() != "tare-agent" {
		t.Errorf("resource %v", kv)
	}
	list := rm.GetScopeMetrics()[0].GetMetrics()
	if len(list) != 2 || list[0].GetName() != "tare.service.request.duration" || list[1].GetName() != "tare.edge.request.duration" || list[0].GetUnit() != "s" {
		t.Fatalf("%v", list)
	}
	h := list[0].GetHistogram()
	p := h.GetDataPoints()[0]
	if h.GetAggregationTemporality() != metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA ||
		p.GetStartTimeUnixNano() != 1000*1e9+5 || p.GetTimeUnixNano() != 1060*1e9+5 || p.GetCount() != 3 || p.GetSum() != 2.5 {
		t.Errorf("%v", p)
	}
	if c, b := p.GetBucketCounts(), p.GetExplicitBounds(); len(c) != len(b)+1 || c[0] != 1 || c[3] != 1 || c[len(c)-1] != 1 || b[0] != bound(0) || math.Abs(b[44]-34.359738368) > 1e-12 {
		t.Errorf("%v up to %v", c, b)
	}
	got := map[string]string{}
	for _, kv := range list[1].GetHistogram().GetDataPoints()[0].GetAttributes() {
		got[kv.GetKey()] = fmt.Sprint(kv.GetValue().GetStringValue(), kv.GetValue().GetBoolValue())
	}
	want := map[string]string{"client": "webfalse", "peer": "192.0.2.1:80false", "peer_traced": "false", "protocol": "httpfalse", "status_class": "2xxfalse", "error": "false"}
	if !maps.Equal(got, want) {
		t.Errorf("attributes %v, want %v", got, want)
	}
}

// Every request is sent once, whatever the receiver takes and whichever series end meanwhile.
func TestDeltas(t *testing.T) {
	f := &fake{}
	f.add(bpf.MeasureKey{Service: 1, Role: server, Outcome: 2}, false, 1, 0, 0)
	f.add(bpf.MeasureKey{Service: 2, Role: server, Outcome: 2}, false, 1, 0)
	c := New(f, resource, nil, nil)
	now := time.Unix(1, 0)
	d := c.Deltas(now, nil)
	step := func(what string, want map[string]uint64) {
		t.Helper()
		now = now.Add(time.Minute)
		if got, _ := sent(t, d, now); !maps.Equal(got, want) {
			t.Errorf("%s: sent %v, want %v", what, got, want)
		}
	}
	step("at first", map[string]uint64{"web>": 2, "store>": 1})
	step("not taken", map[string]uint64{"web>": 2, "store>": 1})
	d.Sent()
	step("nothing new", map[string]uint64{})
	f.measured[0].Bucket[3] += 4
	step("more", map[string]uint64{"web>": 4})
	f.measured[0].Bucket[3]++ // between Read and Sent
	d.Sent()
	f.measured[1].Bucket[0] += 7
	if err := c.Forget(2); err != nil { // it ends with 7 that were not sent
		t.Fatal(err)
	}
	f.add(bpf.MeasureKey{Service: 2, Role: server, Outcome: 2}, false, 1, 0) // and another begins
	step("a series ends", map[string]uint64{"web>": 1, "store>": 8})
	if err := c.Forget(1); err != nil { // a series ends between Read and Sent
		t.Fatal(err)
	}
	d.Sent()
	step("all was sent", map[string]uint64{})
	if len(c.ended) != 0 || c.dropped != 0 {
		t.Errorf("%d ended series wait, %d requests dropped", len(c.ended), c.dropped)
	}
}

// What waits for a receiver that takes nothing is bounded, and what is not sent is counted.
func TestEndedAreBounded(t *testing.T) {
	c := New(&fake{}, resource, nil, nil)
	c.Deltas(time.Unix(1, 0), nil)
	for i := range maxEnded + 3 {
		m := kernel.Measured{}
		m.Bucket[0] = 2
		c.end(labels{service: fmt.Sprint(i)}, &series{measure: m.Measure})
	}
	if len(c.ended) != maxEnded || c.dropped != 6 {
		t.Errorf("%d wait, %d requests dropped", len(c.ended), c.dropped)
	}
}
