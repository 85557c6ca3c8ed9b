package store

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Keys, big endian so that they sort as numbers:
//
//	'C' chunk(8) part(1) n(4)     a part of a chunk
//	'T' trace id(16) chunk(8)     where in the chunk the trace stands
//
// 'L' and 'M', of log records: logs.go; and 'N', of metrics: requests.go.
//
// Chunk numbers rise and are never used again, not even after a crash: a chunk
// that vanished was not acknowledged.
const (
	keyChunk = 'C'
	keyTrace = 'T'
)

// Parts of a chunk.
const (
	partZone    = 0 // bounds and counts; in memory while the store is open
	partNames   = 1 // dictionaries
	partColumn  = 2 // n: one of the columns
	partGroups  = 3 // resources and scopes
	partFilters = 4 // n: a part of the filters, which say what attributes a block may hold
	partBlock   = 5 // n: the block's number
)

func partKey(chunk uint64, part byte, n uint32) []byte {
	k := make([]byte, 0, 14)
	k = append(k, keyChunk)
	k = binary.BigEndian.AppendUint64(k, chunk)
	k = append(k, part)
	return binary.BigEndian.AppendUint32(k, n)
}

// chunkBounds are the keys between which everything of the chunk stands.
func chunkBounds(chunk uint64) (from, to []byte) {
	from = binary.BigEndian.AppendUint64([]byte{keyChunk}, chunk)
	return from, binary.BigEndian.AppendUint64([]byte{keyChunk}, chunk+1)
}

// eachKey calls f for all keys in [from, to), until it returns an error. Key and value are valid until f returns;
// doing is for the engine's errors.
func eachKey(r pebble.Reader, from, to []byte, doing string, f func(key, value []byte) error) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return engineError(doing, err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := f(it.Key(), it.Value()); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return engineError(doing, it.Close()) // Close says what Error would
}

func traceKey(id pcommon.TraceID, chunk uint64) []byte {
	k := make([]byte, 0, 25)
	k = append(k, keyTrace)
	k = append(k, id[:]...)
	return binary.BigEndian.AppendUint64(k, chunk)
}

// place is where a trace, or what one write had of it, stands.
type place struct {
	chunk   uint64
	ordinal uint32 // among the chunk's traces
	block   uint32
	offset  uint32 // in the block, decompressed
	length  uint32
}

func (p place) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(p.ordinal))
	b = binary.AppendUvarint(b, uint64(p.block))
	b = binary.AppendUvarint(b, uint64(p.offset))
	return binary.AppendUvarint(b, uint64(p.length))
}

// parsePlace reads key and value of a trace's entry.
func parsePlace(key, value []byte) (place, error) {
	if len(key) != 25 || key[0] != keyTrace {
		return place{}, corrupt("key of a trace has %d bytes", len(key))
	}
	d := decoder{b: value}
	p := place{
		chunk:   binary.BigEndian.Uint64(key[17:]),
		ordinal: d.uint32(), block: d.uint32(), offset: d.uint32(), length: d.uint32(),
	}
	return p, d.done("place of a trace")
}
