package agent

import (
	"sync"
	"time"

	"github.com/tare-trace/tare/bpf"
)

const (
	// maxExecs bounds how many new executables a second are looked at one by
	// one; on a host that starts more, a compiler's for instance, an early scan
	// finds them.
	maxExecs = 500
	// maxChanges bounds how many processes wait to be looked at; an early scan
	// finds the others.
	maxChanges = 16384
)

// changes are what the control ring has told since they were taken last. A
// process that is told of several times is looked at once.
type changes struct {
	mu     sync.Mutex
	wake   chan struct{} // holds a token while there is something to take
	told   told
	second time.Time
	execs  int // within it
}

// fate is what happened to a process.
type fate uint8

const (
	ended fate = iota
	runs
	helps // runs a program that a request may have started: the kernel side traces it as its parent
)

type told struct {
	pids    map[int]fate
	listens map[bpf.PortKey]int // ports that processes listen on which were not traced, with their pids
	missed  bool                // there were more
}

func newChanges() *changes {
	c := &changes{wake: make(chan struct{}, 1)}
	c.reset()
	return c
}

func (c *changes) reset() { c.told = told{pids: map[int]fate{}, listens: map[bpf.PortKey]int{}} }

// control takes a record of the control ring.
func (c *changes) control(r bpf.Control) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pid := int(r.Tgid)
	switch bpf.TareControlType(r.Type) {
	case bpf.TareControlTypeTARE_EXEC:
		if now := time.Now(); now.Sub(c.second) > time.Second {
			c.second, c.execs = now, 0
		}
		if c.execs++; c.execs > maxExecs {
			c.told.missed = true
			break
		}
		if r.Service != 0 {
			c.add(pid, helps)
		} else {
			c.add(pid, runs)
		}
	case bpf.TareControlTypeTARE_LISTEN:
		c.add(pid, runs)
		c.told.listens[bpf.PortKey{Netns: r.Netns, Port: uint32(r.Port)}] = pid
	case bpf.TareControlTypeTARE_EXIT:
		c.add(pid, ended)
	default:
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *changes) add(pid int, f fate) {
	if len(c.told.pids) >= maxChanges || len(c.told.listens) >= maxChanges {
		c.told.missed = true
		return
	}
	c.told.pids[pid] = f
}

// take empties it.
func (c *changes) take() told {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.told
	c.reset()
	return t
}
