// Package redial keeps an exporter from asking again and again for a receiver that is not
// there: each attempt to connect looks its name up, and in a cluster one look-up of a name
// that does not exist is up to ten DNS queries.
package redial

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Pause is how long a failure to connect stands for the next ones, at most. It is shorter
// than any wait of retry.Default, so that it stands for no retry of these.
const Pause = 2 * time.Second

// Dial connects, as net.Dialer.DialContext does.
type Dial[C any] func(ctx context.Context, network, address string) (C, error)

// After returns a dial that, for so long after a failure, returns that failure again
// without a new attempt to reach the same address. An attempt that its own context has
// ended says nothing about the address. What it returns may be called concurrently.
func After[C any](pause time.Duration, dial Dial[C]) Dial[C] {
	var (
		mu     sync.Mutex
		failed string // network and address
		until  time.Time
		reason error
	)
	remembered := func(to string) error {
		mu.Lock()
		defer mu.Unlock()
		if to != failed || !time.Now().Before(until) {
			return nil
		}
		return fmt.Errorf("not tried again so soon after: %w", reason)
	}
	return func(ctx context.Context, network, address string) (C, error) {
		to := network + " " + address
		if err := remembered(to); err != nil {
			var none C
			return none, err
		}
		c, err := dial(ctx, network, address)
		if err != nil && ctx.Err() == nil {
			mu.Lock()
			failed, until, reason = to, time.Now().Add(pause), err
			mu.Unlock()
		}
		return c, err
	}
}
