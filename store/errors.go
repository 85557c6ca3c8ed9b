package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
)

// Errors that callers tell apart, by [errors.Is].
var (
	// ErrNotFound: no span of the trace is stored.
	ErrNotFound = errors.New("store: no such trace")
	// ErrInUse: another process, or another Store of this one, has the directory open.
	ErrInUse = errors.New("store: the directory is in use")
	// ErrFull: the disk is full. Nothing of what was to be written is visible.
	ErrFull = errors.New("store: the disk is full")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store: closed")
	// ErrInvalid: the spans or the query cannot be taken as they are; trying
	// again will not help.
	ErrInvalid = errors.New("store: invalid")
	// ErrCorrupt: the data on disk is not what was written.
	ErrCorrupt = errors.New("store: corrupt")
)

// VersionError says that a directory is not one of this version of the store.
// Nothing in it was changed.
type VersionError struct {
	Dir   string
	Found string // what was found instead of Want
	Want  int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("store: %s holds %s, this program reads and writes version %d: "+
		"open it with the version of tare that wrote it, or choose another directory", e.Dir, e.Found, e.Want)
}

// corrupt says which part of the store is not as it was written.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// engineError makes Pebble's error one of ours where there is one.
func engineError(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrCorrupt):
		return fmt.Errorf("%s: %w", doing, err)
	case isCorruption(err):
		return fmt.Errorf("%w: %s: %s", ErrCorrupt, doing, plainCorruption(err))
	case isFull(err):
		return fmt.Errorf("%w: %s: %w", ErrFull, doing, err)
	}
	return fmt.Errorf("store: %s: %w", doing, err)
}

// isOtherSize reports whether the engine does not open because tables have other sizes than
// they should; for this it has no error of its own.
func isOtherSize(err error) bool {
	return err != nil && strings.Contains(err.Error(), "object size mismatch")
}

// isCorruption reports whether the engine's error says that its files are not as it
// wrote them: a table that is not there is one of them.
func isCorruption(err error) bool {
	return err != nil && (pebble.IsCorruptionError(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF) || record.IsInvalidRecord(err))
}
