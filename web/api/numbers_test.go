package api

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/tare-trace/tare/store"
)

func TestMapImpliesNodes(t *testing.T) {
	ms := time.Millisecond
	m := drawMap(store.Map{
		Nodes: []store.Latency{{Service: "shop", Weight: 60, Errors: 6, P50: ms, P95: 2 * ms, P99: 3 * ms}},
		Edges: []store.Edge{
			{From: "web", To: "shop", Traced: true, Count: 5, Weight: 50, P50: ms, P95: ms, P99: ms},
			{From: "shop", To: "redis", Count: 4, Weight: 40, Errors: 4, P50: ms, P95: 2 * ms, P99: 3 * ms},
			{From: "shop", To: "db", Count: 1, Weight: 10, P50: ms, P95: ms, P99: ms},
			{From: "web", To: "db", Count: 3, Weight: 30, Errors: 20, P50: ms, P95: ms, P99: ms},
		},
	}, 20, 0)
	got := map[string]node{}
	for _, n := range m.Nodes {
		if _, twice := got[n.Name]; twice {
			t.Errorf("%s is there twice", n.Name)
		}
		got[n.Name] = n
	}
	if n := got["shop"]; !n.Traced || n.Requests != 60 || n.Rate != 3 || n.ErrorRate != 0.1 || *n.P99 != int64(3*ms) {
		t.Errorf("shop: %+v", n)
	}
	if n := got["web"]; !n.Traced || n.Requests != 0 || n.P50 != nil {
		t.Errorf("web: %+v", n)
	}
	if n := got["redis"]; n.Traced || n.Requests != 40 || n.ErrorRate != 0.1 || *n.P95 != int64(2*ms) {
		t.Errorf("redis: %+v", n)
	}
	if n := got["db"]; n.Traced || n.Requests != 40 || n.Rate != 2 || n.ErrorRate != 0.5 || n.P50 != nil {
		t.Errorf("db: %+v", n)
	}
	if len(m.Edges) != 4 || m.Edges[1].Spans != 4 || m.Edges[1].Rate != 2 {
		t.Errorf("edges %+v", m.Edges)
	}
}

func TestNumbersThatAreNone(t *testing.T) {
	m := drawMap(store.Map{Nodes: []store.Latency{{Service: "a", Weight: math.NaN(), Errors: math.Inf(1)}}}, 0, 0)
	if b, err := json.Marshal(m); err != nil || m.Nodes[0].Rate != 0 || m.Nodes[0].ErrorRate != 0 {
		t.Errorf("%s, %v", b, err)
	}
}

// What was measured has rates of its own, since metrics may be younger than spans.
func TestMapOfWhatWasMeasured(t *testing.T) {
	m := drawMap(store.Map{
		Nodes: []store.Latency{{Service: "shop", Weight: 60}, {Service: "stock", Weight: 60, Measured: true}},
		Edges: []store.Edge{
			{From: "shop", To: "stock", Traced: true, Measured: true, Weight: 30},
			{From: "stock", To: "redis 192.0.2.1:6379", Measured: true, Weight: 120, Errors: 12},
		},
	}, 20, 10)
	for _, c := range []struct {
		got      node
		measured bool
		rate     float64
	}{{m.Nodes[0], false, 3}, {m.Nodes[1], true, 6}, {m.Nodes[2], true, 12}} {
		if c.got.Measured != c.measured || c.got.Rate != c.rate {
			t.Errorf("%+v, want measured %t, %v/s", c.got, c.measured, c.rate)
		}
	}
	if e := m.Edges[1]; !e.Measured || e.Rate != 12 || e.ErrorRate != 0.1 || e.Spans != 0 {
		t.Errorf("%+v", e)
	}
}
