package answer

import (
	"context"
	"net/http"
	"time"
)

// Turns lets only so many requests run at once.
type Turns chan struct{}

// NewTurns is for n requests at once.
func NewTurns(n int) Turns { return make(Turns, n) }

// Limit gives every request a deadline and a turn: what one asker may use is
// bounded, and so is what all of them may. Those beyond wait for their turn
// within their own deadline, then busy answers.
func (t Turns) Limit(next http.Handler, timeout time.Duration, busy func(w http.ResponseWriter)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		select {
		case t <- struct{}{}:
			defer func() { <-t }()
			next.ServeHTTP(w, r.WithContext(ctx))
		case <-ctx.Done():
			w.Header().Set("Retry-After", "5")
			busy(w)
		}
	})
}
