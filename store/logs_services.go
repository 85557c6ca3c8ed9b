package store

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/klauspost/compress/s2"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	spantext "github.com/tare-trace/tare/span/text"
)

// stringIn is the attribute's value, if it is a string; "": it is none, or there is none.
func stringIn(attributes pcommon.Map, key string) string {
	v, ok := attributes.Get(key)
	if !ok || v.Type() != pcommon.ValueTypeStr {
		return ""
	}
	return v.Str()
}

// nameIn is stringIn for a name, as a dictionary has it.
func nameIn(attributes pcommon.Map, key string) string {
	return spantext.Name(stringIn(attributes, key), spantext.MostName)
}

// identityIn is what of a resource a scope asks for.
func identityIn(r pcommon.Resource) identity {
	of := r.Attributes()
	id := identity{nameIn(of, "service.name"), nameIn(of, "service.namespace"), nameIn(of, "deployment.environment.name")}
	if id.service == "" {
		id.service = UnknownService
	}
	if id.environment == "" {
		id.environment = nameIn(of, "deployment.environment")
	}
	return id
}

// seeLogs removes the records that have expired, and those that the scope does not allow. A record that tells no
// time, or one after it was written, has that of until.
func (l *lens) seeLogs(ld plog.Logs, until time.Time) {
	written := uint64(max(until.UnixNano(), 0)) //nolint:gosec // not negative
	ld.ResourceLogs().RemoveIf(func(rl plog.ResourceLogs) bool {
		id := identityIn(rl.Resource())
		if l.scope != nil && !l.scope.Sees(id.service, id.namespace, id.environment) {
			return true
		}
		limit := l.limit(id.service)
		if limit == 0 {
			return false
		}
		rl.ScopeLogs().RemoveIf(func(sl plog.ScopeLogs) bool {
			sl.LogRecords().RemoveIf(func(r plog.LogRecord) bool {
				at := uint64(r.Timestamp())
				if at == 0 {
					at = uint64(r.ObservedTimestamp())
				}
				if at == 0 {
					at = written
				}
				return min(at, written) < limit
			})
			return sl.LogRecords().Len() == 0
		})
		return rl.ScopeLogs().Len() == 0
	})
}

// until is when the last record of the i-th segment was written, at the latest.
func (o *Options) until(segments []segment, i int, now time.Time) time.Time {
	if i+1 < len(segments) {
		return segments[i+1].first
	}
	if short := o.shortest(); short > 0 { // then the next write begins another
		if end := segments[i].first.Add(short / logSegments); end.Before(now) {
			return end
		}
	}
	return now
}

// expireServiceLogs removes from the disk the log records of services with a retention of their own: those of a
// segment when its newest may have expired. Queries leave them out before.
func (s *Store) expireServiceLogs(ctx context.Context, now time.Time) error {
	if len(s.opt.Services) == 0 {
		return nil
	}
	l := &s.logs
	l.mu.Lock()
	segments := append([]segment(nil), l.segments...)
	l.mu.Unlock()
	purged := l.purged
	l.purged = make(map[uint32]int, len(segments))
	for i, g := range segments {
		until := s.opt.until(segments, i, now)
		var due []rule // of which no record of the segment is young enough
		for _, r := range s.rules(now) {
			if uint64(max(until.UnixNano(), 0)) < r.limit { //nolint:gosec // not negative
				due = append(due, r)
			}
		}
		if len(due) > purged[g.number] {
			if err := s.purgeSegment(ctx, g, &lens{rules: due}, until); errors.Is(err, ErrCorrupt) {
				s.log.Error("store: damaged log records stay until their segment is removed", "error", err)
			} else if err != nil {
				return err
			}
		}
		l.purged[g.number] = len(due)
	}
	return nil
}

// purgeSegment writes the records of a segment anew, without those that the lens leaves out. Nothing else writes to it.
func (s *Store) purgeSegment(ctx context.Context, g segment, lens *lens, until time.Time) error {
	from, to := logKey(g.number, pcommon.TraceID{}, 0), logKey(g.number+1, pcommon.TraceID{}, 0)
	batch := s.db.NewBatch()
	defer func() { _ = batch.Close() }() // it is applied by then, or given up
	var records, bytes int64
	var damaged error
	err := eachKey(s.db, from, to, "reading log records", func(key, was []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		ld, err := decodeLogs(was)
		if err != nil {
			damaged = corrupt("log records of segment %d: %v", g.number, err)
			return nil
		}
		before := ld.LogRecordCount()
		lens.seeLogs(ld, until)
		after := ld.LogRecordCount()
		if after == before {
			return nil
		}
		records += int64(before - after)
		bytes += int64(len(key) + len(was))
		if after == 0 {
			return engineError("removing log records", batch.Delete(key, nil))
		}
		value, err := (&plog.ProtoMarshaler{}).MarshalLogs(ld)
		if err != nil {
			return err
		}
		d := decoder{b: was}
		value = append(binary.AppendUvarint(nil, d.uint64()), s2.Encode(nil, value)...)
		bytes -= int64(len(key) + len(value))
		return engineError("removing log records", batch.Set(key, value, nil))
	})
	if err != nil {
		return err
	}
	if records == 0 {
		return damaged
	}
	if err := s.applyPurge(batch, g.number, records, bytes); err != nil {
		return err
	}
	s.log.Info("store: removed log records", "reason", "service", "records", records)
	return errors.Join(damaged, engineError("freeing space", s.db.Compact(ctx, from, to, false)))
}

// applyPurge makes the change, and says in the segment's head what is left of it.
func (s *Store) applyPurge(batch *pebble.Batch, number uint32, records, bytes int64) error {
	l := &s.logs
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.segments {
		if l.segments[i].number != number {
			continue
		}
		now := &l.segments[i]
		now.bytes -= min(bytes, now.bytes)
		now.records -= min(uint64(records), now.records) //nolint:gosec // not negative
		if err := batch.Set(segmentKey(number), now.head(), nil); err != nil {
			return engineError("removing log records", err)
		}
	}
	// Not synced, as where chunks are removed.
	if err := s.db.Apply(batch, pebble.NoSync); err != nil {
		return engineError("removing log records", err)
	}
	l.records.Add(-records)
	l.bytes.Add(-bytes)
	l.expired.Add(uint64(records)) //nolint:gosec // not negative
	return nil
}
