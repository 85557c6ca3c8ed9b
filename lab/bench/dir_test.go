package bench

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/analysis/analysistest"
	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

func manifest(t *testing.T) *record.Manifest {
	t.Helper()
	e, err := experiment.Open("null")
	require.NoError(t, err)
	return &record.Manifest{Version: record.Version, Experiment: e, Profile: "smoke", Seed: 1, Machine: describe()}
}

func written(t *testing.T, runs ...string) (string, *directory) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "results")
	d, err := createDir(path, manifest(t))
	require.NoError(t, err)
	for _, id := range runs {
		require.NoError(t, d.append(&record.Run{ID: id, Values: map[string]float64{record.P99: 1.5}}))
	}
	return path, d
}

func TestDirKeepsWhatWasWritten(t *testing.T) {
	path, d := written(t, "a", "b")
	if _, err := openDir(path); err == nil || !strings.Contains(err.Error(), "another `tare bench run`") {
		t.Errorf("a second writer: %v", err)
	}
	require.NoError(t, d.close())
	// A crash within a write leaves a line without an end.
	f, err := os.OpenFile(filepath.Join(path, resultsFile), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	if _, err := f.WriteString(`{"id":"torn","val`); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, f.Close())
	m, runs, err := Read(path)
	require.NoError(t, err)
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
	require.NoError(t, err)
	require.NoError(t, d.keepOnly(runs, func(r *record.Run) bool { return r.ID != "b" }))
	require.NoError(t, d.append(&record.Run{ID: "d"}))
	require.NoError(t, d.close())
	_, runs, err = Read(path)
	require.NoError(t, err)
	var got []string
	for _, r := range runs {
		got = append(got, r.ID)
	}
	assert.Equal(t, "acd", strings.Join(got, ""))
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
	require.NoError(t, d.close())
	for content, want := range map[string]string{
		`{"version": 99}`: "version 99",
		`{"version": 1}`:  "no experiment",
		`{`:               "manifest.json",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(path, manifestFile), []byte(content), 0o600))
		if _, _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", content, err)
		}
	}
}

// What was run can be asked anew, which its manifest says.
func TestQuestionsOfALaterVersion(t *testing.T) {
	path, d := written(t, "a")
	before, _, err := Read(path)
	require.NoError(t, err)
	asked := before.Experiment.Questions
	before.Experiment.Questions, before.Experiment.Figures = nil, nil
	require.NoError(t, d.writeManifest(before))
	assert.ErrorContains(t, ask(path, "null"), "another `tare bench run`", "while it is run")
	require.NoError(t, d.close())
	assert.ErrorContains(t, ask(path, "coroot"), "cannot answer the questions of coroot", "questions of another experiment")
	require.NoError(t, ask(path, "null"))
	m, runs, err := Read(path)
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	if m.Asked == "" || m.Commit != before.Commit || len(asked) == 0 || len(m.Experiment.Questions) != len(asked) || len(m.Experiment.Figures) == 0 {
		t.Errorf("asked of %q, run of %q: %d questions, %d figures", m.Asked, m.Commit, len(m.Experiment.Questions), len(m.Experiment.Figures))
	}
	assert.ErrorContains(t, ask(t.TempDir(), "null"), "no result directory", "an empty directory")
}

// packed is a finished experiment that was packed, and what its records were before.
func packed(t *testing.T) (dir string, before []record.Run) {
	t.Helper()
	e, err := experiment.Open("null")
	require.NoError(t, err)
	m, runs, err := analysistest.Make(e, "smoke", analysistest.Model{Seed: 1, Noise: 0.03})
	require.NoError(t, err)
	dir = filepath.Join(t.TempDir(), "results")
	d, err := createDir(dir, m)
	require.NoError(t, err)
	for i := range runs {
		require.NoError(t, d.append(&runs[i]))
	}
	m.End = m.Begin.Add(time.Hour)
	require.NoError(t, d.writeManifest(m))
	assert.ErrorContains(t, pack(dir), "another `tare bench run`", "while it is run")
	require.NoError(t, d.close())
	require.NoError(t, writeReport(dir, io.Discard))
	if _, before, err = Read(dir); err != nil || len(before) == 0 {
		t.Fatalf("%d runs, %v", len(before), err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, interruptedFile), []byte("evidence"), 0o600))
	require.NoError(t, pack(dir))
	return dir, before
}

