package main

import (
	"net/http"
	"time"
)

// framework is a context in the way of gin's: it has none, but a request that
// has one.
type framework struct {
	_       [2]int
	Request *http.Request
	keys    map[string]any
}

func (f *framework) Deadline() (time.Time, bool) { return time.Time{}, false }
func (f *framework) Done() <-chan struct{}       { return nil }
func (f *framework) Err() error                  { return nil }
func (f *framework) Value(k any) any {
	if s, ok := k.(string); ok {
		return f.keys[s]
	}
	return f.Request.Context().Value(k)
}
