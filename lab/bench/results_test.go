package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/report"
)

const committed = "../../docs/results"

// The pages in docs/results are what the records beside them say, and nothing else is there.
func TestCommittedPagesAreOfCommittedRecords(t *testing.T) {
	manifests, err := filepath.Glob(filepath.Join(committed, "*", manifestFile))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("%d experiments: %v", len(manifests), err)
	}
	for _, path := range manifests {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			m, runs, err := Read(dir)
			require.NoError(t, err)
			s, err := analysis.Analyse(m, runs)
			require.NoError(t, err)
			again := t.TempDir()
			require.NoError(t, report.WritePage(again, m, s))
			want := filesOf(t, again)
			for name, text := range filesOf(t, dir) {
				if name != manifestFile && name != packedFile && !bytes.Equal(text, want[name]) {
					t.Errorf("%s is not of these records: run tare bench pack", filepath.Join(dir, name))
				}
				delete(want, name)
			}
			for name := range want {
				t.Errorf("%s is not there: run tare bench pack", filepath.Join(dir, name))
			}
		})
	}
}

// filesOf are the files of a result directory by name, without those that git ignores.
func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "profiles":
			return filepath.SkipDir
		case d.IsDir() || d.Name() == "report.html" || d.Name() == "summary.json":
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
	require.NoError(t, err)
	return files
}

// All tables and figures are made again from what is committed.
func TestEverythingIsMadeAgainFromCommittedRecords(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "coroot")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(committed, "coroot"))))
	before := filesOf(t, dir)
	var said strings.Builder
	require.NoError(t, writeReport(dir, &said))
	for name, text := range filesOf(t, dir) {
		assert.Equal(t, before[name], text, name)
	}
	m, _, err := Read(dir)
	require.NoError(t, err)
	html, err := os.ReadFile(filepath.Join(dir, "report.html"))
	require.NoError(t, err)
	page := string(html)
	for _, q := range m.Experiment.Questions {
		if !strings.Contains(page, `id="question-`+strings.ToLower(q.ID)+`"`) || !strings.Contains(said.String(), q.ID+": "+q.Ask) {
			t.Errorf("question %s is not in the report", q.ID)
		}
	}
	for _, f := range m.Experiment.Figures {
		_, figure, _ := strings.Cut(page, `<h3 id="figure-`+strings.ToLower(f.ID)+`"`)
		if figure, _, _ = strings.Cut(figure, "</section>"); !strings.Contains(figure, "<svg") || !strings.Contains(figure, "<table>") {
			t.Errorf("figure %s and its data are not in the report", f.ID)
		}
	}
	for _, section := range []string{"cells", "noise", "cpu", "traces", "rules", "method", "own"} {
		assert.Contains(t, page, `<h2 id="`+section+`"`, "the report has no section %s", section)
	}
}
