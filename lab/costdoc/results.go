package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/record"
)

// resultsIndex writes the page that lists every report under a directory of results: the answers of each, and of which
// commit, when and by which command they were measured.
func resultsIndex(dir, doc string) error {
	manifests, err := filepath.Glob(filepath.Join(dir, "*", "manifest.json"))
	if err != nil {
		return err
	}
	if len(manifests) == 0 {
		return fmt.Errorf("no results in %s: make results measures them", dir)
	}
	slices.Sort(manifests)
	var table, answers strings.Builder
	for _, file := range manifests {
		name := filepath.Base(filepath.Dir(file))
		m, s, err := read(filepath.Dir(file))
		if err != nil {
			return err
		}
		report := name + "/report.md"
		title := s.Title
		if m.Profile != "quick" { // one experiment has a report of each profile that was measured
			title += ", profile " + m.Profile
		}
		fmt.Fprintf(&table, "| [%s](%s) | %s | %s | %s | `tare bench run %s --profile %s` |\n",
			name, report, title, m.End.UTC().Format("2006-01-02"), commitOf(m), m.Experiment.Name, m.Profile)
		fmt.Fprintf(&answers, "\n### [%s](%s)\n", title, report)
		if s.Smoke != "" {
			fmt.Fprintf(&answers, "%s\n\n", s.Smoke)
		}
		for _, a := range s.Answers {
			fmt.Fprintf(&answers, "- **%s** %s\n", a.Ask, a.Sentence())
		}
	}
	if _, err := os.Stat(doc); err != nil {
		return err
	}
	return replace(doc, "results-report", "| report | what | measured | commit | command |\n|---|---|---|---|---|\n"+table.String()+"\n## The answers\n"+answers.String())
}

func commitOf(m *record.Manifest) string {
	if m.Commit == "" {
		return "unknown"
	}
	return m.Commit
}
