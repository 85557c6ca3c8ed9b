package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
)

// addition is a tracer that is added to an experiment.
type addition struct {
	Tracer `yaml:",inline"`
	// Like is a tracer of the experiment: where a figure, a question or a profile names
	// that one, it names this one, too.
	Like string `yaml:"like"`
}

// With adds the tracers of a file (`tracers:`, each with an optional `like:`) to the
// experiment, and checks the whole again.
func (e *Experiment) With(file string, checks ...func(*Experiment) error) error {
	b, err := os.ReadFile(file) //nolint:gosec // the user's own
	if err != nil {
		return fmt.Errorf("tracers to add: %w", err)
	}
	var more struct {
		Tracers []addition `yaml:"tracers"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(&more); err != nil {
		return fmt.Errorf("%s: %w (it has tracers, with the keys of docs/bench.md, and nothing else)", file, err)
	}
	if len(more.Tracers) == 0 {
		return fmt.Errorf("%s: tracers: there is none to add", file)
	}
	for _, a := range more.Tracers {
		if err := e.add(a); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	errs := []error{e.validate()}
	for _, check := range checks {
		errs = append(errs, check(e))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s, added to %s: %w", file, e.Name, err)
	}
	return nil
}

func (e *Experiment) add(a addition) error {
	if a.Like == "" {
		e.Tracers = append(e.Tracers, a.Tracer)
		return nil
	}
	i := slices.IndexFunc(e.Tracers, func(t Tracer) bool { return t.Name == a.Like })
	if i < 0 {
		return fmt.Errorf("tracer %s: like: %s has no tracer %q: there are %v", a.Name, e.Name, a.Like, e.tracerNames())
	}
	if len(a.Workloads) == 0 {
		a.Workloads = e.Tracers[i].Workloads
	}
	e.Tracers = append(e.Tracers, a.Tracer)
	for i := range e.Figures {
		e.Figures[i].Where.join(a)
	}
	for _, q := range e.Questions {
		for i := range q.Claims {
			q.Claims[i].Where.join(a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Profiles)) {
		p := e.Profiles[name]
		for i := range p.Cells {
			p.Cells[i].join(a)
		}
		if n, ok := p.RoundsOf[a.Like]; ok {
			p.RoundsOf[a.Name] = n
		}
	}
	return nil
}

// join makes the subset hold the tracer where it holds the one that it is like, at those
// of its rates that the other has there.
func (s *Subset) join(a addition) {
	if slices.Contains(s.Tracers, a.Like) {
		s.Tracers = append(slices.Clone(s.Tracers), a.Name)
	}
	rates, restricted := s.Rates[a.Like]
	if !restricted || len(a.Rates) == 0 {
		return
	}
	own := slices.DeleteFunc(slices.Clone(rates), func(r float64) bool { return !slices.Contains(a.Rates, r) })
	s.Rates = maps.Clone(s.Rates)
	s.Rates[a.Name] = own
}
