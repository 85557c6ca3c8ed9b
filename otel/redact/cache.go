package redact

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// cacheEntries and cacheKeyBytes bound what a cache remembers. Attribute keys
// and parameter names are few in a service; who invents new ones with every
// request gets them worked out each time, and no memory.
const (
	cacheEntries  = 1024
	cacheKeyBytes = 128
)

// cache maps strings to what was worked out for them. A reader takes one
// atomic load and one map access; a writer copies the map.
type cache[V any] struct {
	m  atomic.Pointer[map[string]V]
	mu sync.Mutex
}

func (c *cache[V]) get(key string) (v V, ok bool) {
	if m := c.m.Load(); m != nil {
		v, ok = (*m)[key]
	}
	return v, ok
}

func (c *cache[V]) put(key string, v V) {
	if len(key) > cacheKeyBytes || !c.mu.TryLock() { // next time, then
		return
	}
	defer c.mu.Unlock()
	next := map[string]V{}
	if m := c.m.Load(); m != nil {
		if len(*m) >= cacheEntries {
			return
		}
		next = make(map[string]V, len(*m)+1)
		maps.Copy(next, *m)
	}
	next[strings.Clone(key)] = v // the key may be part of a large text
	c.m.Store(&next)
}
