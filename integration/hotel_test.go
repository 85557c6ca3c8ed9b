package integration

import (
	"maps"
	"testing"

	"github.com/tare-trace/tare/lab/record"
)

// Of every request to the mesh under load, whoever traces it inside one node has all that it can
// see: the services' own instrumentation on both pipelines, and the agent, which alone sees all
// services. Of requests that were sampled, too, though calls then name no request.
func TestBenchHotel(t *testing.T) {
	t.Parallel()
	needLong(t)
	need(t, "ip", "redis-server", "memcached", "postgres")
	m, runs := experimentOf(t, t.TempDir(), "chainscope-hotel", "smoke")
	asked, checked := m.Experiment.Profiles[m.Profile].Check, map[string]bool{}
	for _, r := range runs {
		if r.Failures > 0 {
			t.Errorf("%s: %d requests failed: %v", r.ID, r.Failures, r.Errors)
		}
		if r.Kind == record.Measured {
			if entry, mean := valueOf(t, r, record.CPUEntry), valueOf(t, r, record.CPUMean); entry <= mean || mean <= 0 {
				t.Errorf("%s: the frontend used %v µs a request, a service on average %v", r.ID, entry, mean)
			}
			continue
		}
		checked[r.Variant] = true
		covered := valueOf(t, r, record.Covered) // of few requests that were sampled, perhaps none reached the rarest service
		if agent := r.Tracer == "tare" || r.Tracer == "tare-nodes"; r.Rate == 1 && agent != (covered == 1) {
			t.Errorf("%s: %v of the services have spans", r.ID, covered)
		}
		if r.Tracer == "tare-nodes" { // a segment has room for one tag: docs/adr/0022
			continue
		}
		complete := r.Fidelity[record.FidelityComplete]
		want := map[string]int{record.FidelityComplete: complete, record.FidelityWrong: 0, record.OrphanedSpans: 0, record.SplitRequests: 0}
		if r.Variant == "tare@0.1" && r.Fidelity[record.CallsByMethod] > 0 {
			want[record.CallsByMethod] = r.Fidelity[record.CallsByMethod]
		}
		if !maps.Equal(r.Fidelity, want) || complete == 0 || r.Rate == 1 && uint64(complete) != asked {
			t.Errorf("%s: %v of %d requests that are checked", r.ID, r.Fidelity, asked)
		}
	}
	if !maps.Equal(checked, map[string]bool{"otel@1": true, "lean@1": true, "tare@0.1": true, "tare@1": true, "tare-nodes@1": true}) {
		t.Errorf("traces of %v were checked", checked)
	}
}
