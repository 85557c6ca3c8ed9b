package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// maxWrite bounds one Write, in encoded bytes: what Pebble takes in a batch is
// 4 GiB, and places within a block have 32 bits.
const maxWrite = 1 << 30

// Write stores td. When it returns nil, everything in td survives kill -9, and
// a power cut unless Options.NoSync is set; when it returns an error, nothing of
// td is visible. td is neither changed nor kept. Spans of one trace may come in
// several writes, but whole traces and some thousand spans at once are cheaper.
//
// Errors: ErrFull, ErrClosed; ErrInvalid, if a span has no trace id or no span
// id (then trying again is useless).
func (s *Store) Write(ctx context.Context, td ptrace.Traces) error {
	spans := td.SpanCount()
	if spans == 0 {
		return nil
	}
	err := s.write(ctx, td)
	if err != nil {
		s.refused.Add(uint64(spans))
		return err
	}
	s.written.Add(uint64(spans))
	return nil
}

func (s *Store) write(ctx context.Context, td ptrace.Traces) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := encode(td)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(data) > maxWrite {
		return fmt.Errorf("%w: %d MiB of spans in one write, at most %d are taken", ErrInvalid, len(data)>>20, maxWrite>>20)
	}
	if err := s.checkDisk(s.writeNeeds(len(data))); err != nil {
		return err
	}
	b := newBuilder()
	defer b.release()
	if err := b.addTraces(data); err != nil {
		return err
	}
	batch := s.db.NewBatchWithSize(len(data)/4 + 4096)
	now := uint64(time.Now().UnixNano())
	z, err := b.build(s.next.Add(1)-1, now, now, batchWriter{batch})
	if err != nil {
		return errors.Join(engineError("writing", err), batch.Close())
	}
	if err := s.db.Apply(batch, pebble.Sync); err != nil {
		return errors.Join(engineError("writing", err), batch.Close())
	}
	if err := s.ledger.write([]entry{entryOf(ledgerAck, z)}); err != nil {
		s.log.Warn("store: if files are damaged, it will not be noticed that this chunk is missing", "chunk", z.chunk, "error", err)
	}
	s.mu.Lock()
	s.chunks = append(s.chunks, z)
	s.mu.Unlock()
	if z.mergeable() {
		select {
		case s.kick <- struct{}{}:
		default: // it is going to look anyway
		}
	}
	return engineError("writing", batch.Close())
}

type batchWriter struct{ *pebble.Batch }

func (w batchWriter) put(key, value []byte) error { return w.Set(key, value, nil) }
