package leanhttp

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// names keeps the span names "METHOD route" that have been built, so that each
// is one allocation in all.
type names struct {
	built atomic.Pointer[map[nameKey]string]
	mu    sync.Mutex // of who replaces built
}

type nameKey struct{ method, pattern string }

// maxNames bounds names: patterns are the service's own, but a middleware may
// fill Pattern with anything.
const maxNames = 1024

// of returns "METHOD route", or "METHOD" if no route is known.
func (n *names) of(r *http.Request) string {
	method, ok := knownMethod(r.Method)
	if !ok {
		method = "HTTP"
	}
	if r.Pattern == "" {
		return method
	}
	key := nameKey{method, r.Pattern}
	built := n.built.Load()
	if built != nil {
		if name, ok := (*built)[key]; ok {
			return name
		}
	}
	route := routeOf(r.Pattern)
	if route == "" {
		return method
	}
	name := method + " " + route
	if built == nil || len(*built) < maxNames {
		key.pattern = strings.Clone(key.pattern) // it may be a part of something large
		n.add(key, name)
	}
	return name
}

func (n *names) add(key nameKey, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := map[nameKey]string{}
	if built := n.built.Load(); built != nil {
		next = maps.Clone(*built)
	}
	next[key] = name
	n.built.Store(&next)
}

// clientName is otelhttp's default for clients.
func clientName(_ string, r *http.Request) string {
	switch r.Method {
	case http.MethodGet:
		return "HTTP GET"
	case http.MethodPost:
		return "HTTP POST"
	case http.MethodPut:
		return "HTTP PUT"
	case http.MethodDelete:
		return "HTTP DELETE"
	case http.MethodHead:
		return "HTTP HEAD"
	}
	return "HTTP " + r.Method
}
