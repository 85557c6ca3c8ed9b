package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/klauspost/compress/s2"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

// Bounds of log records. A record may be as large as a page of text with its stack trace.
const (
	MaxTraceLogs  = 1000     // records of a trace
	maxTraceBytes = 1 << 20  // of a trace's records with their resources, in OTLP: queries need not wait for them
	maxLogRecord  = 64 << 10 // bytes of a record, in OTLP
	defaultLogs   = 1 << 30  // bytes of all records, compressed
	logShare      = 8        // at most an eighth of Options.MaxBytes is log records'
	logSegments   = 16       // so many are there when the oldest is removed
	minSegment    = 64 << 10 // bytes
)

// segment is a part of the log records: those that were written within some time. It is removed as a whole.
type segment struct {
	number  uint32
	first   time.Time // of its writes
	bytes   int64
	records uint64
}

// logs are the log records that are kept beside traces. They are not in chunks, since they come in
// other writes than the spans, and nothing is searched in them: a trace's records are read by its id.
//
//	'L' segment(4) trace id(16) n(4)  how many bytes a trace's records have with these, and these, OTLP
//	                                  compressed; with them, the trace has n
//	'M' segment(4)                    what the segment holds
type logs struct {
	mu       sync.Mutex // of writes and removals
	segments []segment  // rising
	next     uint32
	purged   map[uint32]int // by segment: how many rules have been applied to it; the upkeep's

	records, bytes                        atomic.Int64
	written, refused, expired             atomic.Uint64
	noTrace, tooLarge, traceFull, evicted atomic.Uint64
}

// LogStats describes the log records beside the traces, and counts them since the store was opened.
type LogStats struct {
	Records, Bytes uint64 // stored
	Written        uint64
	Expired        uint64 // removed by age, of all or of their service
	Refused        uint64 // not taken: disk full, closed
	// Dropped by a bound or for lack of a trace id.
	NoTrace   uint64 // no trace id
	TooLarge  uint64 // more than 64 KiB
	TraceFull uint64 // of a trace that has MaxTraceLogs, or 1 MiB
	Evicted   uint64 // the oldest, so that all stay below Options.MaxLogBytes
}

const (
	keyLog     = 'L'
	keySegment = 'M'
)

func logKey(segment uint32, id pcommon.TraceID, n uint32) []byte {
	k := binary.BigEndian.AppendUint32([]byte{keyLog}, segment)
	return binary.BigEndian.AppendUint32(append(k, id[:]...), n)
}

func segmentKey(segment uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{keySegment}, segment)
}

// maxLogBytes is the bound of all log records.
func (o *Options) maxLogBytes() int64 {
	limit := int64(defaultLogs)
	if o.MaxLogBytes > 0 {
		limit = o.MaxLogBytes
	}
	if o.MaxBytes > 0 {
		limit = min(limit, o.MaxBytes/logShare)
	}
	return limit
}

// loadLogs reads what the segments hold.
func (s *Store) loadLogs() error {
	l := &s.logs
	return eachKey(s.db, []byte{keySegment}, []byte{keySegment + 1}, "reading the log records", func(key, value []byte) error {
		d := decoder{b: value}
		first, bytes, records := d.uint64(), d.uint64(), d.uint64()
		if err := d.done("segment of log records"); err != nil || len(key) != 5 {
			return corrupt("a segment of log records: %v", err)
		}
		g := segment{binary.BigEndian.Uint32(key[1:]), timeOf(first), int64(bytes), records} //nolint:gosec // as they were written
		l.segments = append(l.segments, g)
		l.bytes.Add(g.bytes)
		l.records.Add(int64(g.records)) //nolint:gosec // a count
		l.next = g.number + 1
		return nil
	})
}

// gathered are the records that a write has of a trace.
type gathered struct {
	ld       plog.Logs
	resource int // index in the source of the last ResourceLogs and ScopeLogs
	scope    int
	sizes    []int // of the records, in OTLP
}

