package experiment

import "fmt"

// Ask replaces the questions and figures of an experiment that was run by those of another
// version of it. What was run must have all that they name; if not, nothing is changed.
func (e *Experiment) Ask(of *Experiment) error {
	if e.Name != of.Name {
		return fmt.Errorf("this is an experiment %s, which cannot answer the questions of %s", e.Name, of.Name)
	}
	asked := *e
	asked.Questions, asked.Figures = of.Questions, of.Figures
	if err := asked.validate(); err != nil {
		return fmt.Errorf("what was run of %s cannot answer these questions, measure it again: %w", e.Name, err)
	}
	*e = asked
	return nil
}
