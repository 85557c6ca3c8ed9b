package tracer

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/scrape"
)

// The names of what is read from the agent's /metrics.
const (
	metricLost     = "tare_lost_total"                       // reason
	metricUnlinked = "tare_unlinked_total"                   // reason
	metricRoots    = "tare_roots_total"                      // sampled
	metricRatio    = "tare_sampling_ratio"                   // as the kernel side has it
	metricRuns     = "tare_bpf_program_runs_total"           // program
	metricRequests = "tare_service_request_duration_seconds" // service; with --metrics requests
	metricSeconds  = "tare_bpf_program_run_seconds_total"    // program
	metricExported = "tare_export_bytes_total"
)

// parseMetrics reads what a `tare agent` says of itself.
func parseMetrics(r io.Reader) (Reading, error) {
	families, err := scrape.Parse(r)
	if err != nil {
		return Reading{}, err
	}
	for _, name := range []string{metricRoots, metricRatio} {
		if families[name] == nil {
			return Reading{}, fmt.Errorf("there is no %s: is this a `tare agent`?", name)
		}
	}
	m := Reading{Lost: map[string]uint64{}, Unlinked: map[string]uint64{}, HasRoots: true, Counts: true, HasRate: true}
	m.Rate = families[metricRatio].GetMetric()[0].GetGauge().GetValue()
	roots := families.ByLabel(metricRoots, "sampled")
	m.Sampled, m.Unsampled = uint64(roots["true"]), uint64(roots["false"])
	for reason, n := range families.ByLabel(metricLost, "reason") {
		m.Lost[reason] = uint64(n)
		m.Dropped += uint64(n)
	}
	for reason, n := range families.ByLabel(metricUnlinked, "reason") {
		if n > 0 {
			m.Unlinked[reason] = uint64(n)
		}
	}
	if f := families[metricRequests]; f != nil {
		m.Measured = map[string]uint64{}
		for _, h := range f.GetMetric() {
			for _, l := range h.GetLabel() {
				if l.GetName() == "service" {
					m.Measured[l.GetValue()] += h.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	seconds := families.ByLabel(metricSeconds, "program")
	for name, runs := range families.ByLabel(metricRuns, "program") {
		p := record.Program{Name: name, Runs: uint64(runs)}
		if p.Runs > 0 {
			p.NsPerRun = seconds[name] * 1e9 / runs
		}
		m.Programs = append(m.Programs, p)
	}
	slices.SortFunc(m.Programs, func(a, b record.Program) int {
		return cmp.Or(cmp.Compare(b.Total(), a.Total()), cmp.Compare(a.Name, b.Name))
	})
	return m, nil
}
