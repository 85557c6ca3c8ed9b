package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// The ledger is a file beside the engine's that says which chunks were
// acknowledged, which were merged into which, and which were removed. After
// damage to the engine's files it tells what is missing, which the engine itself
// cannot: it takes a damaged end of its manifest or log for a write that a crash
// interrupted.
//
// It has records of equal size, each with a checksum, behind each other. An
// acknowledgement is written after the engine has the chunk, so that a crash
// between the two is no false alarm; mergers and removals are written, and
// synced, before the engine does them, for the same reason. What follows the last
// record is zero: space that is reserved, because removals must be written when
// the disk is full.
const (
	ledgerFile    = "LEDGER"
	ledgerRecord  = 41
	ledgerReserve = 1600 * ledgerRecord
)

// Kinds of records.
const (
	ledgerAck     = 'a' // the chunk was acknowledged
	ledgerMerged  = 'm' // it is to become part of the chunk into
	ledgerRemoved = 'r' // it is to be removed
	ledgerLost    = 'l' // it was found missing, and reported
	ledgerNext    = 'n' // the chunk's number is the next
)

// entry is a record of the ledger, and what is said of a chunk that is gone.
type entry struct {
	kind     byte
	chunk    uint64
	spans    uint32
	min, max uint64 // starts of its spans, ns
	into     uint64
}

func entryOf(kind byte, z *zone) entry {
	return entry{kind: kind, chunk: z.chunk, spans: z.spans, min: z.minStart, max: z.maxStart}
}

func (e *entry) append(b []byte) []byte {
	start := len(b)
	b = append(b, e.kind)
	b = binary.LittleEndian.AppendUint64(b, e.chunk)
	b = binary.LittleEndian.AppendUint32(b, e.spans)
	b = binary.LittleEndian.AppendUint64(b, e.min)
	b = binary.LittleEndian.AppendUint64(b, e.max)
	b = binary.LittleEndian.AppendUint64(b, e.into)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func parseEntry(b []byte) (entry, bool) {
	body := b[:ledgerRecord-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[ledgerRecord-4:]) {
		return entry{}, false
	}
	return entry{
		kind: b[0], chunk: binary.LittleEndian.Uint64(b[1:]), spans: binary.LittleEndian.Uint32(b[9:]),
		min: binary.LittleEndian.Uint64(b[13:]), max: binary.LittleEndian.Uint64(b[21:]), into: binary.LittleEndian.Uint64(b[29:]),
	}, true
}

// account is what a ledger says.
type account struct {
	found   bool             // there was a ledger
	damaged int              // records that are not as they were written
	acked   map[uint64]entry // not removed, and not merged into another that is known
	merged  map[uint64][]uint64
	removed map[uint64]bool
	lost    map[uint64]entry
	next    uint64
}

// readLedger reads the ledger of a directory; it is no error if there is none.
func readLedger(dir string) (*account, error) {
	a := &account{acked: map[uint64]entry{}, merged: map[uint64][]uint64{}, removed: map[uint64]bool{}, lost: map[uint64]entry{}}
	b, err := os.ReadFile(filepath.Join(dir, ledgerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	a.found = true
	if len(b) < ledgerRecord || !isZero(b[len(b)-ledgerRecord:]) { // the reserve is cut off
		a.damaged++
	}
	for ; len(b) >= ledgerRecord; b = b[ledgerRecord:] {
		e, ok := parseEntry(b)
		switch {
		case !ok && isZero(b[:ledgerRecord]):
			continue
		case !ok:
			a.damaged++
			continue
		}
		a.next = max(a.next, e.chunk+1)
		switch e.kind {
		case ledgerAck:
			a.acked[e.chunk] = e
		case ledgerMerged:
			a.merged[e.chunk] = append(a.merged[e.chunk], e.into)
			a.next = max(a.next, e.into+1)
		case ledgerRemoved:
			a.removed[e.chunk] = true
		case ledgerLost:
			a.lost[e.chunk] = e
		case ledgerNext:
			a.next = max(a.next, e.chunk)
		}
	}
	if !isZero(b) { // shorter than a record: cut off
		a.damaged++
	}
	return a, nil
}

func isZero(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 })
}

// entries are the records that say the same.
func (a *account) entries() []entry {
	var list []entry
	for _, e := range a.acked {
		list = append(list, e)
	}
	for chunk, all := range a.merged {
		for _, into := range all {
			list = append(list, entry{kind: ledgerMerged, chunk: chunk, into: into})
		}
	}
	for chunk := range a.removed {
		list = append(list, entry{kind: ledgerRemoved, chunk: chunk})
	}
	for _, e := range a.lost {
		list = append(list, e)
	}
	return append(list, entry{kind: ledgerNext, chunk: a.next})
}

// gone reports whether the chunk need not be there: it was removed, or what it
// became part of is accounted for by itself.
func (a *account) gone(chunk uint64, present map[uint64]bool) bool {
	if a.removed[chunk] {
		return true
	}
	for _, into := range a.merged[chunk] {
		_, acked := a.acked[into]
		_, lost := a.lost[into]
		if present[into] || acked || lost || a.gone(into, present) {
			return true
		}
	}
	return false
}

// whole reports whether all of the chunk is in one that it became part of.
func (a *account) whole(chunk uint64, present map[uint64]bool) bool {
	return slices.ContainsFunc(a.merged[chunk], func(into uint64) bool {
		_, lost := a.lost[into]
		return !lost && (present[into] || a.removed[into] || a.whole(into, present))
	})
}

// missing are the chunks that were acknowledged and should be there, but are not
// among those present, by number.
func (a *account) missing(present map[uint64]bool) []entry {
	var list []entry
	for chunk, e := range a.acked {
		if _, lost := a.lost[chunk]; !lost && !present[chunk] && !a.gone(chunk, present) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.chunk, b.chunk) })
	return list
}

// ledger is the file while the store is open.
type ledger struct {
	mu   sync.Mutex
	file *os.File
	at   int64 // where the next record goes
	size int64
}

// openLedger replaces the ledger with one that has the entries.
func openLedger(dir string, entries []entry) (*ledger, error) {
	name := filepath.Join(dir, ledgerFile)
	f, err := os.OpenFile(name+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	l := &ledger{file: f}
	if err := errors.Join(l.write(entries), f.Sync()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := errors.Join(os.Rename(name+".new", name), syncDir(dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("store: %w", err), f.Close())
	}
	return l, nil
}

// write appends the entries. They survive kill -9 when it returns.
func (l *ledger) write(entries []entry) error {
	b := make([]byte, 0, len(entries)*ledgerRecord)
	for i := range entries {
		b = entries[i].append(b)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// What is written to the reserve needs no space on the disk.
	if l.size-l.at < int64(len(b))+ledgerReserve/2 {
		if n, err := l.file.WriteAt(make([]byte, len(b)+ledgerReserve), l.size); err == nil {
			l.size += int64(n)
		}
	}
	n, err := l.file.WriteAt(b, l.at)
	if err != nil {
		return fmt.Errorf("store: the ledger: %w", err)
	}
	l.at += int64(n)
	l.size = max(l.size, l.at)
	return nil
}

// before writes what is going to be done to the chunks, and syncs it.
func (l *ledger) before(kind byte, chunks []*zone, into uint64) error {
	entries := make([]entry, len(chunks))
	for i, z := range chunks {
		entries[i] = entryOf(kind, z)
		entries[i].into = into
	}
	if err := l.write(entries); err != nil {
		return err
	}
	return l.file.Sync()
}

func (l *ledger) close() error { return errors.Join(l.file.Sync(), l.file.Close()) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
