package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// reader is where parts of chunks are read from: a snapshot of the engine, or
// what can be read of its files without it.
type reader interface {
	// Get returns pebble.ErrNotFound if there is no such key.
	Get(key []byte) ([]byte, io.Closer, error)
}

// salvage reads the engine's tables and logs without the engine, whether or not a
// manifest names them. It does not know what was removed since: the ledger does.
// Chunks never change and their numbers are never used again, so it makes no
// difference in which file a part of one is found.
type salvage struct {
	tables []*table
	logs   map[string][]byte
	// Files that are damaged, with what is wrong.
	damaged map[string]error
}

// table is one of the engine's tables.
type table struct {
	name        string
	reader      *sstable.Reader
	iter        sstable.Iterator
	first, last []byte // user keys
}

// close lets go of the table. What could not be read of it was said when it was read.
func (t *table) close() {
	_ = t.iter.Close()
	_ = t.reader.Close()
}

// openSalvage reads what is in the directories and below them.
func openSalvage(dirs ...string) (*salvage, error) {
	s := &salvage{logs: map[string][]byte{}, damaged: map[string]error{}}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || d.IsDir() {
				return err
			}
			switch filepath.Ext(path) {
			case ".sst":
				t, err := openTable(path)
				if err != nil {
					s.damaged[path] = err
				} else {
					s.tables = append(s.tables, t)
				}
			case ".log":
				if err := s.addLog(path); err != nil {
					s.damaged[path] = err
				}
			}
			return nil
		})
		if err != nil {
			s.close()
			return nil, fmt.Errorf("store: %w", err)
		}
	}
	return s, nil
}

func (s *salvage) close() {
	for _, t := range s.tables {
		t.close()
	}
}

// openTable opens a table.
func openTable(path string) (*table, error) {
	f, err := tables.Open(path)
	if err != nil {
		return nil, err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	var o pebble.Options
	o.EnsureDefaults()
	r, err := newTableReader(readable, o.MakeReaderOptions())
	if err != nil {
		return nil, errors.Join(err, readable.Close())
	}
	it, err := r.NewIter(sstable.IterTransforms{}, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	t := &table{name: path, reader: r, iter: it, last: []byte{0xff}}
	if first := it.First(); first != nil {
		t.first = slices.Clone(first.K.UserKey)
	}
	if last := it.Last(); last != nil {
		t.last = slices.Clone(last.K.UserKey)
	}
	return t, nil
}

// newTableReader turns the panics with which the engine meets some damage into errors.
func newTableReader(f objstorage.Readable, o sstable.ReaderOptions) (r *sstable.Reader, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, corrupt("a table: %v", p)
		}
	}()
	return sstable.NewReader(context.Background(), f, o)
}

// get returns the value of a key, nil if the table does not have it.
func (t *table) get(key []byte) (value []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			value, err = nil, corrupt("a table: %v", p)
		}
	}()
	if bytes.Compare(key, t.first) < 0 || bytes.Compare(key, t.last) > 0 {
		return nil, nil
	}
	kv := t.iter.SeekGE(key, 0)
	if kv == nil {
		return nil, t.iter.Error()
	}
	for ; kv != nil && bytes.Equal(kv.K.UserKey, key); kv = t.iter.Next() {
		if kv.Kind() != pebble.InternalKeyKindSet {
			continue
		}
		b, _, err := kv.Value(nil)
		if err != nil {
			return nil, err
		}
		return append([]byte{}, b...), nil
	}
	return nil, t.iter.Error()
}

// seek returns the first key of the table that is not before the key; nil if there is none.
func (t *table) seek(key []byte) (at []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			at, err = nil, corrupt("a table: %v", p)
		}
	}()
	kv := t.iter.SeekGE(key, 0)
	if kv == nil {
		return nil, t.iter.Error()
	}
	return kv.K.UserKey, nil
}

// Get implements reader.
func (s *salvage) Get(key []byte) ([]byte, io.Closer, error) {
	if b, ok := s.logs[string(key)]; ok {
		return b, io.NopCloser(nil), nil
	}
	var damaged error
	for _, t := range s.tables {
		b, err := t.get(key)
		if err != nil {
			s.damaged[t.name] = err
			damaged = err
		} else if b != nil {
			return b, io.NopCloser(nil), nil
		}
	}
	if damaged != nil {
		return nil, nil, corrupt("%v", damaged)
	}
	return nil, nil, pebble.ErrNotFound
}

func has(r reader, key []byte) bool {
	_, closer, err := r.Get(key)
	if err != nil {
		return false
	}
	_ = closer.Close()
	return true
}

