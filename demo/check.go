package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/lab/meter"
	"github.com/tare-trace/tare/span"
)

const (
	fidelityStep = "fidelity run"
	classifyStep = "comparing traces with the ground truth"
)

// check runs the requests whose traces are held against the ground truth,
// fills in the result, and returns one trace to show, if there is one.
func (st *stage) check(ctx context.Context, r *Result) ([]span.Span, error) {
	st.progress.begin(fidelityStep)
	st.sink.keep(true)
	metrics, err := st.fidelityRun(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fidelityStep, err)
	}
	st.progress.begin(classifyStep)
	spans, err := st.sink.spans(fidelity.Keys())
	if err != nil {
		return nil, err
	}
	shape, err := fidelity.ShapeOf(st.opts.Chain)
	if err != nil {
		return nil, err
	}
	report := fidelity.Classify(spans, shape)
	if err := r.fidelity(report, metrics); err != nil {
		return nil, err
	}
	id, ok := typical(spans, report.CompleteIDs)
	if !ok {
		return nil, nil
	}
	return st.sink.trace(id)
}

// fidelityRun drives the load under an agent that also times its programs.
func (st *stage) fidelityRun(ctx context.Context, r *Result) (m agentMetrics, err error) {
	a, err := startAgent(ctx, st, "--bpf-stats")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	g, err := st.load(ctx, load.Options{
		Requests: st.opts.Requests,
		Progress: func(ok, failed uint64) {
			st.progress.fraction(float64(ok+failed) / float64(st.opts.Requests))
			if p, err := meter.ReadProcess(a.process.PID()); err == nil { // else alive tells, below
				r.Agent.remember(ok+failed, p)
			}
		},
	})
	if err != nil {
		return m, err
	}
	res, err := g.Wait()
	st.next = res.Next
	if err != nil {
		return m, err
	}
	r.Requests, r.Failed = res.OK+res.Failed, res.Failed
	for _, reason := range sortedKeys(res.Errors) {
		r.warn("%d requests failed: %s", res.Errors[reason], reason)
	}
	// The agent exports in batches; what it holds when it is told to stop is
	// still sent, but its counters are gone by then.
	if err := st.sink.quiet(ctx, 2*time.Second, agentReady); err != nil {
		return m, err
	}
	if err := a.alive(); err != nil {
		return m, err
	}
	return a.metrics(ctx)
}

// remember notes the agent's memory, as often as progress is reported.
func (c *AgentCost) remember(requests uint64, p meter.Process) {
	const mib = 1 << 20
	c.PeakRSS = max(c.PeakRSS, float64(p.PeakRSS)/mib)
	if n := len(c.Memory); n > 0 && c.Memory[n-1].Requests == requests {
		return
	}
	c.Memory = append(c.Memory, MemoryPoint{Requests: requests, RSS: float64(p.RSS) / mib})
}

// fidelity fills in what came of the fidelity run.
func (r *Result) fidelity(report fidelity.Report, m agentMetrics) error {
	if m.sampled > math.MaxInt32 {
		return fmt.Errorf("the agent counted %d sampled requests of %d", m.sampled, r.Requests)
	}
	if roots := m.sampled + m.unsampled; roots != r.Requests {
		r.warn("the agent took %d root decisions on %d requests", roots, r.Requests)
	}
	if traces := uint64(report.Traces); traces > m.sampled {
		r.warn("%d traces came of %d sampled requests", traces, m.sampled)
	}
	report.Expect(int(m.sampled))
	r.Sampled = m.sampled
	r.Complete, r.Wrong, r.Orphaned = report.Complete, report.Wrong, report.Orphaned
	r.Incomplete, r.IncompleteBy = report.IncompleteTotal(), report.Incomplete
	r.Split = report.Split
	r.Lost, r.Programs = m.lost, m.programs
	if len(m.programs) == 0 {
		r.warn("the agent reported no time of its kernel programs")
	}
	return nil
}

// typical is the trace whose root took the median time.
func typical(spans []span.Span, ids []span.TraceID) (span.TraceID, bool) {
	if len(ids) == 0 {
		return span.TraceID{}, false
	}
	wanted := make(map[span.TraceID]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	var roots []*span.Span
	for i := range spans {
		if s := &spans[i]; s.Parent.IsZero() && wanted[s.TraceID] {
			roots = append(roots, s)
		}
	}
	if len(roots) == 0 {
		return span.TraceID{}, false
	}
	slices.SortFunc(roots, func(a, b *span.Span) int { return cmp.Compare(a.Duration(), b.Duration()) })
	return roots[len(roots)/2].TraceID, true
}
