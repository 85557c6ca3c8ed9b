package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/meter"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/tracer"
	"github.com/tare-trace/tare/span"
)

const fidelityStep = "fidelity run"

// check runs the requests whose traces are held against the ground truth,
// fills in the result, and returns one trace to show, if there is one.
func (st *stage) check(ctx context.Context, r *Result) (example []span.Span, err error) {
	st.progress.Begin(fidelityStep)
	j := st.job(record.Checked, true)
	j.Requests, j.Keep = st.opts.Requests, true
	st.lab.Progress = func(done float64, s tracer.Session) {
		st.progress.Fraction(done)
		r.Agent.remember(uint64(done*float64(st.opts.Requests)), s.PIDs())
	}
	defer func() { st.lab.Progress = nil }()
	j.Inspect = func(spans []span.Span, report fidelity.Report) error {
		r.classified(report)
		id, ok := typical(spans, report.CompleteIDs)
		if ok {
			example, err = st.lab.Sink().Trace(id)
		}
		return err
	}
	var rec record.Run
	if err := st.lab.Run(ctx, j, &rec); err != nil {
		return nil, fmt.Errorf("%s: %w", fidelityStep, err)
	}
	r.fidelity(&rec)
	return example, nil
}

// classified fills in what became of the traces.
func (r *Result) classified(report fidelity.Report) {
	r.Complete, r.Wrong, r.Orphaned = report.Complete, report.Wrong, report.Orphaned
	r.Incomplete, r.IncompleteBy, r.Split = report.IncompleteTotal(), report.Incomplete, report.Split
	r.Unlinked, r.UnlinkedBy = report.UnlinkedTotal(), report.Unlinked
}

// fidelity fills in what came of the fidelity run besides its traces.
func (r *Result) fidelity(rec *record.Run) {
	r.Requests, r.Failed = rec.Requests, rec.Failures
	if n := rec.Fidelity[record.CallsByMethod]; n > 0 {
		r.warn("in %d of the complete traces a gRPC call names its method and not its request, as not all requests were sampled", n)
	}
	for _, reason := range sortedKeys(rec.Errors) {
		r.warn("%d requests failed: %s", rec.Errors[reason], reason)
	}
	if roots := rec.Decisions.Sampled + rec.Decisions.Unsampled; roots != r.Requests {
		r.warn("the agent took %d root decisions on %d requests: where it does not find out which request caused a service's call, the call begins a trace of its own", roots, r.Requests)
	}
	if traces := r.Complete + r.Unlinked + r.Incomplete + r.Wrong; traces > int(rec.Decisions.Sampled) { //nolint:gosec // a count
		r.warn("%d traces came of %d sampled requests", traces, rec.Decisions.Sampled)
	}
	r.Sampled, r.Lost = rec.Decisions.Sampled, rec.Lost
	r.Programs = slices.Clone(rec.Programs)
	if len(r.Programs) == 0 {
		r.warn("the agent reported no time of its kernel programs")
	}
}

// remember notes the agent's memory, as often as progress is reported.
func (c *AgentCost) remember(requests uint64, pids []int) {
	const mib = 1 << 20
	for _, pid := range pids {
		p, err := meter.ReadProcess(pid)
		if err != nil {
			continue // it has ended: the run's own error tells
		}
		c.PeakRSS = max(c.PeakRSS, float64(p.PeakRSS)/mib)
		if n := len(c.Memory); n == 0 || c.Memory[n-1].Requests != requests {
			c.Memory = append(c.Memory, MemoryPoint{Requests: requests, RSS: float64(p.RSS) / mib})
		}
	}
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