// gather sorts records by trace, and drops those that cannot be kept.
func (s *Store) gather(ld plog.Logs) map[pcommon.TraceID]*gathered {
	var sizes plog.ProtoMarshaler
	all := map[pcommon.TraceID]*gathered{}
	for i, rl := range ld.ResourceLogs().All() {
		for j, sl := range rl.ScopeLogs().All() {
			for _, r := range sl.LogRecords().All() {
				if r.TraceID().IsEmpty() {
					s.logs.noTrace.Add(1)
					continue
				}
				size := sizes.LogRecordSize(r)
				if size > maxLogRecord {
					s.logs.tooLarge.Add(1)
					continue
				}
				g := all[r.TraceID()]
				if g == nil {
					g = &gathered{ld: plog.NewLogs(), resource: -1}
					all[r.TraceID()] = g
				}
				if g.resource != i {
					to := g.ld.ResourceLogs().AppendEmpty()
					rl.Resource().CopyTo(to.Resource())
					to.SetSchemaUrl(rl.SchemaUrl())
					g.resource, g.scope = i, -1
				}
				last := g.ld.ResourceLogs().At(g.ld.ResourceLogs().Len() - 1)
				if g.scope != j {
					to := last.ScopeLogs().AppendEmpty()
					sl.Scope().CopyTo(to.Scope())
					to.SetSchemaUrl(sl.SchemaUrl())
					g.scope = j
				}
				r.CopyTo(last.ScopeLogs().At(last.ScopeLogs().Len() - 1).LogRecords().AppendEmpty())
				g.sizes = append(g.sizes, size)
			}
		}
	}
	return all
}

// WriteLogs keeps log records beside the traces that they name, whether spans of these are stored or
// come later. When it returns nil, they survive what Write's spans do. Records without a trace id, beyond
// 64 KiB, and beyond MaxTraceLogs or 1 MiB of one trace are dropped and counted ([LogStats]); so are the oldest
// of all beyond Options.MaxLogBytes. They are not in the ledger: what damaged files had of them is lost.
//
// Errors: ErrFull, ErrClosed.
func (s *Store) WriteLogs(ctx context.Context, ld plog.Logs) error {
	if ld.LogRecordCount() == 0 {
		return nil
	}
	err := s.writeLogs(ctx, ld)
	if err != nil {
		s.logs.refused.Add(uint64(ld.LogRecordCount())) //nolint:gosec // a count
	}
	return err
}

func (s *Store) writeLogs(ctx context.Context, ld plog.Logs) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.checkDisk(s.writeNeeds((&plog.ProtoMarshaler{}).LogsSize(ld))); err != nil {
		return err
	}
	all := s.gather(ld)
	l := &s.logs
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.current(s.opt, s.now())
	batch := s.db.NewBatch()
	defer func() { _ = batch.Close() }() // it is applied by then, or given up
	var records uint64
	for id, t := range all {
		n, err := s.putLogs(batch, g.number, id, t, &g.bytes)
		if err != nil {
			return err
		}
		records += uint64(n) //nolint:gosec // a count
	}
	if records == 0 {
		return nil
	}
	g.records += records
	if err := batch.Set(segmentKey(g.number), g.head(), nil); err != nil {
		return engineError("writing log records", err)
	}
	if err := s.db.Apply(batch, pebble.Sync); err != nil {
		return engineError("writing log records", err)
	}
	l.put(g)
	l.records.Add(int64(records)) //nolint:gosec // a count
	l.written.Add(records)
	return nil
}

// head says what the segment holds.
func (g *segment) head() []byte {
	head := binary.AppendUvarint(nil, uint64(g.first.UnixNano()))                       //nolint:gosec // of this century
	return binary.AppendUvarint(binary.AppendUvarint(head, uint64(g.bytes)), g.records) //nolint:gosec // not negative
}

// current is the segment to write to: the last one, or one that put adds.
func (l *logs) current(o Options, now time.Time) segment {
	if n := len(l.segments); n > 0 {
		g := l.segments[n-1]
		full := g.bytes >= max(o.maxLogBytes()/logSegments, minSegment)
		old := o.shortest() > 0 && now.Sub(g.first) > o.shortest()/logSegments
		if !full && !old {
			return g
		}
	}
	return segment{number: l.next, first: now}
}

