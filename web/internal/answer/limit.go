package answer

import (
	"context"
	"net/http"
	"time"
)

// Turns bounds how many requests run at once.
type Turns chan struct{}

// NewTurns allows n requests at once.
func NewTurns(n int) Turns { return make(Turns, n) }

// Limit gives each request a deadline and runs at most cap(t) at once. Further requests
// wait within their deadline; when it passes, busy answers.
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
