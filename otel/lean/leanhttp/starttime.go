package leanhttp

import (
	"context"
	"time"
)

type startTimeKey struct{}

// ContextWithStartTime returns a context that tells a handler when the work
// for its request began, for instance before a queue: its span begins then,
// and the duration that an observer gets counts from then.
func ContextWithStartTime(parent context.Context, start time.Time) context.Context {
	return context.WithValue(parent, startTimeKey{}, start)
}

// StartTimeFromContext returns what ContextWithStartTime was given, or the
// zero time.
func StartTimeFromContext(ctx context.Context) time.Time {
	t, _ := ctx.Value(startTimeKey{}).(time.Time)
	return t
}