func (l *logs) put(g segment) {
	if n := len(l.segments); n > 0 && l.segments[n-1].number == g.number {
		l.bytes.Add(g.bytes - l.segments[n-1].bytes)
		l.segments[n-1] = g
		return
	}
	l.segments = append(l.segments, g)
	l.bytes.Add(g.bytes)
	l.next = g.number + 1
}

// putLogs adds a trace's records to the batch, as many as it may still have.
func (s *Store) putLogs(batch *pebble.Batch, segment uint32, id pcommon.TraceID, t *gathered, bytes *int64) (int, error) {
	before, size, err := s.countLogs(id)
	if err != nil {
		return 0, err
	}
	whole := len(t.sizes)
	for size += (&plog.ProtoMarshaler{}).LogsSize(t.ld); len(t.sizes) > 0 && (size > maxTraceBytes || before+len(t.sizes) > MaxTraceLogs); {
		last := len(t.sizes) - 1
		size -= t.sizes[last]
		t.sizes = t.sizes[:last]
	}
	n := len(t.sizes)
	s.logs.traceFull.Add(uint64(whole - n)) //nolint:gosec // not negative
	if n == 0 {
		return 0, nil
	}
	if n < whole {
		t.cut(n)
	}
	value, err := (&plog.ProtoMarshaler{}).MarshalLogs(t.ld)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	key := logKey(segment, id, uint32(before+n))                                      //nolint:gosec // at most MaxTraceLogs
	value = append(binary.AppendUvarint(nil, uint64(size)), s2.Encode(nil, value)...) //nolint:gosec // at most maxTraceBytes
	*bytes += int64(len(key) + len(value))
	return n, engineError("writing log records", batch.Set(key, value, nil))
}

// cut leaves the first n records.
func (t *gathered) cut(n int) {
	t.ld.ResourceLogs().RemoveIf(func(rl plog.ResourceLogs) bool {
		rl.ScopeLogs().RemoveIf(func(sl plog.ScopeLogs) bool {
			sl.LogRecords().RemoveIf(func(plog.LogRecord) bool {
				n--
				return n < 0
			})
			return sl.LogRecords().Len() == 0
		})
		return rl.ScopeLogs().Len() == 0
	})
}

// countLogs is how many records of the trace are stored, and their size, by the newest of them.
func (s *Store) countLogs(id pcommon.TraceID) (count, size int, err error) {
	for i := len(s.logs.segments) - 1; i >= 0; i-- {
		n := s.logs.segments[i].number
		it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: logKey(n, id, 0), UpperBound: logKey(n, id, MaxTraceLogs+1)})
		if err != nil {
			return 0, 0, engineError("counting log records", err)
		}
		if it.Last() {
			count = int(binary.BigEndian.Uint32(it.Key()[21:]))
			d := decoder{b: it.Value()}
			size = int(min(d.uint64(), maxTraceBytes))
		}
		if err := it.Close(); err != nil {
			return 0, 0, engineError("counting log records", err)
		}
		if count > 0 {
			return count, size, nil
		}
	}
	return 0, 0, nil
}

