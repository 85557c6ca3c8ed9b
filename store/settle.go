package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/zeebo/xxh3"

	"github.com/tare-trace/tare/otel/wire"
)

// settle holds what the engine has against the ledger, when the store is opened. What is
// missing is looked for in the files that were set aside and in those in quarantine; what
// is not found is lost, and reported from then on. Then a new ledger begins.
func (s *Store) settle(a *account) error {
	present := map[uint64]bool{}
	for _, z := range s.chunks {
		present[z.chunk] = true
	}
	for n := range s.damage.unreadable {
		present[n] = true
	}
	a.next = max(a.next, s.next.Load())
	missing := a.missing(present)
	if a.damaged > 0 {
		s.damage.note(fmt.Sprintf("%d records of the ledger are damaged: whether spans are missing is not known for certain", a.damaged))
		s.log.Error("store: the ledger is damaged: whether spans are missing is not known for certain", "records", a.damaged)
	}
	if !a.found && s.format >= version && !s.empty {
		s.damage.note("there is no ledger: whether spans are missing is not known")
		s.log.Error("store: there is no ledger: whether spans are missing is not known")
	}
	if len(missing) > 0 {
		if err := s.restore(a, missing); err != nil {
			return err
		}
	}
	s.next.Store(a.next)
	s.damage.lost = slices.SortedFunc(maps.Values(a.lost), func(a, b entry) int { return cmp.Compare(a.chunk, b.chunk) })
	entries := make([]entry, 0, len(s.chunks)+len(a.lost)+1)
	for _, z := range s.chunks {
		entries = append(entries, entryOf(ledgerAck, z))
	}
	for n := range s.damage.unreadable {
		entries = append(entries, a.acked[n])
	}
	entries = append(entries, s.damage.lost...)
	entries = append(entries, entry{kind: ledgerNext, chunk: a.next})
	var err error
	if s.ledger, err = openLedger(s.opt.Dir, entries); err != nil {
		return err
	}
	if s.format < version {
		if err := writeFormat(s.opt.Dir); err != nil {
			return err
		}
	}
	// If all that the ledger knows is there, the other files are proven to be useless.
	if a.found && a.damaged == 0 && len(a.lost)+len(s.damage.files)+len(s.damage.notes) == 0 || s.format < version {
		err = discardAside(s.opt.Dir)
	} else {
		var kept []string
		if kept, err = quarantine(s.opt.Dir); len(kept) > 0 {
			s.log.Error("store: files that the engine does not name are kept in quarantine, because spans were missing or damaged", "files", kept)
		}
	}
	files, _, e := quarantined(s.opt.Dir)
	s.damage.quarantine = files
	return errors.Join(err, e)
}

// restore looks for chunks that are missing in the files beside the engine's own, and
// writes them anew.
func (s *Store) restore(a *account, missing []entry) error {
	spans := 0
	for _, e := range missing {
		spans += int(e.spans)
	}
	s.log.Error("store: spans are missing that were acknowledged; looking for them in all files that are there", "spans", spans, "chunks", len(missing))
	source, err := openSalvage(filepath.Join(s.opt.Dir, asideDir), filepath.Join(s.opt.Dir, quarantineDir))
	if err != nil {
		return err
	}
	defer source.close()
	// Should this be interrupted, the next Open must not restore a chunk twice.
	for i, e := range missing {
		a.merged[e.chunk] = append(a.merged[e.chunk], a.next+uint64(i))
	}
	l, err := openLedger(s.opt.Dir, a.entries())
	if err == nil {
		err = l.close()
	}
	if err != nil {
		return err
	}
	// If the ledger is damaged, it may not say that a chunk was merged, and its spans be there.
	var seen map[uint64]struct{}
	if a.damaged > 0 {
		seen = map[uint64]struct{}{}
		for _, z := range s.chunks {
			b := newBuilder()
			b.addSalvaged(s.db, z.chunk, seen)
			b.release()
		}
	}
	first := a.next
	a.next += uint64(len(missing))
	for i, e := range missing {
		r, err := s.putSalvaged(source, e.chunk, first+uint64(i), seen)
		if err != nil {
			return err
		}
		found := uint32(r.double)
		if r.now != nil {
			s.chunks, found = append(s.chunks, r.now), found+r.now.spans
			s.damage.restored += uint64(r.now.spans)
		}
		if found < e.spans {
			e.kind, e.spans = ledgerLost, e.spans-found
			a.lost[e.chunk] = e
		}
	}
	if err := s.dropSources(a); err != nil {
		return err
	}
	for _, e := range missing {
		if e, ok := a.lost[e.chunk]; ok {
			s.log.Error("store: spans are lost", "spans", e.spans, "chunk", e.chunk, "oldest", timeOf(e.min), "newest", timeOf(e.max))
		}
	}
	s.log.Info("store: restored spans from files that the engine does not name", "spans", s.damage.restored)
	return nil
}

