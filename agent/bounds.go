package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// What may have no room in the tables of the kernel side, because of somebody who has too
// much of it: docs/agent.md says of each how much there is room for.
const (
	leftAddresses = "addresses" // of this host, which are not trusted then
	leftSockets   = "sockets"   // that were open before, and are not traced
	leftProcesses = "processes" // that are not traced
)

// Shares of the tables of the kernel side that one service, or one container, may fill, so
// that it cannot keep others from being traced.
const (
	maxServiceSockets   = 16384 // of 65,536 that were open before
	maxServiceProcesses = 8192  // of 16,384
	maxContainerNames   = 256   // services in one container, of 4,095
)

// leftOut says how many of what have no room, now. Any goroutine may read it.
type leftOut struct {
	mu sync.Mutex
	n  map[string]int
}

func newLeftOut() *leftOut {
	return &leftOut{n: map[string]int{leftAddresses: 0, leftSockets: 0, leftProcesses: 0}}
}

// set reports whether it is news: there was room for all before.
func (l *leftOut) set(what string, n int) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	news = n > 0 && l.n[what] == 0
	l.n[what] = n
	return news
}

func (l *leftOut) all() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.n)
}

// String is a line for /healthz, "" if there is room for all.
func (l *leftOut) String() string {
	n := l.all()
	var list []string
	for _, what := range slices.Sorted(maps.Keys(n)) {
		if n[what] > 0 {
			list = append(list, fmt.Sprintf("%d %s", n[what], what))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "no room for " + strings.Join(list, ", ") + ": the log says whose\n"
}
