package gate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/otel/lean/internal/gate"
)

type key struct{}

func TestContextIsJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("why")
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "span of a request"))
		timed, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		run, leave, err := gate.New().Enter(timed)
		require.NoError(t, err)
		defer leave()
		if got, ok := run.Deadline(); !ok || time.Until(got) != time.Minute {
			t.Errorf("deadline in %v (%v), want the caller's minute", time.Until(got), ok)
		}
		assert.Nil(t, run.Value(key{}), "the caller's values are visible to the export")
		cancel(cause)
		<-run.Done()
		if context.Cause(run) != cause {
			t.Errorf("cause %v, want the caller's", context.Cause(run))
		}
	})
}

func TestDeadlineIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		run, leave, err := gate.New().Enter(ctx)
		require.NoError(t, err)
		defer leave()
		<-run.Done()
		assert.ErrorIs(t, context.Cause(run), context.DeadlineExceeded, "cause")
	})
}

func TestShutWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New()
		run, leave, err := g.Enter(t.Context())
		require.NoError(t, err)
		go func() {
			time.Sleep(time.Second)
			if run.Err() != nil {
				t.Error("the export was ended although there was time")
			}
			leave()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		first, err := g.Shut(ctx)
		if !first || err != nil || time.Since(start) != time.Second {
			t.Errorf("first %v, err %v after %v", first, err, time.Since(start))
		}
		if _, _, err := g.Enter(t.Context()); !errors.Is(err, gate.ErrShut) {
			t.Errorf("Enter after Shut: %v", err)
		}
		if first, err := g.Shut(ctx); first || err != nil {
			t.Errorf("second Shut: first %v, err %v", first, err)
		}
	})
}

func TestShutEndsWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New()
		run, leave, err := g.Enter(t.Context())
		require.NoError(t, err)
		left := false
		go func() {
			<-run.Done()
			assert.ErrorIs(t, context.Cause(run), gate.ErrShut, "cause")
			time.Sleep(time.Second)
			left = true
			leave()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := g.Shut(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err %v, want the deadline's", err)
		}
		assert.True(t, left, "Shut returned before the export did: its bytes may still be in use")
	})
}

// A context that is already over is no reason to complain if there is nobody
// to wait for.
func TestShutWithoutTimeOrNeedForIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if _, err := gate.New().Shut(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
