package bench

import (
	"context"
	"math"
	"time"

	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/span"
)

// countSpans looks at the spans, when all have arrived.
func (r *run) countSpans(context.Context) error {
	v, requests := r.rec.Values, float64(r.total.OK+r.total.Failed)
	if r.reading.Counts {
		v[record.SpansDropped] = float64(r.reading.Dropped)
	}
	if r.reading.HasRate {
		v[record.SampledAsked] = r.reading.Rate
	}
	if roots := float64(r.reading.Sampled + r.reading.Unsampled); roots > 0 {
		if r.reading.Expected {
			v[record.SampledDecided] = float64(r.reading.Sampled) / requests
		} else {
			v[record.SampledShare] = float64(r.reading.Sampled) / roots
		}
	}
	if r.job.Kind == record.Checked && len(r.rec.Programs) > 0 {
		var ns float64
		for _, p := range r.rec.Programs {
			ns += p.Total()
		}
		v[record.KernelPrograms] = ns / 1e3 / requests
	}
	if r.behind != nil {
		if bytes, known := r.behind.Stored(); known {
			v[record.StoreRate] = bytes / 1e6 / r.underWay.Hours()
		}
	}
	if m := r.reading.Measured; m != nil {
		v[record.MeasuredShare] = float64(m[r.chain.Services[0].Name]) / requests
	}
	if !r.kept {
		return nil
	}
	slow, slowRequests := r.slow()
	tally, err := r.stage.sink.CountSlow(slow)
	if err != nil {
		return err
	}
	if r.behind != nil {
		if err := r.behind.Arrived(tally.Spans, r.rec.ReadBack); err != nil {
			return err
		}
	}
	v[record.SpansReceived] = float64(tally.Spans) / r.underWay.Seconds()
	v[record.SpansPerRequest] = float64(tally.Spans) / requests
	if _, known := v[record.SampledShare]; !known {
		traces := tally.Entries
		if traces == 0 {
			traces = tally.Rooted // a service whose spans are of no server's kind
		}
		v[record.SampledShare] = float64(traces) / requests
	}
	if r.total.Failed > 0 {
		v[record.FailedTraced] = float64(tally.FailedEntries) / float64(r.total.Failed)
	}
	if slowRequests > 0 {
		v[record.SlowTraced] = float64(tally.SlowEntries) / float64(slowRequests)
	}
	if r.chain.Planted {
		if err := r.countPlanted(requests); err != nil {
			return err
		}
	}
	r.rec.Fidelity = map[string]int{}
	if r.numbered() {
		truth := r.chain.Truth
		facts := r.tracer.Facts(r.job.Variant.Tracer)
		if facts.Within {
			truth = truth.Within()
		}
		classify := fidelity.Classify
		if facts.CallsByMethod && r.reading.HasRate && r.reading.Rate < 1 {
			classify = fidelity.ClassifyByMethod
		}
		return r.classify(truth, classify)
	}
	trees, err := r.stage.sink.Trees(r.job.Workload.Spans)
	if err != nil {
		return err
	}
	if due := r.dueSpans(v[record.SampledShare] * requests); due > 0 {
		v[record.SpansShare] = float64(trees.Of(r.job.Workload.Spans)) / due
	}
	r.rec.Fidelity[record.FidelityComplete] = trees.Complete
	for reason, n := range trees.Incomplete {
		r.rec.Fidelity[reason] = n
	}
	if trees.Traces > 0 {
		v[record.Complete] = float64(trees.Complete) / float64(trees.Traces)
	}
	return nil
}

// dueSpans is how many spans the sampled traces must have; arrived are the traces whose root
// arrived, which is all that is known of an SDK whose sampler counts nothing.
func (r *run) dueSpans(arrived float64) float64 {
	traces := arrived
	if r.reading.HasRoots || r.reading.Expected {
		traces = float64(r.reading.Sampled) / float64(r.job.Variant.Tracer.RootsOfARequest())
	}
	return traces * float64(r.job.Workload.Spans)
}

// slow is from which duration on a request is slow, and how many there were in the whole
// run, as the service counted them: a request that waited in the laboratory is not slow.
func (r *run) slow() (limit time.Duration, requests uint64) {
	if r.job.Workload.Slow == 0 {
		return 0, 0
	}
	seconds, requests, ok := r.server.Above(r.job.Workload.Slow.Std().Seconds())
	if !ok { // no request is known to be slow
		return 0, 0
	}
	return time.Duration(seconds * float64(time.Second)), requests
}

// classify compares the traces with the numbers that the requests carry.
func (r *run) classify(truth fidelity.Truth, classify func([]span.Span, fidelity.Truth) fidelity.Report) error {
	spans, err := r.stage.sink.Spans(fidelity.Keys())
	if err != nil {
		return err
	}
	// The laboratory's own requests to the services, before and after, are traced as well.
	spans = fidelity.Between(spans, r.first, uint64(r.counting.UnixNano()), uint64(r.counted.UnixNano())) //nolint:gosec // after 1970
	report := classify(spans, truth)
	if sampled := (r.reading.Sampled - r.before) / uint64(r.job.Variant.Tracer.RootsOfARequest()); sampled > 0 && sampled < math.MaxInt32 {
		report.Expect(int(sampled))
	}
	f := r.rec.Fidelity
	f[record.FidelityComplete], f[record.FidelityWrong] = report.Complete, report.Wrong
	f[record.OrphanedSpans], f[record.SplitRequests] = report.Orphaned, report.Split
	if report.ByMethod > 0 {
		f[record.CallsByMethod] = report.ByMethod
	}
	for where, n := range report.Unlinked {
		f[where] = n
	}
	for reason, n := range report.Incomplete {
		f[reason] = n
	}
	r.rec.Values[record.Wrong] = float64(report.Wrong)
	if l := fidelity.CountLinks(spans, truth); l.Calls > 0 {
		r.rec.Links = &record.Links{Calls: l.Calls, Linked: l.Linked, Wrong: l.Wrong}
		r.rec.Values[record.LinkedShare] = float64(l.Linked) / float64(l.Calls)
		r.rec.Values[record.UnlinkedShare] = float64(l.Calls-l.Linked-l.Wrong) / float64(l.Calls)
		r.rec.Values[record.WrongCalls] = float64(l.Wrong)
	}
	if report.Traces > 0 {
		r.rec.Values[record.Complete] = float64(report.Complete) / float64(report.Traces)
	}
	if report.Spans > 0 {
		r.rec.Values[record.Covered] = covered(r.names(), spans)
	}
	if r.job.Inspect != nil {
		return r.job.Inspect(spans, report)
	}
	return nil
}

// covered is the share of the services that have a span.
func covered(names []string, spans []span.Span) float64 {
	seen := map[string]bool{}
	for i := range spans {
		if res := spans[i].Resource; res != nil {
			seen[res.Service] = true
		}
	}
	n := 0
	for _, name := range names {
		if seen[name] {
			n++
		}
	}
	return float64(n) / float64(len(names))
}