// Logs returns the log records that are stored beside a trace, in the order in which they came, none
// if there are none. If it returns ErrCorrupt, they are those that can be read.
func (s *Store) Logs(ctx context.Context, id pcommon.TraceID) (plog.Logs, error) {
	out := plog.NewLogs()
	if err := s.begin(); err != nil {
		return out, err
	}
	defer s.end()
	s.logs.mu.Lock()
	segments := slices.Clone(s.logs.segments)
	s.logs.mu.Unlock()
	now := s.now()
	l := s.lens(ctx, now)
	for i, g := range segments {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		part := plog.NewLogs()
		err := s.readLogs(g.number, id, part)
		if l != nil {
			l.seeLogs(part, s.opt.until(segments, i, now))
		}
		part.ResourceLogs().MoveAndAppendTo(out.ResourceLogs())
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func (s *Store) readLogs(segment uint32, id pcommon.TraceID, out plog.Logs) error {
	return eachKey(s.db, logKey(segment, id, 0), logKey(segment, id, MaxTraceLogs+1), "reading log records", func(_, value []byte) error {
		ld, err := decodeLogs(value)
		if err != nil {
			return corrupt("log records of %s: %v", id, err)
		}
		ld.ResourceLogs().MoveAndAppendTo(out.ResourceLogs())
		return nil
	})
}

func decodeLogs(value []byte) (plog.Logs, error) {
	d := decoder{b: value}
	d.uint64()
	value = d.b
	n, err := s2.DecodedLen(value)
	if err != nil || n > maxTraceBytes {
		return plog.Logs{}, fmt.Errorf("%d bytes decompressed: %w", n, errors.Join(err, s2.ErrCorrupt))
	}
	b, err := s2.Decode(nil, value)
	if err != nil {
		return plog.Logs{}, err
	}
	return (&plog.ProtoUnmarshaler{}).UnmarshalLogs(b)
}

// expireLogs removes the segments that are too old at the time, or older than all spans that retention
// has left, and the oldest beyond the bound. Age counts from a segment's first write, so that no record is
// kept for longer than Options.MaxAge; it may go by a sixteenth of that earlier.
func (s *Store) expireLogs(ctx context.Context, now time.Time) error {
	l := &s.logs
	l.mu.Lock()
	n := 0
	total := l.bytes.Load()
	var aged, evicted uint64
	spans := s.oldestWrite()
	for i, g := range l.segments {
		old := s.opt.MaxAge > 0 && now.Sub(g.first) >= s.opt.MaxAge ||
			i+1 < len(l.segments) && l.segments[i+1].first.Before(spans)
		if !old && total <= s.opt.maxLogBytes() {
			break
		}
		if old {
			aged += g.records
		} else {
			evicted += g.records
		}
		total -= g.bytes
		n++
	}
	var from, to []byte
	if n > 0 {
		from, to = logKey(l.segments[0].number, pcommon.TraceID{}, 0), logKey(l.segments[n-1].number+1, pcommon.TraceID{}, 0)
	}
	err := s.removeSegments(n)
	l.mu.Unlock()
	if err != nil || n == 0 {
		return err
	}
	l.expired.Add(aged)
	l.evicted.Add(evicted)
	s.log.Info("store: removed log records", "too_old", aged, "too_many", evicted)
	return engineError("freeing space", s.db.Compact(ctx, from, to, false))
}

// oldestWrite is when the oldest spans that retention has left were written; zero if it has removed none.
func (s *Store) oldestWrite() time.Time {
	if s.expired.Load() == 0 {
		return time.Time{}
	}
	oldest := ^uint64(0)
	for _, z := range s.list() {
		oldest = min(oldest, z.first)
	}
	if oldest == ^uint64(0) {
		return time.Time{}
	}
	return timeOf(oldest)
}

// removeSegments removes the first n segments. l.mu is held.
func (s *Store) removeSegments(n int) error {
	l := &s.logs
	if n == 0 {
		return nil
	}
	batch := s.db.NewBatch()
	defer func() { _ = batch.Close() }() // as in writeLogs
	from, to := l.segments[0].number, l.segments[n-1].number+1
	for _, key := range [...]func(uint32) []byte{segmentKey, func(n uint32) []byte { return logKey(n, pcommon.TraceID{}, 0) }} {
		if err := batch.DeleteRange(key(from), key(to), nil); err != nil {
			return engineError("removing log records", err)
		}
	}
	// Not synced, as where chunks are removed.
	if err := s.db.Apply(batch, pebble.NoSync); err != nil {
		return engineError("removing log records", err)
	}
	for _, g := range l.segments[:n] {
		l.bytes.Add(-g.bytes)
		l.records.Add(-int64(g.records)) //nolint:gosec // a count
	}
	l.segments = slices.Delete(l.segments, 0, n)
	return nil
}

// LogStats returns the state of the log records.
func (s *Store) LogStats() LogStats {
	l := &s.logs
	return LogStats{
		Records: uint64(l.records.Load()), Bytes: uint64(l.bytes.Load()), //nolint:gosec // not negative
		Written: l.written.Load(), Expired: l.expired.Load(), Refused: l.refused.Load(),
		NoTrace: l.noTrace.Load(), TooLarge: l.tooLarge.Load(), TraceFull: l.traceFull.Load(), Evicted: l.evicted.Load(),
	}
}