// dropSources removes chunks that are there again, because the engine's files are from
// before they were merged, though what they became is there too. Where that is not there as
// a whole, they stay, and fill the gap.
func (s *Store) dropSources(a *account) error {
	present := map[uint64]bool{}
	for _, z := range s.chunks {
		present[z.chunk] = true
	}
	var rest, doubles []*zone
	for _, z := range s.chunks {
		whole := a.whole(z.chunk, present)
		if whole {
			doubles = append(doubles, z)
		} else {
			rest = append(rest, z)
		}
		for _, m := range a.merged[z.chunk] {
			if e, ok := a.lost[m]; ok && !whole {
				if e.spans -= min(e.spans, z.spans); e.spans > 0 {
					a.lost[m] = e
				} else {
					delete(a.lost, m)
				}
			}
		}
	}
	s.chunks = rest
	for _, z := range doubles {
		batch := s.db.NewBatch()
		err := s.deleteChunk(batch, z)
		if err == nil {
			err = s.db.Apply(batch, pebble.Sync)
		}
		if err := engineError("removing what was merged", errors.Join(err, batch.Close())); err != nil {
			return err
		}
	}
	return nil
}

// salvaged is what became of a chunk.
type salvaged struct {
	old    *zone // its bounds, as far as they can be read
	now    *zone // the chunk that was written; nil: nothing can be read, or everything was there
	double int   // spans that were there
}

// putSalvaged writes what can be read of a chunk, but what was seen before, as a chunk with
// another number.
func (s *Store) putSalvaged(source reader, chunk, as uint64, seen map[uint64]struct{}) (r salvaged, err error) {
	b := newBuilder()
	defer b.release()
	r.old, r.double = b.addSalvaged(source, chunk, seen)
	if len(b.rows) == 0 {
		return r, nil
	}
	if err := s.checkDisk(s.writeNeeds(int(r.old.raw))); err != nil {
		return r, err
	}
	batch := s.db.NewBatch()
	r.now, err = b.build(as, r.old.first, r.old.written, batchWriter{batch})
	if err == nil {
		err = s.db.Apply(batch, pebble.Sync)
	}
	return r, engineError("writing what was salvaged", errors.Join(err, batch.Close()))
}

// addSalvaged adds all spans that can be read of a chunk, but those that were seen before,
// and returns its bounds, as far as they are known. It needs the chunk's blocks and
// resources alone: a block is records behind each other.
func (b *builder) addSalvaged(source reader, number uint64, seen map[uint64]struct{}) (z *zone, double int) {
	v := &view{parts: source, open: map[uint64]*chunkData{}}
	defer v.close() //nolint:errcheck // what could not be read is missing
	c, err := v.chunk(number, nil)
	if err != nil {
		now := uint64(time.Now().UnixNano())
		z = &zone{chunk: number, written: now, first: now, uncompressed: maxWrite}
		if c, err = v.chunk(number, z); err != nil {
			return z, 0
		}
		for z.blocks < 1<<20 && has(source, partKey(number, partBlock, z.blocks)) {
			z.blocks++
		}
	}
	groups, err := c.resources()
	if err != nil {
		return c.zone, 0
	}
	for n := range c.zone.blocks {
		block, err := c.block(n)
		if err != nil {
			continue
		}
		// What is behind a record that is damaged is lost.
		_ = eachRun(bytes.Clone(block), groups, func(g uint32, spans []byte) error {
			i, err := b.group(groups[g].resource, groups[g].scope)
			if err != nil {
				return err
			}
			if seen != nil {
				var n int
				if spans, n, err = unseen(spans, seen); err != nil {
					return err
				}
				double += n
			}
			return b.addSpans(i, spans)
		})
	}
	return c.zone, double
}

// unseen returns the spans without those that were seen before, and how many these are.
func unseen(spans []byte, seen map[uint64]struct{}) (rest []byte, double int, err error) {
	err = eachField(spans, func(tag, _ uint64, _, whole []byte) error {
		if tag != wire.ScopeSpansSpan {
			return nil
		}
		h := xxh3.Hash(whole)
		if _, ok := seen[h]; ok {
			double++
			return nil
		}
		seen[h] = struct{}{}
		rest = append(rest, whole...)
		return nil
	})
	return rest, double, err
}

// repairLogs replaces each of the engine's logs that is damaged by one with what can be
// read of it. The damaged one was set aside, and stays there.
func (s *Store) repairLogs(engine string) (repaired bool, err error) {
	logs, err := filepath.Glob(filepath.Join(engine, "*.log"))
	if err != nil {
		return false, err
	}
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			return repaired, fmt.Errorf("store: %w", err)
		}
		var good bytes.Buffer
		w := record.NewWriter(&good)
		damage := eachBatch(name, b, func(batch []byte) error {
			_, err := w.WriteRecord(batch)
			return err
		})
		if damage == nil {
			continue
		}
		if err := errors.Join(w.Close(), replaceFile(name, good.Bytes())); err != nil {
			return repaired, fmt.Errorf("store: %w", err)
		}
		s.damage.file(name)
		s.log.Error("store: a log is damaged, what can be read of it is used", "file", name, "error", damage)
		repaired = true
	}
	return repaired, nil
}

// replaceFile puts a new file in the place of another.
func replaceFile(name string, b []byte) error {
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(name+".new", name), syncDir(filepath.Dir(name)))
}
