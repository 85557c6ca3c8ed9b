package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	root = "../.."
	// maxResults bounds docs/results, in bytes: everybody who clones the repository has it.
	maxResults = 2_000_000
	maxLines   = 60 // of the short page of an experiment
)

var relative = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)

func TestRelativeLinksPointToFiles(t *testing.T) {
	var documents []string
	for _, pattern := range []string{"*.md", "otel/*.md", "docs/*.md", "docs/adr/*.md", "docs/results/*.md", "docs/results/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		documents = append(documents, found...)
	}
	links := 0
	for _, document := range documents {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, link := range relative.FindAllSubmatch(text, -1) {
			target := string(link[1])
			if strings.Contains(target, ":") { // of another site
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links to %s, which is not there", document, target)
			}
		}
	}
	assert.GreaterOrEqual(t, links, 100, "links in %d documents: this test finds too few", len(documents))
}

func TestResultsStaySmall(t *testing.T) {
	total := int64(0)
	err := filepath.WalkDir(filepath.Join(root, "docs", "results"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch d.Name() {
		case "profiles":
			return fs.SkipDir // not in git, nor are those below
		case "report.html", "summary.json":
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		total += info.Size() // of directories, too, as du counts
		if d.Name() != "report.md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if lines := bytes.Count(text, []byte("\n")); lines > maxLines {
			t.Errorf("%s has %d lines, more than %d", path, lines, maxLines)
		}
		return err
	})
	require.NoError(t, err)
	if total > maxResults {
		t.Errorf("docs/results has %d bytes, more than %d: tare bench pack compresses the records of an experiment", total, maxResults)
	}
}
