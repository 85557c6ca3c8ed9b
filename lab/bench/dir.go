package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/lab/record"
)

// Files of a result directory.
const (
	manifestFile    = "manifest.json"
	resultsFile     = "results.jsonl"
	packedFile      = "results.jsonl.zst" // in its place, of an experiment that is packed
	interruptedFile = "interrupted.jsonl" // runs of groups (plan.go) that --resume repeats
	lockFile        = ".lock"
)

// directory is a result directory that is being written. Every run is on the
// disk before the next one begins.
type directory struct {
	Path    string
	results *os.File
	lock    *os.File
}

// createDir makes a directory for a new experiment; one that holds results
// already is refused, so that nothing is lost.
func createDir(path string, m *record.Manifest) (*directory, error) {
	if err := os.MkdirAll(path, 0o755); err != nil { //nolint:gosec // results are for all to read
		return nil, fmt.Errorf("result directory: %w", err)
	}
	// An experiment that could not begin left no results: it may be mended and
	// begun again.
	for _, name := range []string{resultsFile, packedFile} {
		if info, err := os.Stat(filepath.Join(path, name)); err == nil && info.Size() > 0 {
			return nil, fmt.Errorf("%s holds results already: go on with --resume, or choose another --out", path)
		}
	}
	d, err := openDir(path)
	if err != nil {
		return nil, err
	}
	return d, d.writeManifest(m)
}

// lockDir locks the directory against a second writer.
func lockDir(path string) (*directory, error) {
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o644) //nolint:gosec // empty
	if err != nil {
		return nil, fmt.Errorf("result directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil { //nolint:gosec // a descriptor
		return nil, errors.Join(fmt.Errorf("%s is being written by another `tare bench run`", path), lock.Close())
	}
	return &directory{Path: path, lock: lock}, nil
}

// openDir locks the directory, and opens it for runs. Records that are packed are unpacked:
// an empty file in their place would hide them.
func openDir(path string) (*directory, error) {
	d, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	if err = d.unpack(); err == nil {
		d.results, err = os.OpenFile(filepath.Join(path, resultsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // results
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *directory) close() (err error) {
	if d.results != nil {
		err = d.results.Close()
	}
	return errors.Join(err, os.Remove(d.lock.Name()), d.lock.Close())
}

func (d *directory) writeManifest(m *record.Manifest) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return record.WriteFile(filepath.Join(d.Path, manifestFile), append(b, '\n'))
}

// append writes a run down before anything else happens.
func (d *directory) append(r *record.Run) error {
	r.Shorten()
	line, err := marshalLine(r)
	if err != nil {
		return err
	}
	if _, err := d.results.Write(line); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return d.results.Sync()
}

func marshalLine(r *record.Run) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("run %s: %w", r.ID, err)
	}
	return b.Bytes(), nil
}

// keepOnly rewrites the results with the runs that satisfy keep; the others go
// to the file of interrupted ones.
func (d *directory) keepOnly(runs []record.Run, keep func(*record.Run) bool) error {
	var kept, dropped bytes.Buffer
	for i := range runs {
		line, err := marshalLine(&runs[i])
		if err != nil {
			return err
		}
		if keep(&runs[i]) {
			kept.Write(line)
		} else {
			dropped.Write(line)
		}
	}
	if dropped.Len() > 0 {
		f, err := os.OpenFile(filepath.Join(d.Path, interruptedFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // results
		if err != nil {
			return err
		}
		_, err = f.Write(dropped.Bytes())
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	path := filepath.Join(d.Path, resultsFile)
	if err := record.WriteFile(path, kept.Bytes()); err != nil {
		return err
	}
	results, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	old := d.results
	d.results = results
	return old.Close()
}

// Read reads a result directory. A last line that was cut off by a crash is left
// out; anything else that cannot be read is an error.
func Read(path string) (*record.Manifest, []record.Run, error) {
	b, err := os.ReadFile(filepath.Join(path, manifestFile))
	if err != nil {
		return nil, nil, fmt.Errorf("%s is no result directory of `tare bench run`: %w", path, err)
	}
	var head struct{ Version int }
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(path, manifestFile), err)
	}
	if head.Version != record.Version {
		return nil, nil, fmt.Errorf("%s was written in version %d of the format, this program reads version %d: use the program that wrote it", path, head.Version, record.Version)
	}
	var m record.Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(path, manifestFile), err)
	}
	if m.Experiment == nil || len(m.Experiment.Tracers) == 0 {
		return nil, nil, fmt.Errorf("%s: there is no experiment in it", filepath.Join(path, manifestFile))
	}
	runs, err := readRecords(path)
	return &m, runs, err
}

// readRecords reads the runs of a directory, packed or not. Where both are there, packing or
// unpacking was interrupted, and the plain file is whole.
func readRecords(dir string) ([]record.Run, error) {
	for _, file := range []struct {
		name string
		read func(path string) ([]record.Run, error)
	}{{resultsFile, readRuns}, {packedFile, readPacked}} {
		runs, err := file.read(filepath.Join(dir, file.name))
		if !errors.Is(err, os.ErrNotExist) {
			return runs, err
		}
	}
	return nil, nil // nothing was run yet
}

func readRuns(path string) ([]record.Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return decodeRuns(f, path)
}

// decodeRuns reads a run per line of what is called name.
func decodeRuns(r io.Reader, name string) ([]record.Run, error) {
	in := bufio.NewReaderSize(r, 1<<20)
	var runs []record.Run
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return runs, nil // a line without its end was cut off
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var r record.Run
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		runs = append(runs, r)
	}
}
