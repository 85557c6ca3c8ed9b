// Package report writes what an analysis found for people to read: report.html, which has
// everything and needs nothing but itself; report.md, a short page with a sentence for each question,
// a table and one figure, for those who come by; and summary.json for programs.
// It refuses to show a number without its interval and n, and to take anything
// from outside: no script, no font and no picture is fetched.
package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/record"
)

// Write writes the report into the directory of the results, which is made if it
// is not there: the short page with its figure, and beside it what Rest names. Each file
// appears whole or not at all; a figure of an earlier report that this one does not have is
// removed.
func Write(dir string, m *record.Manifest, s *analysis.Summary, runs []record.Run) error {
	v, err := writePage(dir, m, s)
	if err != nil {
		return err
	}
	summary, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	page, err := v.html(runs)
	if err != nil {
		return err
	}
	return errors.Join(
		record.WriteFile(filepath.Join(dir, summaryFile), append(summary, '\n')),
		record.WriteFile(filepath.Join(dir, pageFile), page))
}

const (
	summaryFile = "summary.json"
	pageFile    = "report.html"
	shortFile   = "report.md"
)

// Rest are the files of a report that are not of its short page.
func Rest() []string { return []string{summaryFile, pageFile} }

// WritePage writes the short page and its figure alone.
func WritePage(dir string, m *record.Manifest, s *analysis.Summary) error {
	_, err := writePage(dir, m, s)
	return err
}

func writePage(dir string, m *record.Manifest, s *analysis.Summary) (*view, error) {
	if m == nil || m.Experiment == nil || s == nil {
		return nil, errors.New("a report needs a manifest with its experiment and a summary")
	}
	v := newView(m, s)
	files, err := v.short(m, s)
	if err != nil {
		return nil, err
	}
	figures := filepath.Join(dir, "figures")
	if err := os.MkdirAll(figures, 0o755); err != nil {
		return nil, fmt.Errorf("figures: %w", err)
	}
	for name, content := range files {
		if err := record.WriteFile(filepath.Join(dir, name), content); err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
	}
	return v, removeOthers(figures, files)
}

// removeOthers removes figures that are not of this report, and their directory if it has none.
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
	if len(files) == 1 { // the page alone
		_ = os.Remove(figures) // which fails if somebody keeps something else there
	}
	return nil
}

// WriteFindings writes the answers with their rows, for a terminal.
func WriteFindings(w io.Writer, m *record.Manifest, s *analysis.Summary) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s; %d of %d measured runs count\n", cmp.Or(s.Title, s.Experiment), where(m), s.Runs.MeasuredKept, s.Runs.Measured)
	if s.Smoke != "" {
		fmt.Fprintf(&b, "\n%s\n", s.Smoke)
	}
	for _, a := range s.Answers {
		fmt.Fprintf(&b, "\n%s: %s\n%s\n", a.ID, a.Ask, a.Sentence())
	}
	rows, left := shortRows(s, maxRows)
	b.WriteString("\n" + analysis.TextTable(shortHead, rows))
	if left > 0 {
		fmt.Fprintf(&b, "%d more rows: %s\n", left, pageFile)
	}
	b.WriteString("\n")
	for _, n := range analysis.Footnotes {
		fmt.Fprintln(&b, strings.ReplaceAll(n, "*", ""))
	}
	b.WriteString("\n")
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	_, _ = io.WriteString(w, b.String()) // there is nobody to tell that the terminal is gone
}