// chunks are the numbers of the chunks of which bounds can be read, rising.
func (s *salvage) chunks() []uint64 {
	all := map[uint64]bool{}
	for key := range s.logs {
		if key[0] == keyChunk && len(key) == 14 {
			all[decodeChunkKey([]byte(key))] = true
		}
	}
	for _, t := range s.tables {
		for n, ok := s.next(t, 0); ok; n, ok = s.next(t, n+1) {
			all[n] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// next is the first chunk in the table that has this number or a higher one. Where the table
// is damaged, it goes on behind that.
func (s *salvage) next(t *table, from uint64) (uint64, bool) {
	key, err := t.seek(partKey(from, partZone, 0))
	if err != nil {
		s.damaged[t.name] = err
		// Every try takes long, because the engine searches for a flipped bit.
		bad, good := from, from
		for step := uint64(1); err != nil && step < 1<<40; step *= 2 {
			bad, good = good, from+step
			_, err = t.seek(partKey(good, partZone, 0))
		}
		if err != nil {
			return 0, false
		}
		for bad+1 < good {
			if middle := bad + (good-bad)/2; t.readable(middle) {
				good = middle
			} else {
				bad = middle
			}
		}
		if key, err = t.seek(partKey(good, partZone, 0)); err != nil {
			return 0, false
		}
	}
	if len(key) != 14 || key[0] != keyChunk {
		return 0, false
	}
	return decodeChunkKey(key), true
}

func (t *table) readable(n uint64) bool {
	_, err := t.seek(partKey(n, partZone, 0))
	return err == nil
}

// addLog adds what a log sets. The error says what is damaged; what is readable was
// added.
func (s *salvage) addLog(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return eachBatch(path, b, func(batch []byte) error {
		r := batchrepr.Read(batch)
		for {
			kind, key, value, ok, err := r.Next()
			if err != nil || !ok {
				return err
			}
			if kind == pebble.InternalKeyKindSet && len(key) > 0 {
				s.logs[string(key)] = slices.Clone(value)
			}
		}
	})
}

// logBlock is the unit in which the engine lays out its logs: after damage, the next
// batch is found from the beginning of a later block.
const logBlock = 32 << 10

// eachBatch calls f for all batches that can be read of a log. It returns an error if some
// cannot: others follow behind them, or the log says that they were written. The engine uses
// logs again, so what is behind the last batch may be anything.
func eachBatch(path string, b []byte, f func(batch []byte) error) (damage error) {
	markDamaged(b)
	number, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), ".log"), 10, 32)
	if err != nil {
		return corrupt("%s is no name of a log", filepath.Base(path))
	}
	var perhaps error
	for at := 0; at < len(b); {
		if isZero(b[at:]) {
			break
		}
		n, err := batches(b[at:], number, func(batch []byte) error {
			damage = cmp.Or(damage, perhaps)
			return f(batch)
		})
		if err == nil {
			break
		}
		perhaps = corrupt("the log is damaged from byte %d on: %v", at+n, err)
		if !errors.Is(err, record.ErrUnexpectedEOF) {
			damage = cmp.Or(damage, perhaps)
		}
		at = (at + n + logBlock) / logBlock * logBlock
	}
	return damage
}

// markDamaged gives the pieces of a log whose checksum does not fit a kind that there is not: else
// the engine's reader, too, searches each for a flipped bit.
func markDamaged(b []byte) {
	const length, kind = 4, 6
	heads := [...]int{0, 7, 7, 7, 7, 11, 11, 11, 11, 19, 19, 19, 19} // bytes, by kind
	for ; len(b) > 0; b = b[min(logBlock, len(b)):] {
		for block := b[:min(logBlock, len(b))]; len(block) > kind; {
			k := int(block[kind])
			if k == 0 || k >= len(heads) {
				break
			}
			end := heads[k] + int(binary.LittleEndian.Uint16(block[length:]))
			if end > len(block) || end == heads[k] { // the end of a log is an empty piece without a checksum
				break
			}
			if binary.LittleEndian.Uint32(block) != maskedCRC(block[kind:end]) {
				block[kind] = 0xff
				break
			}
			block = block[end:]
		}
	}
}

// batches calls f for the batches up to the first that cannot be read, and returns where
// that begins.
func batches(b []byte, number uint64, f func(batch []byte) error) (at int, err error) {
	r := logReader(record.NewReader, bytes.NewReader(b), number)
	for {
		at = int(r.Offset())
		next, err := r.Next()
		if err == io.EOF {
			return at, nil
		}
		var data []byte
		if err == nil {
			data, err = io.ReadAll(next)
		}
		if err != nil {
			return at, err
		}
		if len(data) < batchrepr.HeaderLen {
			return at, corrupt("a batch of %d bytes", len(data))
		}
		if err := f(data); err != nil {
			return at, err
		}
	}
}

// logReader names, by inference, the engine's type of file numbers, which is internal to it.
func logReader[N ~uint64](open func(io.Reader, N) *record.Reader, r io.Reader, number uint64) *record.Reader {
	return open(r, N(number))
}
