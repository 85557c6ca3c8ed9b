package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/tracer"
)

// follow lets the window pass, and asks the sampler for its rate meanwhile if the
// tracer wants that.
func (r *run) follow(ctx context.Context) error {
	begin := time.Now()
	every := r.job.Variant.Tracer.Follow.Std()
	if every == 0 {
		return pause(r.job.Window)(ctx)
	}
	sampling, ok := r.session.(tracer.Sampling)
	if !ok {
		return fmt.Errorf("tracer %s: follow: it has no sampler that could be asked", r.job.Variant.Tracer.Name)
	}
	for due := time.Duration(0); due < r.job.Window; due += every {
		if err := pause(time.Until(begin.Add(due)))(ctx); err != nil {
			return err
		}
		state, err := sampling.Sampler(ctx)
		if err != nil {
			return err
		}
		state.At = time.Since(begin).Seconds()
		r.rec.Sampler = append(r.rec.Sampler, state)
	}
	r.rates()
	return pause(time.Until(begin.Add(r.job.Window)))(ctx)
}

// rates sums up what the sampler said.
func (r *run) rates() {
	sum, peak := 0.0, 0.0
	for _, s := range r.rec.Sampler {
		sum, peak = sum+s.Rate, max(peak, s.Rate)
	}
	r.rec.Values[record.RateMean] = sum / float64(len(r.rec.Sampler))
	r.rec.Values[record.RatePeak] = peak
}
