package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Writers, readers, merges and retention at once. A trace that was acknowledged
// is found whole, and once, by everybody, at every moment.
func TestConcurrently(t *testing.T) {
	s := open(t, Options{NoSync: true})
	const writers, each = 4, 60
	ctx := context.Background()
	var writing, reading sync.WaitGroup
	stop := make(chan struct{})
	acknowledged := make(chan int, writers*each)
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				n := w*each + i
				// A trace in two writes, of which the second has the root.
				whole := shop(n, 1)
				first, second := ptrace.NewTraces(), ptrace.NewTraces()
				for i, rs := range whole.ResourceSpans().All() {
					to := first
					if i == 0 {
						to = second
					}
					rs.CopyTo(to.ResourceSpans().AppendEmpty())
				}
				for _, td := range []ptrace.Traces{first, second} {
					if err := s.Write(ctx, td); err != nil {
						t.Error(err)
						return
					}
				}
				acknowledged <- n
			}
		})
	}
	for range 2 {
		reading.Go(func() {
			for n := range acknowledged {
				td, err := s.Trace(ctx, traceID(uint64(n+1)))
				if err != nil || td.SpanCount() != 10 {
					t.Errorf("trace %d: %d spans, %v", n, td.SpanCount(), err)
				}
				start := hour0 + uint64(n)*1_000_000
				r, err := s.Search(ctx, Query{Start: timeOf(start), End: timeOf(start + 1_000_000), Limit: 5,
					Attributes: map[string]string{"server.port": "8080"}})
				if err != nil || len(r.Traces) != 1 || r.Traces[0].Spans != 10 || r.Traces[0].TraceID != traceID(uint64(n+1)) {
					t.Errorf("search for %d: %+v %v", n, r, err)
				}
			}
		})
	}
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := walk(s); err != nil {
				t.Error(err)
				return
			}
		}
	})
	writing.Wait()
	close(acknowledged)
	close(stop)
	reading.Wait()
	// Merging ends with few chunks.
	for deadline := time.Now().Add(time.Minute); len(s.list()) > 5*mergeCount; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d chunks", len(s.list()))
		}
	}
	if err := walk(s); err != nil {
		t.Error(err)
	}
	if st := s.Stats(); st.Spans != writers*each*10 || st.Refused != 0 {
		t.Errorf("%+v", st)
	}
}

// walk goes through all pages: no trace may come twice, and what every method
// says of the number of spans must not shrink.
func walk(s *Store) error {
	ctx := context.Background()
	before := s.Stats().Spans
	spans := uint64(0)
	l, err := s.Latencies(ctx, time.Time{}, time.Time{}, "", true)
	if err != nil {
		return err
	}
	for _, x := range l {
		spans += x.Count
	}
	if spans < before {
		return fmt.Errorf("%d spans have latencies, %d were there before", spans, before)
	}
	if _, err := s.Map(ctx, time.Time{}, time.Time{}); err != nil {
		return err
	}
	for q := (Query{Limit: 50}); ; {
		r, err := s.Search(ctx, q)
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, x := range r.Traces {
			if seen[x.TraceID.String()] {
				return fmt.Errorf("trace %v twice on a page", x.TraceID)
			}
			seen[x.TraceID.String()] = true
		}
		if q.After = r.Next; q.After == "" {
			return nil
		}
	}
}

// Close waits for what runs, and whoever comes later is told.
func TestCloseWhileInUse(t *testing.T) {
	s := open(t, Options{NoSync: true})
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := 0; ; i++ {
				if err := s.Write(context.Background(), shop(w*1000+i, 1)); err != nil {
					return
				}
				if _, err := s.Search(context.Background(), Query{}); err != nil {
					return
				}
			}
		})
	}
	for s.Stats().Written < 300 {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

func TestCancelled(t *testing.T) {
	s := open(t, Options{NoSync: true})
	write(t, s, shop(0, 10))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, e1 := s.Search(ctx, Query{})
	_, e2 := s.Latencies(ctx, time.Time{}, time.Time{}, "", false)
	for i, err := range []error{s.Write(ctx, shop(0, 1)), e1, e2} {
		if err == nil || ctx.Err() == nil {
			t.Errorf("%d: no error", i)
		}
	}
}
