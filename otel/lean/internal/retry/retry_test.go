package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tare-trace/tare/otel/lean/internal/retry"
)

var errServer = errors.New("the server said no")

func transient(after time.Duration) error {
	return &retry.Transient{Err: errServer, After: after}
}

// The tests run in a bubble whose clock moves only when everybody waits: times
// are exact, and nothing is slow.

func TestSucceedsAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		start := time.Now()
		err := retry.Default.Do(t.Context(), func(context.Context) error {
			if tries++; tries < 4 {
				return transient(0)
			}
			return nil
		})
		if err != nil || tries != 4 {
			t.Fatalf("err %v after %d attempts, want nil after 4", err, tries)
		}
		// 5 s, 7.5 s and 11.25 s, each ± 50%.
		if took := time.Since(start); took < 11875*time.Millisecond || took >= 35625*time.Millisecond {
			t.Errorf("three waits took %v, want 11.875 s to 35.625 s", took)
		}
	})
}

func TestWaitsGrowAndAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := retry.Config{Enabled: true, InitialInterval: time.Second, MaxInterval: 2 * time.Second}
		nominal := []time.Duration{1000, 1500, 2000, 2000, 2000} // ms; bounded by MaxInterval
		distinct := map[time.Duration]bool{}
		last, tries := time.Now(), 0
		_ = c.Do(t.Context(), func(context.Context) error {
			if tries > 0 {
				waited, want := time.Since(last), nominal[tries-1]*time.Millisecond
				if waited < want/2 || waited >= want*3/2 {
					t.Errorf("wait %d was %v, want %v ± 50%%", tries, waited, want)
				}
				distinct[waited] = true
			}
			last = time.Now()
			if tries++; tries > len(nominal) {
				return nil
			}
			return transient(0)
		})
		assert.Equal(t, len(nominal), len(distinct))
	})
}

func TestServerDelayIsTheLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, tries := time.Now(), 0
		err := retry.Default.Do(t.Context(), func(context.Context) error {
			if tries++; tries == 1 {
				return transient(20 * time.Second)
			}
			return nil
		})
		if took := time.Since(start); err != nil || took != 20*time.Second {
			t.Fatalf("err %v after %v, want the 20 s that the server asked for", err, took)
		}
	})
}

func TestGivesUp(t *testing.T) {
	for name, test := range map[string]struct {
		config   retry.Config
		err      error
		deadline time.Duration
		tries    int // 0: more than one
		is       error
	}{
		"not transient":            {config: retry.Default, err: errServer, tries: 1, is: errServer},
		"disabled":                 {err: transient(0), tries: 1, is: errServer},
		"server delay too long":    {config: retry.Default, err: transient(61 * time.Second), tries: 1, is: errServer},
		"server delay of 292 y":    {config: retry.Default, err: transient(1<<63 - 1), tries: 1, is: errServer},
		"elapsed time":             {config: retry.Default, err: transient(0), is: errServer},
		"deadline before the next": {config: retry.Default, err: transient(10 * time.Second), deadline: 5 * time.Second, tries: 1, is: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
					defer cancel()
				}
				start, tries := time.Now(), 0
				err := test.config.Do(ctx, func(context.Context) error { tries++; return test.err })
				if !errors.Is(err, test.is) || !errors.Is(err, errServer) {
					t.Errorf("error %q, want one that wraps %q and %q", err, test.is, errServer)
				}
				if test.tries == 0 && tries < 2 || test.tries > 0 && tries != test.tries {
					t.Errorf("%d attempts, want %d", tries, test.tries)
				}
				if took := time.Since(start); took > time.Minute || test.tries == 1 && took != 0 {
					t.Errorf("took %v: waiting without another attempt is of no use", took)
				}
			})
		})
	}
}

func TestCancelEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("shut down")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			time.Sleep(time.Second)
			cancel(cause)
		}()
		start := time.Now()
		err := retry.Default.Do(ctx, func(context.Context) error { return transient(0) })
		if !errors.Is(err, cause) || !errors.Is(err, errServer) {
			t.Errorf("error %q, want both the cause and the last failure", err)
		}
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestValidated(t *testing.T) {
	got, err := retry.Config{Enabled: true, MaxElapsedTime: time.Hour}.Validated()
	want := retry.Config{Enabled: true, InitialInterval: 5 * time.Second, MaxInterval: 30 * time.Second, MaxElapsedTime: time.Hour}
	if err != nil || got != want {
		t.Errorf("zero intervals became %+v (%v), want %+v", got, err, want)
	}
	if _, err := (retry.Config{InitialInterval: -1}).Validated(); err == nil {
		t.Error("a negative interval is accepted")
	}
}
