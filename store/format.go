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

// version is of everything that this package lays out on disk; a change of the
// layout raises it. A store of version 1 has no ledger: it gets one when it is opened,
// and is of version 2 then.
const (
	version       = 2
	withoutLedger = 1
)

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
	if err := refuseShared(dir); err != nil {
		return err
	}
	if err := refuseSpecial(dir); err != nil {
		return err
	}
	_, err := checkFormat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = makeFormat(dir)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, engineDir), 0o700); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// checkFormat returns the version of the store in the directory, if it can be read.
func checkFormat(dir string) (int, error) {
	found, err := os.ReadFile(filepath.Join(dir, formatFile))
	if err != nil {
		return 0, fmt.Errorf("store: %w", err)
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(string(found)), formatPrefix)
	v, err := strconv.Atoi(text)
	if !ok || err != nil {
		return 0, &VersionError{dir, fmt.Sprintf("a file %s that says %q", formatFile, clip(found)), version}
	}
	if v < withoutLedger || v > version {
		return 0, &VersionError{dir, fmt.Sprintf("a store of version %d", v), version}
	}
	return v, nil
}

// refuseShared refuses a directory into which others could put files.
func refuseShared(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%w: its group or all users may write the directory %s (%v): take that from them (chmod 0700 %s), or choose another directory",
			ErrInvalid, dir, info.Mode(), dir)
	}
	return nil
}

// tighten makes the store's files, which earlier versions left readable, the owner's alone.
func tighten(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == "lost+found" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil || info.Mode().Perm()&0o077 == 0 || !d.IsDir() && !info.Mode().IsRegular() {
			return err
		}
		return os.Chmod(path, info.Mode().Perm()&0o700)
	})
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// makeFormat writes the version into a directory that nobody has used.
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
	return writeFormat(dir)
}

// writeFormat writes the version. A crash leaves either the file as it was or the whole of
// the new one.
func writeFormat(dir string) error {
	if err := replaceFile(filepath.Join(dir, formatFile), []byte(formatPrefix+strconv.Itoa(version)+"\n")); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
