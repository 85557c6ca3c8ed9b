package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

func manifest(t *testing.T) *record.Manifest {
	t.Helper()
	e, err := experiment.Open("null")
	if err != nil {
		t.Fatal(err)
	}
	return &record.Manifest{Version: record.Version, Experiment: e, Profile: "smoke", Seed: 1, Machine: describe()}
}

func written(t *testing.T, runs ...string) (string, *directory) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "results")
	d, err := createDir(path, manifest(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range runs {
		if err := d.append(&record.Run{ID: id, Values: map[string]float64{record.P99: 1.5}}); err != nil {
			t.Fatal(err)
		}
	}
	return path, d
}

func TestDirKeepsWhatWasWritten(t *testing.T) {
	path, d := written(t, "a", "b")
	if _, err := openDir(path); err == nil || !strings.Contains(err.Error(), "another `tare bench run`") {
		t.Errorf("a second writer: %v", err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	// A crash within a write leaves a line without an end.
	f, err := os.OpenFile(filepath.Join(path, resultsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"id":"torn","val`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	m, runs, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if m.Experiment.Name != "null" || m.Experiment.Profiles["quick"].Window.Std().Seconds() != 3 {
		t.Errorf("the experiment came back as %+v", m.Experiment)
	}
	if len(runs) != 2 || runs[1].ID != "b" || runs[1].Values[record.P99] != 1.5 {
		t.Errorf("runs came back as %+v", runs)
	}
	if _, err := createDir(path, m); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a directory with results was taken for a new experiment: %v", err)
	}
}

func TestInterruptedRunsAreKeptApart(t *testing.T) {
	path, d := written(t, "a", "b", "c")
	_, runs, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.keepOnly(runs, func(r *record.Run) bool { return r.ID != "b" }); err != nil {
		t.Fatal(err)
	}
	if err := d.append(&record.Run{ID: "d"}); err != nil {
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	_, runs, err = Read(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range runs {
		got = append(got, r.ID)
	}
	if strings.Join(got, "") != "acd" {
		t.Errorf("results hold %v", got)
	}
	cut, err := readRuns(filepath.Join(path, interruptedFile))
	if err != nil || len(cut) != 1 || cut[0].ID != "b" {
		t.Errorf("interrupted runs: %+v, %v", cut, err)
	}
}

func TestReadRefusesWhatIsNotItsOwn(t *testing.T) {
	if _, _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no result directory") {
		t.Errorf("an empty directory: %v", err)
	}
	path, d := written(t)
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{
		`{"version": 99}`: "version 99",
		`{"version": 1}`:  "no experiment",
		`{`:               "manifest.json",
	} {
		if err := os.WriteFile(filepath.Join(path, manifestFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", content, err)
		}
	}
}

// What was run can be asked anew, which its manifest says.
func TestQuestionsOfALaterVersion(t *testing.T) {
	path, d := written(t, "a")
	before, _, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	asked := before.Experiment.Questions
	before.Experiment.Questions, before.Experiment.Figures = nil, nil
	if err := d.writeManifest(before); err != nil {
		t.Fatal(err)
	}
	if err := ask(path, "null"); err == nil || !strings.Contains(err.Error(), "another `tare bench run`") {
		t.Errorf("while it is run: %v", err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	if err := ask(path, "coroot"); err == nil || !strings.Contains(err.Error(), "cannot answer the questions of coroot") {
		t.Errorf("questions of another experiment: %v", err)
	}
	if err := ask(path, "null"); err != nil {
		t.Fatal(err)
	}
	m, runs, err := Read(path)
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	if m.Asked == "" || m.Commit != before.Commit || len(asked) == 0 || len(m.Experiment.Questions) != len(asked) || len(m.Experiment.Figures) == 0 {
		t.Errorf("asked of %q, run of %q: %d questions, %d figures", m.Asked, m.Commit, len(m.Experiment.Questions), len(m.Experiment.Figures))
	}
	if err := ask(t.TempDir(), "null"); err == nil || !strings.Contains(err.Error(), "no result directory") {
		t.Errorf("an empty directory: %v", err)
	}
}

func FuzzReadRuns(f *testing.F) {
	f.Add([]byte(`{"id":"a","values":{"p99_ms":1}}` + "\n"))
	f.Add([]byte("{}\n{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "runs")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if runs, err := readRuns(path); err == nil && len(runs) > strings.Count(string(b), "\n") {
			t.Errorf("%d runs in %d lines", len(runs), strings.Count(string(b), "\n"))
		}
	})
}
