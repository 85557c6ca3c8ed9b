package integration

import (
	"fmt"
	"math"
	"testing"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
)

// The sampling rate follows a budget while the load rises and falls by ten; each trace says
// by which threshold it was sampled, and scaled by that their number is the requests'.
func TestBudget(t *testing.T) {
	alone(t, "the CPU time that the agent may take is counted")
	need(t, "nginx")
	c, s := newServers(t, "backend"), newSink(t)
	c.nginx("service", "", proxyTo(loopback(c.entry), loopback(c.backend)), loopback(c.entry))
	// Below a floor of 1% a rate may last for thousands of requests of which none is sampled, and the variance below,
	// which is the sampled ones', lacks it.
	const floor = 0.01
	a := trace(t, s, nil, append(c.ports, "--budget", "4%", "--budget-floor", fmt.Sprint(floor))...)
	requests := 0
	for i, phase := range []struct {
		rate     float64
		requests int
	}{{400, 1600}, {4000, 12000}, {400, 1600}} {
		r, err := load.Run(t.Context(), load.Options{
			Addr: loopback(c.entry), Connections: 16, Rate: phase.rate, Requests: uint64(phase.requests),
			First: uint64(i) * 100_000, AppendPath: numbered,
		})
		if err != nil || int(r.OK) != phase.requests {
			t.Fatalf("%d of %d requests answered, %v", r.OK, phase.requests, err)
		}
		requests += phase.requests
	}
	m := a.settle()
	spans := s.all()
	wantNoErrors(t, spans)
	wantComplete(t, judge(t, spans, serve("service", "/n/", call("service", "/n/", serve("backend", "/n/")))), m, m.sampled(), 0.999)
	wantRoots(t, m, m.sampled()+m.unsampled(), requests)

	rates := map[float64]int{}
	estimate, variance := 0.0, 0.0
	for i := range spans {
		if spans[i].Parent != (span.ID{}) || spans[i].Resource.Service != "service" {
			continue
		}
		th, ok := thresholdOf(spans[i].TraceState)
		if !ok {
			t.Fatalf("no threshold in the tracestate %q", spans[i].TraceState)
		}
		p := 1 - float64(th)/(1<<56)
		rates[p]++
		estimate += 1 / p
		variance += (1 - p) / (p * p)
	}
	if len(rates) < 4 {
		t.Errorf("the rate did not follow: %v", rates)
	}
	if d := math.Abs(estimate - float64(requests)); d > 6*math.Sqrt(variance) {
		t.Errorf("%v requests by the traces' thresholds, of %d: %v standard deviations", estimate, requests, d/math.Sqrt(variance))
	}
	t.Logf("%.0f ± %.0f requests by the traces' thresholds, of %d; traces by rate: %v", estimate, math.Sqrt(variance), requests, rates)
	if m["tare_budget_cores"] <= 0 || m["tare_budget_spent_cores"] <= 0 || m["tare_sampling_ratio"] < floor*0.999 {
		t.Errorf("%v", m)
	}
}
