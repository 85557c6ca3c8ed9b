package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// upkeep merges small chunks and removes old ones, one after the other, until
// the context ends.
func (s *Store) upkeep(ctx context.Context) {
	defer close(s.done)
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		case <-tick.C:
			if err := s.expire(ctx, s.now()); err != nil && ctx.Err() == nil {
				s.log.Error("store: removing what is too old or too much failed, it will be tried again", "error", err)
			}
		}
		for ctx.Err() == nil {
			merged, err := s.mergeOnce()
			if err != nil {
				s.log.Error("store: merging small chunks failed, it will be tried again", "error", err)
			}
			if err != nil || !merged {
				break
			}
		}
	}
}

// expire removes the chunks that are too old at the time, and the oldest while
// the directory is too large; and likewise log records.
func (s *Store) expire(ctx context.Context, now time.Time) error {
	return errors.Join(s.expireSpans(ctx, now), s.expireServices(ctx, now), s.expireLogs(ctx, now), s.expireServiceLogs(ctx, now), s.expireRequests(ctx, now))
}

func (s *Store) expireSpans(ctx context.Context, now time.Time) error {
	chunks := s.list()
	slices.SortFunc(chunks, func(a, b *zone) int { return cmp.Compare(a.age(), b.age()) })
	old := 0
	if s.opt.MaxAge > 0 {
		limit := uint64(max(now.Add(-s.opt.MaxAge).UnixNano(), 0))
		for old < len(chunks) && chunks[old].age() < limit {
			old++
		}
	}
	reason := "age"
	if usage := s.settled(); s.opt.MaxBytes > 0 && usage > uint64(s.opt.MaxBytes) {
		// A twentieth more than needed, so that it is not needed again at once.
		free := usage - uint64(s.opt.MaxBytes) + uint64(s.opt.MaxBytes)/20
		for n, z := range chunks {
			if n >= old {
				old, reason = n+1, "size"
			}
			if z.bytes >= free {
				break
			}
			free -= z.bytes
		}
	}
	if old == 0 {
		return nil
	}
	var spans uint64
	for _, z := range chunks[:old] {
		if err := s.removeChunk(z); err != nil {
			return err
		}
		spans += uint64(z.spans)
	}
	s.log.Info("store: removed what is too old or too much", "reason", reason, "spans", spans, "chunks", old)
	return s.free(ctx, chunks[:old])
}

// settled is the size of the directory without what is there twice while the
// engine compacts.
func (s *Store) settled() uint64 {
	m := s.db.Metrics()
	twice := uint64(m.Compact.InProgressBytes) + m.Table.Local.ObsoleteSize + m.Table.Local.ZombieSize
	return m.DiskSpaceUsage() - min(twice, m.DiskSpaceUsage())
}

// removeChunk removes a chunk and the entries of its traces.
func (s *Store) removeChunk(z *zone) error {
	batch := s.db.NewBatch()
	if err := s.deleteChunk(batch, z); err != nil {
		return errors.Join(err, batch.Close())
	}
	if err := s.ledger.before(ledgerRemoved, []*zone{z}, 0); err != nil {
		s.log.Warn("store: the ledger does not say that a chunk is removed, which will be reported as lost", "chunk", z.chunk, "error", err)
	}
	// Not synced: after a power cut the chunk may be there again, and goes again.
	if err := s.apply(batch, &change{gone: []*zone{z}}); err != nil {
		return errors.Join(engineError("removing a chunk", err), batch.Close())
	}
	s.expired.Add(uint64(z.spans))
	return engineError("removing a chunk", batch.Close())
}

// deleteChunk adds to the batch what removes the chunk.
func (s *Store) deleteChunk(batch *pebble.Batch, z *zone) error {
	b, closer, err := s.db.Get(partKey(z.chunk, partColumn, colTraceID))
	if err := engineError("reading trace ids", err); errors.Is(err, ErrCorrupt) {
		// The entries of its traces stay; whoever follows them finds that it is gone.
		s.log.Warn("store: removing a damaged chunk", "chunk", z.chunk, "error", err)
	} else if err != nil {
		return err
	} else {
		defer closer.Close()
	}
	for ; len(b) >= 16; b = b[16:] {
		if err := batch.Delete(traceKey(pcommon.TraceID(b[:16]), z.chunk), nil); err != nil {
			return engineError("removing a chunk", err)
		}
	}
	from, to := chunkBounds(z.chunk)
	return engineError("removing a chunk", batch.DeleteRange(from, to, nil))
}

// free makes the engine give the space of removed chunks back to the disk.
func (s *Store) free(ctx context.Context, removed []*zone) error {
	first, last := removed[0].chunk, removed[0].chunk
	for _, z := range removed {
		first, last = min(first, z.chunk), max(last, z.chunk)
	}
	from, _ := chunkBounds(first)
	_, to := chunkBounds(last)
	return engineError("freeing space", s.db.Compact(ctx, from, to, false))
}
