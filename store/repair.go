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

// Repaired is what [Repair] made.
type Repaired struct {
	Spans   uint64      // that are in the new directory
	Doubles uint64      // that were there more than once, and are there once now
	Gone    []LostChunk // what was written, not removed, and cannot be read
	Files   []string    // that are damaged, or missing
}

// GoneSpans is how many spans are gone.
func (r *Repaired) GoneSpans() (n uint64) {
	for _, c := range r.Gone {
		n += uint64(c.Spans)
	}
	return n
}

// Repair reads what can be read in the tables and logs of a store that nobody has open, named
// by its manifest or not, and of those in quarantine, and writes it into a new directory,
// which must be empty or not there. It changes nothing in the old one. What retention
// removed is not written again, as far as the ledger knows it.
func Repair(ctx context.Context, dir, to string, log *slog.Logger) (r Repaired, err error) {
	if err := refuseSpecial(dir); err != nil {
		return r, err
	}
	if _, err := checkFormat(dir); errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%w: %s is no store: it has no file %s", ErrInvalid, dir, formatFile)
	} else if err != nil {
		return r, err
	}
	if entries, err := os.ReadDir(to); err == nil && len(entries) > 0 {
		return r, fmt.Errorf("%w: %s is not empty: name a directory that is not there yet", ErrInvalid, to)
	}
	engine := filepath.Join(dir, engineDir)
	fsys := &roomFS{FS: tables}
	lock, err := pebble.LockDirectory(engine, fsys)
	if err != nil {
		return r, fmt.Errorf("%w: %s: stop the collector that has it open (%w)", ErrInUse, dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	a, err := readLedger(dir)
	if err != nil {
		return r, err
	}
	source, err := openSalvage(engine, filepath.Join(dir, asideDir), filepath.Join(dir, quarantineDir))
	if err != nil {
		return r, err
	}
	defer source.close()
	s, err := Open(Options{Dir: to, Log: log, byHand: true})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m := &repair{s: s, source: source, a: a, seen: map[uint64]struct{}{}, whole: map[uint64]bool{}, short: map[uint64]*entry{}}
	if err := m.run(ctx); err != nil {
		return r, err
	}
	return m.report(), nil
}

type repair struct {
	s      *Store
	source *salvage
	a      *account
	seen   map[uint64]struct{} // hashes of spans
	whole  map[uint64]bool     // chunks of which everything was read
	short  map[uint64]*entry   // chunks that lack spans, and how many
	Repaired
}

func (m *repair) run(ctx context.Context) error {
	chunks := m.source.chunks()
	for n := range m.a.acked { // also those of which nothing can be found
		chunks = append(chunks, n)
	}
	slices.Sort(chunks)
	chunks = slices.Compact(chunks)
	// From the last on: what was merged comes before what it was merged from.
	for _, n := range slices.Backward(chunks) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m.a.removed[n] || m.isWithin(n) {
			continue
		}
		if err := m.chunk(n); err != nil {
			return err
		}
	}
	return nil
}

// isWithin reports whether the chunk was merged into one of which everything was read, or
// which was removed.
func (m *repair) isWithin(n uint64) bool {
	return slices.ContainsFunc(m.a.merged[n], func(into uint64) bool {
		return m.whole[into] || m.a.removed[into] || m.isWithin(into)
	})
}

func (m *repair) chunk(n uint64) error {
	as := m.s.next.Add(1) - 1
	got, err := m.s.putSalvaged(m.source, n, as, m.seen)
	if err != nil {
		return err
	}
	found := 0
	if got.now != nil {
		found = int(got.now.spans)
		if err := m.s.ledger.write([]entry{entryOf(ledgerAck, got.now)}); err != nil {
			return err
		}
		m.s.chunks = append(m.s.chunks, got.now)
	}
	m.Spans += uint64(found)
	m.Doubles += uint64(got.double)
	// What a chunk still has of those that it became part of, these do not lack.
	for _, into := range m.a.merged[n] {
		if e := m.short[into]; e != nil {
			e.spans -= min(uint32(found), e.spans)
		}
	}
	want, known := m.a.acked[n]
	if got.old.spans > 0 {
		want, known = entryOf(ledgerAck, got.old), true
	}
	switch lacks := int(want.spans) - found - got.double; {
	case !known:
	case lacks <= 0:
		m.whole[n] = true
	case len(m.a.merged[n]) == 0:
		want.spans = uint32(lacks)
		m.short[n] = &want
	}
	return nil
}

func (m *repair) report() Repaired {
	r := m.Repaired
	lost := slices.Collect(maps.Values(m.a.lost))
	for _, e := range m.short {
		lost = append(lost, *e)
	}
	slices.SortFunc(lost, func(a, b entry) int { return cmp.Compare(a.chunk, b.chunk) })
	for _, e := range lost {
		if e.spans > 0 {
			r.Gone = append(r.Gone, LostChunk{e.chunk, e.spans, timeOf(e.min), timeOf(e.max)})
		}
	}
	for name := range m.source.damaged {
		r.Files = append(r.Files, name)
	}
	if !m.a.found || m.a.damaged > 0 { // then spans may be gone that nothing else tells of
		r.Files = append(r.Files, ledgerFile)
	}
	slices.Sort(r.Files)
	return r
}
