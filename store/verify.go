package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// verifyNames finds out whether the engine's tables are those that its manifest names,
// before the engine works with them: it ends the process when a table has keys outside the
// bounds that the manifest has for it. It looks at the manifest and the tables alone, by second
// names of theirs, because the engine reads all logs when it opens a directory that has some.
func (s *Store) verifyNames() (err error) {
	engine := filepath.Join(s.opt.Dir, engineDir)
	names := filepath.Join(s.opt.Dir, asideDir, "names")
	if err := os.RemoveAll(names); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := os.MkdirAll(names, 0o700); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(names)) }()
	entries, err := os.ReadDir(engine)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, e := range entries {
		if n := e.Name(); strings.HasSuffix(n, ".sst") || strings.HasPrefix(n, "MANIFEST-") || strings.HasPrefix(n, "marker.") {
			if err := vfs.LinkOrCopy(vfs.Default, filepath.Join(engine, n), filepath.Join(names, n)); err != nil {
				return fmt.Errorf("store: %w", err)
			}
		}
	}
	o := s.engineOptions(nil)
	o.ReadOnly, o.DisableTableStats, o.DisableConsistencyCheck, o.EventListener = true, true, true, nil
	o.FS = tables
	db, err := pebble.Open(names, o)
	if err != nil {
		return nil // it has no manifest yet, or one that cannot be read, which opening it finds out
	}
	return errors.Join(verifyTables(db, names), db.Close())
}

// verifyTables reports the tables that are others than the engine knows under their names.
// Damaged ones are found when they are read.
func verifyTables(db *pebble.DB, dir string) error {
	levels, err := db.SSTables()
	if err != nil {
		return nil // one is not there, which is found when it is read
	}
	for _, level := range levels {
		for _, info := range level {
			name := info.BackingSSTNum.String() + ".sst"
			t, err := openTable(filepath.Join(dir, name))
			if err != nil {
				continue
			}
			outside := t.outside(info.Smallest.UserKey, info.Largest.UserKey)
			t.close()
			if outside {
				return corrupt("%s is another table than was written under this name", name)
			}
		}
	}
	return nil
}

// outside reports whether the table has a key that is not between the bounds.
func (t *table) outside(smallest, largest []byte) bool {
	out := func(first, last []byte) bool {
		return bytes.Compare(first, smallest) < 0 || bytes.Compare(last, largest) > 0
	}
	if t.iter.First() != nil && out(t.first, t.last) {
		return true
	}
	ranges, err := t.reader.NewRawRangeDelIter(context.Background(), sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil || ranges == nil {
		return false
	}
	defer ranges.Close()
	for span, err := ranges.First(); span != nil && err == nil; span, err = ranges.Next() {
		if out(span.Start, span.End) {
			return true
		}
	}
	return false
}