func TestPackLosesNothing(t *testing.T) {
	dir, before := packed(t)
	var names []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, d.Name())
		}
		return err
	})
	if got, want := strings.Join(names, " "), "figure-n1.svg interrupted.jsonl manifest.json report.md results.jsonl.zst"; err != nil || got != want {
		t.Errorf("files %q, want %q: %v", got, want, err)
	}
	short, err := os.ReadFile(filepath.Join(dir, "report.md"))
	require.NoError(t, err)
	// The same records make the same report; to pack it again changes nothing.
	for _, again := range []func() error{func() error { return writeReport(dir, io.Discard) }, func() error { return pack(dir) }} {
		require.NoError(t, again())
		_, runs, err := Read(dir)
		if err != nil || !reflect.DeepEqual(runs, before) {
			t.Errorf("%d runs came back as %d, or changed: %v", len(before), len(runs), err)
		}
		now, err := os.ReadFile(filepath.Join(dir, "report.md"))
		if err != nil || !bytes.Equal(now, short) {
			t.Errorf("another short page: %v\n%s", err, now)
		}
	}
	assert.NoError(t, ask(dir, "null"), "questions of a packed directory")
	if _, err := os.Stat(filepath.Join(dir, resultsFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a plain file is there again, which hides the packed one: %v", err)
	}
	if _, err := createDir(dir, manifest(t)); err == nil || !strings.Contains(err.Error(), "holds results already") {
		t.Errorf("a packed directory was taken for a new experiment: %v", err)
	}
}

// A run that goes on, goes on with what was packed.
func TestPackedRecordsAreUnpackedForMore(t *testing.T) {
	dir, before := packed(t)
	d, err := openDir(dir)
	require.NoError(t, err)
	require.NoError(t, errors.Join(d.append(&record.Run{ID: "more"}), d.close()))
	_, runs, err := Read(dir)
	if err != nil || len(runs) != len(before)+1 || !reflect.DeepEqual(runs[:len(before)], before) || runs[len(before)].ID != "more" {
		t.Errorf("%d runs, and one more, came back as %d: %v", len(before), len(runs), err)
	}
	if _, err := os.Stat(filepath.Join(dir, packedFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the packed file is still there: %v", err)
	}
}

func TestPackedRecordsThatCannotBeRead(t *testing.T) {
	dir, _ := packed(t)
	path := filepath.Join(dir, packedFile)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 0xff
	for what, content := range map[string][]byte{"cut": whole[:len(whole)/2], "changed": flipped, "no zstd": []byte("{}\n")} {
		require.NoError(t, os.WriteFile(path, content, 0o600))
		if _, _, err := Read(dir); err == nil || !strings.Contains(err.Error(), packedFile) {
			t.Errorf("%s: read: %v", what, err)
		}
		assert.Error(t, pack(dir), "%s: packed again", what)
		if d, err := openDir(dir); err == nil {
			t.Errorf("%s: opened for more runs: %v", what, d.close())
		}
		if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, content) {
			t.Errorf("%s: the file is another one: %v", what, err)
		}
	}
	if _, err := (&bounded{bytes.NewReader(whole), len(whole) - 1}).Read(make([]byte, len(whole))); err == nil {
		t.Error("read more than is allowed")
	}
}

func TestPackRefusesWhatIsNotFinished(t *testing.T) {
	dir, d := written(t, "a")
	require.NoError(t, d.close())
	assert.ErrorContains(t, pack(dir), "--resume", "an experiment that did not end")
	assert.ErrorContains(t, pack(t.TempDir()), "no result directory", "an empty directory")
	if _, runs, err := Read(dir); err != nil || len(runs) != 1 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

func FuzzReadRuns(f *testing.F) {
	f.Add([]byte(`{"id":"a","values":{"p99_ms":1}}` + "\n"))
	f.Add([]byte("{}\n{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "runs")
		require.NoError(t, os.WriteFile(path, b, 0o600))
		if runs, err := readRuns(path); err == nil && len(runs) > strings.Count(string(b), "\n") {
			t.Errorf("%d runs in %d lines", len(runs), strings.Count(string(b), "\n"))
		}
	})
}
