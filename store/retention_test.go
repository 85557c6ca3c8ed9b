package store

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Beyond its size the store removes the oldest, and the disk gets the space.
func TestHeavyRetentionBySize(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true, MaxBytes: MinBytes})
	ctx := context.Background()
	r := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 1<<20)
	const traces, writes = 40, 120
	most := uint64(0)
	for n := range writes {
		td := shop(n*traces, traces)
		for i := range noise {
			noise[i] = byte(r.Uint32()) // does not compress
		}
		td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes().PutEmptyBytes("noise").FromRaw(noise)
		write(t, s, td)
		if err := s.expire(ctx, time.Now()); err != nil {
			t.Fatal(err)
		}
		most = max(most, s.settled())
	}
	st := s.Stats()
	if most > MinBytes*5/4 {
		t.Errorf("%d bytes at some time, %d were allowed", most, MinBytes)
	}
	// The files themselves: the engine removes what it has replaced on its own.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if size := dirSize(t, s.opt.Dir); size <= MinBytes*5/4 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d bytes of files, %d were allowed", size, MinBytes)
		}
	}
	// It must not remove much more than it has to, either.
	if st.Spans+st.Expired != writes*traces*10 || st.Expired == 0 || st.Spans < 20*traces*10 {
		t.Errorf("%+v", st)
	}
	if _, err := s.Trace(ctx, traceID(1)); !errors.Is(err, ErrNotFound) {
		t.Errorf("the oldest: %v", err)
	}
	if td, err := s.Trace(ctx, traceID(writes*traces)); err != nil || td.SpanCount() != 10 {
		t.Errorf("the newest: %v", err)
	}
	if want := timeOf(hour0 + (st.Expired/10)*1_000_000); st.Oldest.Before(want) {
		t.Errorf("oldest %v, want %v", st.Oldest, want)
	}
}

// The upkeep removes by age on its own; a clock that is wrong keeps nothing.
func TestRetentionByAge(t *testing.T) {
	s := open(t, Options{NoSync: true, MaxAge: time.Second})
	write(t, s, shop(0, 10)) // of long ago
	future := shop(10, 1)
	for _, rs := range future.ResourceSpans().All() {
		for _, x := range rs.ScopeSpans().At(0).Spans().All() {
			x.SetStartTimestamp(pcommon.Timestamp(1 << 63))
			x.SetEndTimestamp(pcommon.Timestamp(1<<63 + 1))
		}
	}
	write(t, s, future)
	for deadline := time.Now().Add(time.Minute); s.Stats().Spans > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", s.Stats())
		}
	}
	if st := s.Stats(); st.Expired != 110 || st.Traces != 0 {
		t.Errorf("%+v", st)
	}
}

// What is merged was written at about the same time, or an old span would be
// kept as long as a new one.
func TestMergingRespectsAge(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true, MaxAge: 100 * time.Hour})
	for i := range 2 * mergeCount {
		write(t, s, shop(i, 1))
		z := s.chunks[len(s.chunks)-1]
		z.written = hour0 + uint64(i)*uint64(time.Hour)
		z.first = z.written
	}
	if merged, err := s.mergeOnce(); err != nil || merged {
		t.Errorf("merged %v, %v: 11 of them are of 10 hours", merged, err)
	}
	for _, z := range s.chunks {
		z.written = hour0 + (z.written-hour0)/2
		z.first = z.written
	}
	if merged, err := s.mergeOnce(); err != nil || !merged {
		t.Errorf("merged %v, %v: 21 of them are of 10 hours", merged, err)
	}
}

func dirSize(t *testing.T, dir string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}
