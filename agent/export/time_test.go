package export

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a client without a network, for tests in virtual time.
type scripted struct {
	upload func(ctx context.Context) error
	calls  []time.Time
}

func (*scripted) Shutdown(context.Context) error { return nil }
func (*scripted) Endpoint() string               { return "nowhere" }

func (c *scripted) Export(ctx context.Context, _ []byte, _ int) (int, error) {
	c.calls = append(c.calls, time.Now())
	return 0, c.upload(ctx)
}

// virtual runs a test in virtual time with an exporter on a scripted client.
func virtual(t *testing.T, cfg Config, upload func(context.Context) error, test func(t *testing.T, e *Exporter, c *scripted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg, err := cfg.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		c := &scripted{upload: upload}
		e := start(t.Context(), cfg, c)
		test(t, e, c)
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func fine(context.Context) error { return nil }

func TestIntervalStartsAtTheFirstSpan(t *testing.T) {
	virtual(t, Config{FlushInterval: time.Second, Loss: &losses{}}, fine, func(t *testing.T, e *Exporter, c *scripted) {
		for round := range 3 {
			time.Sleep(time.Minute) // idle
			first := time.Now()
			e.Export(testSpans(1, nil))
			time.Sleep(900 * time.Millisecond)
			e.Export(testSpans(1, nil))
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(c.calls) != round+1 || c.calls[round].Sub(first) != time.Second {
				t.Fatalf("sent at %v, first span at %v", c.calls, first)
			}
		}
	})
}

func TestFullBatchDoesNotWait(t *testing.T) {
	virtual(t, Config{FlushInterval: time.Hour, MaxBatch: 10, Loss: &losses{}}, fine, func(t *testing.T, e *Exporter, c *scripted) {
		e.Export(testSpans(25, nil))
		synctest.Wait()
		if len(c.calls) != 2 {
			t.Errorf("%d batches, want 2", len(c.calls))
		}
		if n := e.sentSpans.Load(); n != 20 {
			t.Errorf("%d spans sent, want 20", n)
		}
	})
}

// While the sender is busy, spans gather in full batches only.
func TestBatchesFillWhileTheSenderIsBusy(t *testing.T) {
	slow := func(context.Context) error { time.Sleep(time.Minute); return nil }
	virtual(t, Config{FlushInterval: time.Second, MaxBatch: 100, Loss: &losses{}}, slow, func(t *testing.T, e *Exporter, c *scripted) {
		for range 31 {
			e.Export(testSpans(1, nil))
			time.Sleep(1500 * time.Millisecond)
		}
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(c.calls) != 2 {
			t.Errorf("%d batches, want 2", len(c.calls))
		}
	})
}

func TestRetriesUntilGivenUp(t *testing.T) {
	var lost losses
	cfg := Config{Loss: &lost, Retry: Retry{Initial: time.Second, Max: 10 * time.Second, For: time.Minute}}
	down := func(context.Context) error { return context.DeadlineExceeded } // the client's own, of one request
	virtual(t, cfg, down, func(t *testing.T, e *Exporter, c *scripted) {
		e.Export(testSpans(5, nil))
		begin := time.Now()
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("gave up after %v", took)
		}
		if len(c.calls) < 5 {
			t.Errorf("%d attempts in a minute", len(c.calls))
		}
		for i := 1; i < len(c.calls); i++ {
			if d := c.calls[i].Sub(c.calls[i-1]); d < 500*time.Millisecond || d > 15*time.Second {
				t.Errorf("attempt %d after %v", i, d)
			}
		}
	})
	lost.check(t, map[string]uint64{ReasonExportFailed: 5})
}

func TestFinalErrorIsNotRetried(t *testing.T) {
	var lost losses
	broken := func(context.Context) error { return errors.New("request message too large") }
	virtual(t, Config{Loss: &lost}, broken, func(t *testing.T, e *Exporter, c *scripted) {
		e.Export(testSpans(5, nil))
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(c.calls) != 1 {
			t.Errorf("%d attempts", len(c.calls))
		}
	})
	lost.check(t, map[string]uint64{ReasonExportFailed: 5})
}

// Shutdown ends a backoff that has begun.
func TestShutdownInterruptsRetry(t *testing.T) {
	var lost losses
	down := func(context.Context) error { return context.DeadlineExceeded }
	synctest.Test(t, func(t *testing.T) {
		cfg, err := Config{Loss: &lost, MaxBatch: 5}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		e := start(t.Context(), cfg, &scripted{upload: down})
		e.Export(testSpans(12, nil))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		if err := e.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("Shutdown took %v", took)
		}
	})
	lost.check(t, map[string]uint64{ReasonShutdown: 12})
}
