package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The names of what is read from the agent's /metrics.
const (
	metricLost    = "tare_lost_total"                    // reason
	metricRoots   = "tare_roots_total"                   // sampled
	metricRuns    = "tare_bpf_program_runs_total"        // program
	metricSeconds = "tare_bpf_program_run_seconds_total" // program
)

// agentMetrics is what the agent says of itself.
type agentMetrics struct {
	sampled, unsampled uint64 // root decisions
	lost               map[string]uint64
	programs           []Program
}

func (a *agent) metrics(ctx context.Context) (agentMetrics, error) {
	resp, err := a.get(ctx, "/metrics")
	if err != nil {
		return agentMetrics{}, fmt.Errorf("the agent's metrics: %w", err)
	}
	m, err := parseMetrics(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return agentMetrics{}, fmt.Errorf("the agent's metrics: %w", err)
	}
	return m, nil
}

func parseMetrics(r io.Reader) (agentMetrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return agentMetrics{}, err
	}
	if families[metricRoots] == nil {
		return agentMetrics{}, fmt.Errorf("there is no %s: is this a `tare agent`?", metricRoots)
	}
	m := agentMetrics{lost: map[string]uint64{}}
	roots := byLabel(families[metricRoots], "sampled")
	m.sampled, m.unsampled = uint64(roots["true"]), uint64(roots["false"])
	for reason, n := range byLabel(families[metricLost], "reason") {
		m.lost[reason] = uint64(n)
	}
	seconds := byLabel(families[metricSeconds], "program")
	for name, runs := range byLabel(families[metricRuns], "program") {
		p := Program{Name: name, Runs: uint64(runs)}
		if p.Runs > 0 {
			p.NsPerRun = seconds[name] * 1e9 / runs
		}
		m.programs = append(m.programs, p)
	}
	slices.SortFunc(m.programs, func(a, b Program) int {
		return cmp.Or(cmp.Compare(b.total(), a.total()), cmp.Compare(a.Name, b.Name))
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
