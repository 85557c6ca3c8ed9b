package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// rotatedLayout is what the name of a rotated file ends with, in UTC. Names sort by it.
const rotatedLayout = "20060102T150405.000000000Z"

// file is the file that is written, and the rotated ones beside it.
type file struct {
	config  Config
	f       *os.File    // nil: opening it failed
	info    fs.FileInfo // of f
	size    int64       // up to the end of the last whole line
	born    time.Time
	rotated atomic.Uint64
	removed atomic.Uint64
}

// open opens the file for appending.
func (w *file) open() error {
	path := w.config.Path
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: choose another path", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := w.adopt(f); err != nil {
		return errors.Join(err, f.Close())
	}
	w.f = f
	w.tidy()
	return nil
}

// adopt makes an open file the one that is written.
func (w *file) adopt(f *os.File) error {
	if err := lock(f); err != nil {
		return fmt.Errorf("%s is written by another process, or another exporter of this one: each needs a file of its own (%w)", w.config.Path, err)
	}
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	w.info, w.size, w.born = info, info.Size(), time.Now()
	if w.size == 0 {
		return nil
	}
	head := make([]byte, 256)
	n, _ := f.ReadAt(head, 0) // less where it is shorter
	w.born = firstTime(head[:n], info.ModTime())
	var last [1]byte
	if _, err := f.ReadAt(last[:], w.size-1); err != nil {
		return err
	}
	if last[0] != '\n' { // a write was interrupted
		if _, err := f.Write([]byte{'\n'}); err != nil {
			return err
		}
		w.size++
	}
	return nil
}

// firstTime is when a file's first line was written.
func firstTime(head []byte, otherwise time.Time) time.Time {
	_, rest, ok := bytes.Cut(head, []byte(`"ObservedTimestamp":"`))
	text, _, ended := bytes.Cut(rest, []byte{'"'})
	ns, err := strconv.ParseInt(string(text), 10, 64)
	if !ok || !ended || err != nil {
		return otherwise
	}
	return time.Unix(0, ns)
}

// write appends whole lines by one system call. After an error none of them is in the file.
func (w *file) write(b []byte) error {
	if w.f != nil {
		// Somebody else may have rotated it.
		if now, err := os.Lstat(w.config.Path); err != nil || !os.SameFile(now, w.info) {
			w.drop()
		}
	}
	if w.f == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	old := w.config.MaxFileAge > 0 && time.Since(w.born) > w.config.MaxFileAge
	if w.size > 0 && (old || w.size+int64(len(b)) > w.config.MaxFileBytes) {
		if err := w.rotate(); err != nil {
			return err
		}
	}
	if _, err := w.f.Write(b); err != nil {
		if cut := w.f.Truncate(w.size); cut != nil {
			w.drop() // opening it again sees to the part that was written
		}
		return err
	}
	w.size += int64(len(b))
	if w.config.Sync {
		return w.f.Sync()
	}
	return nil
}

// rotate renames the file, and begins another.
func (w *file) rotate() error {
	w.drop()
	path := w.config.Path
	if err := os.Rename(path, path+"."+time.Now().UTC().Format(rotatedLayout)); err != nil {
		return err
	}
	w.rotated.Add(1)
	return w.open()
}

// tidy removes the oldest rotated files, so that the others and a full one are within the bound. What
// cannot be removed is tried again at the next rotation.
func (w *file) tidy() {
	dir, base := filepath.Split(w.config.Path)
	if dir == "" {
		dir = "."
	}
	entries, err := os.ReadDir(dir) // sorted, and so the oldest first
	if err != nil {
		return
	}
	type old struct {
		name string
		size int64
	}
	var olds []old
	total := w.config.MaxFileBytes
	for _, e := range entries {
		at, ok := strings.CutPrefix(e.Name(), base+".")
		at = strings.TrimSuffix(at, ".gz") // of whoever compresses them
		if _, err := time.Parse(rotatedLayout, at); !ok || err != nil {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			olds = append(olds, old{filepath.Join(dir, e.Name()), info.Size()})
			total += info.Size()
		}
	}
	for _, o := range olds {
		if total <= w.config.MaxTotalBytes {
			return
		}
		if os.Remove(o.name) == nil {
			w.removed.Add(1)
			total -= o.size
		}
	}
}

// drop closes the file without a sync; closing loses nothing that was written.
func (w *file) drop() {
	if w.f != nil {
		_ = w.f.Close() // it was written, or its errors were returned
		w.f = nil
	}
}

// close syncs and closes the file.
func (w *file) close() error {
	if w.f == nil {
		return nil
	}
	err := errors.Join(w.f.Sync(), w.f.Close())
	w.f = nil
	return err
}
