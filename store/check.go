package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Report is what [Info] and [Check] find in a directory.
type Report struct {
	Stats  Stats
	Chunks int
	// Opens is nil if the store can be opened, or why it cannot.
	Opens  error
	Damage Damage
	// Retention is what the store was opened with last. Of the spans in Stats, Stats.Overdue have expired by that of
	// their service, are shown by no query, and will be removed.
	Retention Retention
}

// Sound reports whether nothing is wrong.
func (r *Report) Sound() bool { return r.Opens == nil && !r.Damage.Any() }

// Info describes the store in a directory that nobody has open, and changes nothing. It
// reads bounds only, and columns if some services have a retention of their own; what is damaged within chunks
// [Check] finds.
func Info(dir string) (Report, error) {
	return examine(dir, func(*Store, *account) error { return nil })
}

// Check reads everything in a store that nobody has open: every table and log, every chunk
// with all of its spans, and where every trace says that it stands. It changes nothing.
func Check(ctx context.Context, dir string) (Report, error) {
	return examine(dir, func(s *Store, a *account) error {
		if err := s.checkFiles(ctx); err != nil {
			return err
		}
		if s.db == nil {
			return nil
		}
		return s.read(ctx, func(v *view) error {
			for _, z := range v.chunks {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := v.skip(z, v.checkChunk(ctx, z)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// examine opens a store for reading alone.
func examine(dir string, look func(*Store, *account) error) (r Report, err error) {
	if err := refuseSpecial(dir); err != nil {
		return r, err
	}
	if _, err := checkFormat(dir); errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%w: %s is no store: it has no file %s", ErrInvalid, dir, formatFile)
	} else if err != nil {
		return r, err
	}
	s := &Store{
		opt: Options{Dir: dir}, log: slog.New(slog.DiscardHandler), fs: &roomFS{FS: tables}, memTable: memTableSize,
		stop: func() {}, done: make(chan struct{}),
	}
	close(s.done)
	s.fs.log = s.log
	engine := filepath.Join(dir, engineDir)
	lock, err := pebble.LockDirectory(engine, s.fs)
	if err != nil {
		return r, fmt.Errorf("%w: %s: stop the collector that has it open; its page's health view shows what it knows (%w)", ErrInUse, dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	a, err := readLedger(dir)
	if err == nil {
		s.format, err = checkFormat(dir)
	}
	if err != nil {
		return r, err
	}
	o := s.engineOptions(lock)
	o.ReadOnly, o.DisableTableStats = true, true
	s.db, r.Opens = pebble.Open(engine, o)
	if isOtherSize(r.Opens) || isCorruption(r.Opens) {
		s.damage.note("the engine does not open it as it is: " + plainCorruption(r.Opens))
		o = s.engineOptions(lock)
		o.ReadOnly, o.DisableTableStats, o.DisableConsistencyCheck = true, true, true
		s.db, r.Opens = pebble.Open(engine, o)
	}
	if r.Opens == nil {
		if r.Opens = verifyTables(s.db, engine); r.Opens != nil {
			err := s.db.Close()
			s.db, r.Opens = nil, errors.Join(r.Opens, err)
		}
	}
	if r.Opens != nil {
		s.db, r.Opens = nil, engineError("opening", r.Opens)
	} else {
		defer func() { err = errors.Join(err, s.db.Close()) }()
		if r.Opens = s.loadChunks(a); r.Opens == nil {
			s.account(a)
		}
	}
	if err := look(s, a); err != nil {
		return r, err
	}
	if r.Retention, err = readRetention(dir); err != nil {
		s.damage.note(err.Error())
	}
	if s.db != nil {
		r.Stats, r.Chunks = s.Stats(), len(s.chunks)
		if r.Stats.Overdue, err = s.countOverdue(r.Retention); err != nil {
			return r, err
		}
	}
	files, _, err := quarantined(dir)
	s.damage.quarantine = files
	r.Damage = s.Damage()
	return r, err
}

// account notes what the ledger says that is missing.
func (s *Store) account(a *account) {
	present := map[uint64]bool{}
	for _, z := range s.chunks {
		present[z.chunk] = true
	}
	for n := range s.damage.unreadable {
		present[n] = true
	}
	s.damage.lost = append(slices.Collect(maps.Values(a.lost)), a.missing(present)...)
	slices.SortFunc(s.damage.lost, func(a, b entry) int { return cmp.Compare(a.chunk, b.chunk) })
	if !a.found && s.format >= version {
		s.damage.note("there is no ledger: whether spans are missing is not known")
	}
	if a.damaged > 0 {
		s.damage.note(fmt.Sprintf("%d records of the ledger are damaged: whether spans are missing is not known for certain", a.damaged))
	}
}

// checkFiles reads all of the engine's tables and logs.
func (s *Store) checkFiles(ctx context.Context) error {
	engine := filepath.Join(s.opt.Dir, engineDir)
	entries, err := os.ReadDir(engine)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := filepath.Join(engine, e.Name())
		var damage error
		switch filepath.Ext(name) {
		case ".sst":
			damage = checkTable(name)
		case ".log":
			b, err := os.ReadFile(name)
			if err != nil {
				return fmt.Errorf("store: %w", err)
			}
			damage = eachBatch(name, b, func([]byte) error { return nil })
		}
		if damage != nil && s.damage.file(name) {
			s.damage.note(e.Name() + ": " + plainCorruption(damage))
		}
	}
	return nil
}

func checkTable(name string) (err error) {
	t, err := openTable(name)
	if err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = corrupt("a table: %v", p)
		}
		t.close()
	}()
	return t.reader.ValidateBlockChecksums()
}

// checkChunk reads all of a chunk.
func (v *view) checkChunk(ctx context.Context, z *zone) error {
	c, err := v.chunk(z.chunk, z)
	if err != nil {
		return err
	}
	defer func() { _ = v.drop(c) }()
	if _, err := c.dictionary(); err != nil {
		return err
	}
	for col := range columns {
		if _, err := c.column(col); err != nil {
			return err
		}
	}
	for part := range uint32(filterParts) {
		if _, err := c.blockFilters(part); err != nil {
			return err
		}
	}
	groups, err := c.resources()
	if err != nil {
		return err
	}
	at, err := c.traceTable()
	if err != nil {
		return err
	}
	spans := 0
	for t := range int(z.traces) {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := at.place(t)
		record, err := c.record(p)
		if err != nil {
			return err
		}
		err = eachRun(record, groups, func(_ uint32, run []byte) error {
			return eachField(run, func(_, _ uint64, _, _ []byte) error {
				spans++
				return nil
			})
		})
		if err != nil {
			return err
		}
		places, err := v.places(ctx, at.id(t))
		if err != nil {
			return err
		}
		if !slices.Contains(places, p) {
			return corrupt("trace %s is not found by its id", at.id(t))
		}
	}
	if spans != int(z.spans) {
		return corrupt("chunk %d has %d spans instead of %d", z.chunk, spans, z.spans)
	}
	return nil
}
