package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// version is of everything that this package lays out on disk. There is one
// version that is read and written; a change of the layout raises it.
const version = 1

const (
	formatFile   = "FORMAT" // says the version
	formatPrefix = "tare store "
	engineDir    = "pebble"
)

// prepare makes the directory a store's, or finds that it is one.
func prepare(dir string) error {
	// Traces may hold what not everybody may read.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	file := filepath.Join(dir, formatFile)
	found, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := makeFormat(dir); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("store: %w", err)
	default:
		text, ok := strings.CutPrefix(strings.TrimSpace(string(found)), formatPrefix)
		v, err := strconv.Atoi(text)
		if !ok || err != nil {
			return &VersionError{dir, fmt.Sprintf("a file %s that says %q", formatFile, clip(found)), version}
		}
		if v != version {
			return &VersionError{dir, fmt.Sprintf("a store of version %d", v), version}
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, engineDir), 0o700); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// makeFormat writes the version into a directory that nobody has used. A crash
// leaves either no such file or the whole of it.
func makeFormat(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	temporary := formatFile + ".new"
	for _, e := range entries {
		if e.Name() != temporary && e.Name() != "lost+found" {
			return &VersionError{dir, fmt.Sprintf("something else (%s, and no %s)", e.Name(), formatFile), version}
		}
	}
	name := filepath.Join(dir, temporary)
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	_, err = f.WriteString(formatPrefix + strconv.Itoa(version) + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := os.Rename(name, filepath.Join(dir, formatFile)); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
