package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Config says how often and for how long to repeat. Its fields are those of
// the official exporters' RetryConfig.
type Config struct {
	// Enabled: without it, every export is tried once.
	Enabled bool
	// InitialInterval is the time to wait after the first failure, before
	// jitter. Zero means [Default]'s 5 s.
	InitialInterval time.Duration
	// MaxInterval bounds the wait, before jitter. Zero means 30 s.
	MaxInterval time.Duration
	// MaxElapsedTime bounds the time from the first attempt to the start of
	// the last one. Zero means no bound but the context's.
	MaxElapsedTime time.Duration
}

// Default is what the official exporters do by default.
var Default = Config{
	Enabled:         true,
	InitialInterval: 5 * time.Second,
	MaxInterval:     30 * time.Second,
	MaxElapsedTime:  time.Minute,
}

const (
	// Each wait is this many times as long as the one before it.
	growth = 1.5
	// A wait is spread evenly over interval × [1-spread, 1+spread), so that
	// clients that failed together do not come back together.
	spread = 0.5
)

// Validated returns c with its zero intervals replaced by the defaults, or an
// error for values that make no sense.
func (c Config) Validated() (Config, error) {
	if c.InitialInterval < 0 || c.MaxInterval < 0 || c.MaxElapsedTime < 0 {
		return c, fmt.Errorf("retry: negative time in %+v: use 0 for the default interval or for no limit of elapsed time", c)
	}
	if c.InitialInterval == 0 {
		c.InitialInterval = Default.InitialInterval
	}
	if c.MaxInterval == 0 {
		c.MaxInterval = max(Default.MaxInterval, c.InitialInterval)
	}
	return c, nil
}

// Transient is the error of an attempt that may succeed when it is repeated.
type Transient struct {
	Err error
	// After is how long the server wants to be left alone; 0 if it said nothing.
	After time.Duration
}

func (t *Transient) Error() string { return t.Err.Error() }

// IsTransient reports whether an attempt failed in a way that may pass.
func IsTransient(err error) bool {
	var t *Transient
	return errors.As(err, &t)
}

// Unwrap returns the reason.
func (t *Transient) Unwrap() error { return t.Err }

// Do calls attempt until it returns nil or an error that is not [Transient],
// or until there is no time left. It does not sleep towards a deadline that the
// next attempt could not meet: it returns at once, so that the caller can use
// the rest of its time. c must be [Config.Validated].
func (c Config) Do(ctx context.Context, attempt func(context.Context) error) error {
	start := time.Now()
	interval := min(c.InitialInterval, c.MaxInterval)
	for tries := 1; ; tries++ {
		err := attempt(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ended(context.Cause(ctx), tries, err)
		}
		var transient *Transient
		if !errors.As(err, &transient) {
			return err
		}
		if !c.Enabled {
			return transient.Err
		}
		delay := max(transient.After, jittered(interval))
		interval = min(time.Duration(float64(interval)*growth), c.MaxInterval)
		if c.MaxElapsedTime > 0 && delay > c.MaxElapsedTime-time.Since(start) {
			return fmt.Errorf("gave up after %d attempts, the next one would be past the limit of %v: %w", tries, c.MaxElapsedTime, transient.Err)
		}
		if deadline, ok := ctx.Deadline(); ok && delay > time.Until(deadline) {
			return ended(context.DeadlineExceeded, tries, transient.Err)
		}
		if !wait(ctx, delay) {
			return ended(context.Cause(ctx), tries, transient.Err)
		}
	}
}

// ended is the error of an export that the caller, not the server, put an end
// to: both reasons can be found by errors.Is.
func ended(cause error, tries int, last error) error {
	if errors.Is(last, cause) {
		return fmt.Errorf("ended after %d attempts: %w", tries, last)
	}
	return fmt.Errorf("%w after %d attempts: %w", cause, tries, last)
}

func jittered(interval time.Duration) time.Duration {
	return time.Duration(float64(interval) * (1 - spread + 2*spread*rand.Float64()))
}

// wait reports whether the whole delay has passed.
func wait(ctx context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
