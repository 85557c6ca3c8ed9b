package assemble

import (
	"net/netip"
	"sync"
	"time"
)

// peers holds the addresses on which server spans were seen recently.
type peers struct {
	mu    sync.RWMutex
	seen  map[peer]int64 // last seen, ns since Assembler.epoch
	sweep int64
}

type peer struct {
	address string
	port    int64
}

// Bound of the addresses, and how long one is remembered.
const (
	maxPeers = 16384
	peerAge  = int64(10 * time.Minute)
)

func newPeers() *peers { return &peers{seen: map[peer]int64{}} }

// learn records the address of a server span, and sets wantsServer on a client span
// that calls a recorded one. Loopback addresses are not recorded: on each host they
// mean a different server.
func (p *peers) learn(x *item, e *ends, now int64) {
	switch x.kind {
	case kindServer:
		at := peer{e.local, e.localPort}
		if at.address == "" || at.port == 0 {
			at = peer{e.server, e.serverPort}
		}
		if at.address == "" || at.port == 0 {
			return
		}
		p.mu.RLock()
		last, ok := p.seen[at]
		p.mu.RUnlock()
		if ok && now-last < peerAge/10 {
			return
		}
		if a, err := netip.ParseAddr(at.address); err == nil && a.Unmap().IsLoopback() {
			return
		}
		p.note(at, now)
	case kindClient:
		if x.flags&unanswered != 0 {
			return
		}
		at := peer{e.peer, e.peerPort}
		if at.address == "" || at.port == 0 {
			at = peer{e.server, e.serverPort}
		}
		p.mu.RLock()
		last, ok := p.seen[at]
		p.mu.RUnlock()
		if ok && now-last < peerAge {
			x.flags |= wantsServer
		}
	}
}

func (p *peers) note(at peer, now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) >= maxPeers && now-p.sweep > int64(time.Minute) {
		p.sweep = now
		for k, last := range p.seen {
			if now-last >= peerAge {
				delete(p.seen, k)
			}
		}
	}
	if _, ok := p.seen[at]; ok || len(p.seen) < maxPeers {
		at.address = string([]byte(at.address)) // a copy, so that the span's memory can be freed
		p.seen[at] = now
	}
}
