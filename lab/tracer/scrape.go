package tracer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tare-trace/tare/lab/record"
)

// The names of what is read from the agent's /metrics.
const (
	metricLost     = "tare_lost_total"                    // reason
	metricUnlinked = "tare_unlinked_total"                // reason
	metricRoots    = "tare_roots_total"                   // sampled
	metricRatio    = "tare_sampling_ratio"                // as the kernel side has it
	metricRuns     = "tare_bpf_program_runs_total"        // program
	metricSeconds  = "tare_bpf_program_run_seconds_total" // program
)

// scrape reads a Prometheus endpoint.
func scrape(ctx context.Context, client *http.Client, url string) (map[string]*dto.MetricFamily, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	families, err := parseFamilies(resp.Body)
	return families, errors.Join(err, resp.Body.Close())
}

func parseFamilies(r io.Reader) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(r)
}

// parseMetrics reads what a `tare agent` says of itself.
func parseMetrics(r io.Reader) (Reading, error) {
	families, err := parseFamilies(r)
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
	roots := byLabel(families[metricRoots], "sampled")
	m.Sampled, m.Unsampled = uint64(roots["true"]), uint64(roots["false"])
	for reason, n := range byLabel(families[metricLost], "reason") {
		m.Lost[reason] = uint64(n)
		m.Dropped += uint64(n)
	}
	for reason, n := range byLabel(families[metricUnlinked], "reason") {
		if n > 0 {
			m.Unlinked[reason] = uint64(n)
		}
	}
	seconds := byLabel(families[metricSeconds], "program")
	for name, runs := range byLabel(families[metricRuns], "program") {
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

// byLabel sums the values of a family by the value of one label.
func byLabel(family *dto.MetricFamily, label string) map[string]float64 {
	values := map[string]float64{}
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label {
				values[l.GetValue()] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
			}
		}
	}
	return values
}

// total sums a family over all labels.
func total(family *dto.MetricFamily) (sum float64) {
	for _, m := range family.GetMetric() {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
	}
	return sum
}
