package leanredis

import (
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// Functions of go-redis have the first in their names, those of this package
// begin with the second: a hook is between the two when a command leads to
// another one, such as HELLO on a new connection.
const (
	client = "github.com/redis/go-redis"
	hooks  = ScopeName + "."
)

// site is a place in the program's text.
type site struct {
	function string // without the path of its package
	file     string
	line     int
	inside   bool // go-redis itself, or this package
}

// The walk gets no more frames than redisotel's, and like that ignores the
// last, which in a short stack is the goroutine's beginning. Nearly every
// command is called from one of the first few, so it goes there first.
const (
	depth = 16
	near  = 5
)

// caller returns the function that called go-redis. skip is the number of
// frames to leave out, as in runtime.Callers.
//
//go:noinline
func caller(skip int) site {
	var pcs [depth]uintptr
	var last site
	look := func(pcs []uintptr) bool {
		for _, pc := range pcs[:max(len(pcs)-1, 0)] {
			if last = siteOf(pc); !last.inside {
				return true
			}
		}
		return false
	}
	n := runtime.Callers(skip, pcs[:near])
	if look(pcs[:n]) || n < near {
		return last
	}
	const from = near - 1 // the first that was not looked at
	n = runtime.Callers(skip+from, pcs[from:])
	look(pcs[from : from+n])
	return last
}

// sites keeps what is known about program counters: looking one up in the
// symbol table costs about a microsecond. There are no more of them than calls
// in the program's text.
var sites struct {
	known atomic.Pointer[map[uintptr]site]
	mu    sync.Mutex // of who replaces known
}

func siteOf(pc uintptr) site {
	if known := sites.known.Load(); known != nil {
		if s, ok := (*known)[pc]; ok {
			return s
		}
	}
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	s := site{function: f.Function, file: f.File, line: f.Line}
	s.inside = strings.Contains(s.function, client) || strings.HasPrefix(s.function, hooks)
	s.function = s.function[strings.LastIndexByte(s.function, '/')+1:]

	sites.mu.Lock()
	defer sites.mu.Unlock()
	next := map[uintptr]site{}
	if known := sites.known.Load(); known != nil {
		next = maps.Clone(*known)
	}
	next[pc] = s
	sites.known.Store(&next)
	return s
}
