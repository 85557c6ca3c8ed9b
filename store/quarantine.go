package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// While the store is opened, every file of the engine has a second name in the
// directory aside, so that the engine deletes nothing of which it is not yet proven
// that it is useless: a damaged manifest does not name all tables that hold spans.
// When the ledger shows that nothing is missing, those names are removed. Else the
// files that the engine does not use are kept in quarantine, in a directory for each
// time, from which Open and Repair read what is missing.
const (
	asideDir      = "aside"
	quarantineDir = "quarantine"
)

// ofEngine reports whether spans, or where they are, can be in a file of the name.
func ofEngine(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log") || strings.HasPrefix(name, "MANIFEST-")
}

// setAside gives the engine's files their second names; it reports whether there were none.
// Names of a time when opening was interrupted stay, in a directory of that time's.
func setAside(dir string) (empty bool, err error) {
	aside := filepath.Join(dir, asideDir, stamp())
	entries, err := os.ReadDir(filepath.Join(dir, engineDir))
	if err != nil {
		return false, fmt.Errorf("store: %w", err)
	}
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return false, fmt.Errorf("store: %w", err)
	}
	empty = true
	for _, e := range entries {
		if !ofEngine(e.Name()) {
			continue
		}
		empty = false
		from := filepath.Join(dir, engineDir, e.Name())
		if err := vfs.LinkOrCopy(vfs.Default, from, filepath.Join(aside, e.Name())); err != nil {
			return false, fmt.Errorf("store: keeping %s until the store is checked: %w", from, err)
		}
	}
	return empty, nil
}

// stamp names a directory after the time; two calls differ.
func stamp() string { return time.Now().UTC().Format("20060102T150405.000000000") }

// discardAside removes the second names: everything is where it should be.
func discardAside(dir string) error { return os.RemoveAll(filepath.Join(dir, asideDir)) }

// quarantine keeps the files that are set aside and that the engine has not, and
// returns their names, relative to dir.
func quarantine(dir string) (kept []string, err error) {
	from := filepath.Join(dir, asideDir)
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if same(path, filepath.Join(dir, engineDir, d.Name())) {
			return os.Remove(path)
		}
		to := filepath.Join(quarantineDir, filepath.Base(filepath.Dir(path)), d.Name())
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(to)), 0o700); err != nil {
			return err
		}
		kept = append(kept, to)
		return os.Rename(path, filepath.Join(dir, to))
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("store: %w", err)
	}
	return kept, discardAside(dir)
}

// same reports whether both names are of one file.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// quarantined returns the files in quarantine, relative to the directory, and their size.
func quarantined(dir string) (files []string, size int64, err error) {
	err = filepath.WalkDir(filepath.Join(dir, quarantineDir), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files, size = append(files, name), size+info.Size()
		return err
	})
	return files, size, err
}
