package adaptive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tare-trace/tare/otel/rule"
)

// maxFile is the size in bytes above which a file or a request's body is not
// looked into.
const maxFile = 64 << 10

// request is an incident as it is written, in a file or in a request's body.
type request struct {
	Rate     *float64   `json:"rate"`
	Duration string     `json:"duration"`
	Until    *time.Time `json:"until"`
	Reason   string     `json:"reason"`
}

// parseIncident reads a JSON object. from is what a duration counts from.
// Without until and duration the incident has no end: the caller decides
// whether that will do.
func parseIncident(text []byte, from time.Time) (Incident, error) {
	var q request
	if err := rule.DecodeStrict(text, &q); err != nil {
		return Incident{}, fmt.Errorf(`want JSON such as {"rate":0.5,"duration":"15m","reason":"..."}: %w`, err)
	}
	if q.Duration != "" && q.Until != nil {
		return Incident{}, errors.New("duration and until contradict each other: give one")
	}
	i := Incident{Rate: 1, Reason: strings.ToValidUTF8(q.Reason, "\uFFFD")}
	if q.Rate != nil {
		i.Rate = *q.Rate
	}
	length := maxIncident
	switch {
	case q.Duration != "":
		d, err := time.ParseDuration(q.Duration)
		if err != nil {
			return Incident{}, fmt.Errorf("duration: %w", err)
		}
		length = d
		i.Until = from.Add(d)
	case q.Until != nil:
		i.Until = *q.Until
		if y := i.Until.Year(); y < 1970 || y > 9999 {
			return Incident{}, fmt.Errorf("until is %v, want a time from 1970 on", i.Until)
		}
		length = max(i.Until.Sub(from), 1) // the past is over, not wrong
	}
	return i, checkIncident(i.Rate, length, i.Reason)
}

// fileWatch sees changes by the file's metadata. Polling works on every file
// system, also where a directory is swapped under the name, as Kubernetes does
// with ConfigMaps.
type fileWatch struct {
	path string

	mu   sync.Mutex
	seen fs.FileInfo // nil: not there
	err  string      // of the last look, so that an error is news once
}

// fileNews is what changed since the last look.
type fileNews struct {
	changed  bool
	incident *Incident // nil: the file is not there
	err      error
}

func (w *fileWatch) look() fileNews {
	w.mu.Lock()
	defer w.mu.Unlock()
	info, err := os.Stat(w.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		changed := w.seen != nil || w.err != ""
		w.seen, w.err = nil, ""
		return fileNews{changed: changed}
	case err != nil:
		return w.fail(err)
	}
	if w.seen != nil && w.err == "" && os.SameFile(w.seen, info) && w.seen.ModTime().Equal(info.ModTime()) && w.seen.Size() == info.Size() {
		return fileNews{}
	}
	i, err := readIncident(w.path, info)
	if err != nil {
		w.seen = info
		return w.fail(err)
	}
	w.seen, w.err = info, ""
	return fileNews{changed: true, incident: &i}
}

func (w *fileWatch) fail(err error) fileNews {
	err = fmt.Errorf("incident file: %w", err)
	if w.err == err.Error() {
		return fileNews{}
	}
	w.err = err.Error()
	return fileNews{changed: true, err: err}
}

func readIncident(path string, info fs.FileInfo) (Incident, error) {
	if !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		return Incident{}, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return Incident{}, err
	}
	defer func() { _ = f.Close() }() // what was read is read by then
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Incident{}, err
	}
	i, err := parseFile(text, info.ModTime())
	if err != nil {
		return Incident{}, fmt.Errorf("%s: %w", path, err)
	}
	return i, nil
}

// parseFile reads a file's content: none means rate 1 while the file exists. A
// duration counts from the time when the file was written.
func parseFile(text []byte, written time.Time) (Incident, error) {
	if len(text) > maxFile {
		return Incident{}, fmt.Errorf("longer than %d bytes", maxFile)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return Incident{Rate: 1, Source: "file"}, nil
	}
	i, err := parseIncident(text, written)
	i.Source = "file"
	return i, err
}
