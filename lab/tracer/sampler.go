package tracer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/scrape"
)

// Sampling is a session whose sampler can be asked while it runs.
type Sampling interface {
	// Sampler is the sampler's rate now and its decisions since its start.
	Sampler(ctx context.Context) (record.SamplerState, error)
}

// noSampler refuses to ask a sampler that the driver does not have.
func noSampler(t *experiment.Tracer) error {
	if t.Sampler != "" {
		return fmt.Errorf("tracer %s: sampler, follow: only the driver env has a sampler within the service that could be asked", t.Name)
	}
	return nil
}

// Sampler asks the entry: behind it, services follow its decisions. The connection
// is kept, so that asking again costs the service as little as it can.
func (s *service) Sampler(ctx context.Context) (record.SamplerState, error) {
	body, err := get(ctx, s.sampling, "http://"+s.target.Chain.Entry+s.target.Variant.Tracer.Sampler)
	if err != nil {
		return record.SamplerState{}, fmt.Errorf("asking the running sampler: %w", err)
	}
	return parseSampler(body)
}

// decisions adds what the sampler decided to a reading.
func (s *service) decisions(ctx context.Context, r *Reading) error {
	if s.target.Variant.Tracer.Sampler == "" {
		return nil
	}
	state, err := s.Sampler(ctx)
	if err != nil {
		return err
	}
	r.Sampled, r.Unsampled = state.Sampled, state.Decided-state.Sampled
	r.HasRoots, r.Expected = true, true
	return nil
}

// parseSampler reads the JSON that otel/adaptive answers with at its state's path.
func parseSampler(body []byte) (record.SamplerState, error) {
	var told struct {
		Rate      *float64 `json:"rate"`
		Decisions *struct {
			Total   uint64 `json:"total"`
			Sampled uint64 `json:"sampled"`
		} `json:"decisions"`
	}
	if err := json.Unmarshal(body, &told); err != nil {
		return record.SamplerState{}, fmt.Errorf("the sampler's state is not a JSON object: %w", err)
	}
	if told.Rate == nil || told.Decisions == nil {
		return record.SamplerState{}, errors.New("the sampler's state has no rate, or no decisions: is it that of an adaptive sampler?")
	}
	s := record.SamplerState{Rate: *told.Rate, Decided: told.Decisions.Total, Sampled: told.Decisions.Sampled}
	if !(s.Rate >= 0 && s.Rate <= 1) || s.Sampled > s.Decided {
		return record.SamplerState{}, fmt.Errorf("the sampler says that its rate is %v, and that it sampled %d of %d traces: that cannot be", s.Rate, s.Sampled, s.Decided)
	}
	return s, nil
}

// get is the body of an answer, of at most 1 MiB.
func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	from, err := scrape.Open(ctx, client, url)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(from, 1<<20))
	if err := errors.Join(err, from.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return body, nil
}
