// Package report writes what an analysis found for people to read: report.html,
// which needs nothing but itself, report.md, the figures as SVG, and summary.json.
// It refuses to show a number without its interval and n, and to take anything
// from outside: no script, no font and no picture is fetched.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// Write writes the report into the directory of the results, which is made if it
// is not there. Each file appears whole or not at all; figures of an earlier report that this
// one does not have are removed.
func Write(dir string, m *record.Manifest, s *analysis.Summary, runs []record.Run) error {
	if m == nil || m.Experiment == nil || s == nil {
		return errors.New("a report needs a manifest with its experiment and a summary")
	}
	v, err := newView(m, s, runs)
	if err != nil {
		return err
	}
	figures := filepath.Join(dir, "figures")
	if err := os.MkdirAll(figures, 0o755); err != nil {
		return fmt.Errorf("figures: %w", err)
	}
	summary, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	files := map[string][]byte{"summary.json": append(summary, '\n')}
	for _, f := range v.Figures {
		if f.svg != nil {
			files[f.File] = f.svg
		}
	}
	if files["report.html"], err = v.html(); err != nil {
		return err
	}
	files["report.md"] = v.markdown()
	for name, content := range files {
		if err := record.WriteFile(filepath.Join(dir, name), content); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return removeOthers(figures, files)
}

// removeOthers removes figures that are not of this report.
func removeOthers(figures string, files map[string][]byte) error {
	there, err := filepath.Glob(filepath.Join(figures, "*.svg"))
	if err != nil {
		return err
	}
	for _, path := range there {
		if _, ok := files[filepath.Join("figures", filepath.Base(path))]; ok {
			continue
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("figure of an earlier report: %w", err)
		}
	}
	return nil
}

// distinguishable says what the word means, once in every report that uses it.
var distinguishable = fmt.Sprintf("“Distinguishable” means statistically significant (the 95%% interval excludes no effect), greater than the noise floor, and measured in at least %d rounds. What is not distinguishable may still be there. “No control”: untraced runs have none of it, and the interval alone decides.", stats.MinSamples)

func explains(s *analysis.Summary) bool {
	return slices.ContainsFunc(s.Found, func(f string) bool { return strings.Contains(f, "distinguishable") })
}

// WriteFindings writes the answers in short, for a terminal.
func WriteFindings(w io.Writer, m *record.Manifest, s *analysis.Summary) {
	title := s.Title
	if title == "" {
		title = s.Experiment
	}
	text := fmt.Sprintf("%s\n%s; %d of %d measured runs count\n\n", title, where(m), s.Runs.MeasuredKept, s.Runs.Measured)
	if s.Smoke != "" {
		text += "  " + s.Smoke + "\n"
	}
	for _, a := range s.Answers {
		text += fmt.Sprintf("\n  %s: %s\n", a.ID, a.Ask)
		for _, says := range first(a, "").Says {
			text += "    " + says + "\n"
		}
	}
	if len(s.Answers) == 0 {
		for _, f := range s.Found {
			text += "  " + f + "\n"
		}
		if len(s.Found) == 0 {
			text += "  nothing could be compared\n"
		}
		if explains(s) {
			text += "\n" + distinguishable + "\n"
		}
	}
	if len(s.Notes) > 0 {
		text += "\n"
	}
	for _, n := range s.Notes {
		text += "  note: " + n + "\n"
	}
	_, _ = io.WriteString(w, text) // there is nobody to tell that the terminal is gone
}
