package integration

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// `tare weigh` counts each request of each service while the hooks are timed, sampled or
// not; what is timed is at /metrics, and ends.
func TestWeigh(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	c, s := newServers(t, "backend"), newSink(t)
	c.nginx("service", "", proxyTo(loopback(c.entry), loopback(c.backend)), loopback(c.entry))
	a := trace(t, s, nil, append(c.ports, "--sampler-arg", "0.1")...)
	var weight struct {
		Seconds  float64 `json:"seconds"`
		Cores    float64 `json:"cores"`
		Sampled  float64 `json:"sampling_ratio"`
		Services []struct {
			Name       string  `json:"name"`
			Requests   float64 `json:"requests_per_second"`
			PerRequest float64 `json:"kernel_ns_per_request"`
		} `json:"services"`
	}
	weighed := func() float64 { return a.mustMetrics()["tare_weighed_seconds_total"] }
	const requests = 500
	// The load begins when the clock runs, as far as a process can tell: what was timed is told when it is over. On a
	// busy machine it may have to be tried again.
	testkit.Until(t, time.Minute, "all requests of a load are weighed", func() bool {
		began := make(chan error, 1)
		go func() {
			time.Sleep(500 * time.Millisecond)
			r, err := load.Run(t.Context(), load.Options{Addr: loopback(c.entry), Connections: 4, Requests: requests, AppendPath: numbered})
			if err == nil && r.OK != requests {
				t.Errorf("%d of %d requests answered", r.OK, requests)
			}
			began <- err
		}()
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "tare"), "weigh", "--agent", a.listen, "--for", "3s", "--json").Output()
		if lerr := <-began; lerr != nil || err != nil {
			t.Fatalf("%v, %v", lerr, err)
		}
		weight.Services = nil
		if err := json.Unmarshal(out, &weight); err != nil {
			t.Fatal(err)
		}
		for _, s := range weight.Services {
			if n := s.Requests * weight.Seconds; n < requests-0.5 || n > requests+0.5 {
				return false
			}
		}
		return len(weight.Services) == 2
	})
	for _, s := range weight.Services {
		if s.PerRequest < 50 || s.PerRequest > 1e6 {
			t.Errorf("kernel programs take %v ns for a request of %s", s.PerRequest, s.Name)
		}
	}
	if weight.Cores <= 0 || weight.Sampled < 0.099 || weight.Sampled > 0.101 {
		t.Errorf("%+v", weight)
	}
	m := a.mustMetrics()
	if m[`tare_weighed_requests_total{service="service"}`] < requests || m[`tare_weighed_kernel_seconds_total{service="backend"}`] <= 0 {
		t.Errorf("%v", m)
	}
	before := weighed()
	send(t, load.Options{Addr: loopback(c.entry), Connections: 4, Requests: requests, AppendPath: numbered})
	if n := a.mustMetrics(); weighed() < before+0.9 && n[`tare_weighed_requests_total{service="service"}`] != m[`tare_weighed_requests_total{service="service"}`] {
		t.Error("the hooks are timed still")
	}
}
