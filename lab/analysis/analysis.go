// Package analysis turns the records of an experiment into comparisons: it
// excludes runs by the experiment's rules, compares what is left within rounds,
// compares every effect with the noise floor, by which the untraced baseline
// differs from itself, and puts the result into rows of tables and the data of
// figures. It reads nothing but the records, and equal records give equal
// summaries. It refuses to compare across rounds, to compare what a rule
// excluded, and to call an effect distinguishable when the control shows one as
// large.
package analysis

import (
	"errors"
	"fmt"
	"maps"

	"github.com/tare-trace/tare/lab/record"
)

// Analyse makes the summary. It fails if the records cannot belong to the
// manifest: an unknown tracer, or two runs that count in one place. Runs that
// are missing or excluded do not make it fail: the summary says what is
// uncertain without them.
func Analyse(m *record.Manifest, runs []record.Run) (*Summary, error) {
	if m == nil || m.Experiment == nil {
		return nil, errors.New("the manifest holds no experiment: nothing says what the runs are of")
	}
	e := m.Experiment
	if len(e.Tracers) == 0 {
		return nil, fmt.Errorf("experiment %q has no tracers: the first one must be the baseline", e.Name)
	}
	if len(runs) == 0 {
		return nil, errors.New("there are no runs to analyse: run the experiment first")
	}
	if err := known(e, runs); err != nil {
		return nil, err
	}

	kept, rules, counts := applyRules(m, runs)
	a, err := index(m, runs, kept)
	if err != nil {
		return nil, err
	}
	s := &Summary{
		Version:    Version,
		Experiment: e.Name,
		Title:      e.Title,
		Profile:    m.Profile,
		Begin:      m.Begin,
		End:        m.End,
		Baseline:   a.baseline,
		Runs:       counts,
		Rules:      rules,
		LeftOut:    maps.Clone(m.LeftOut),
		NotOffered: maps.Clone(m.NotOffered),
	}
	s.Cells = a.compareCells()
	a.cells = s.Cells
	s.Fidelity = fidelities(a)
	s.Planted = plantedIn(a)
	s.CPU = cpuProfiles(a)
	s.Programs = programCosts(a)
	s.Answers = a.answers(s)
	if s.Figures, err = a.figures(s); err != nil {
		return nil, err
	}
	s.Overheads = own(a)
	s.Smoke = smoke(s)
	s.Notes = notes(m, s)
	return s, nil
}
