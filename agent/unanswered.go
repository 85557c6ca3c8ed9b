package agent

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Limits of what is remembered of peers.
const (
	peersKnown      = 1024
	peersTold       = 50               // in /metrics
	unansweredAfter = 20               // requests in a row, and
	unansweredFor   = 10 * time.Second // from the first of them, or
	answeredBefore  = time.Minute      // if one was answered once: another service may be there
	peerForgotten   = 10 * time.Minute // without a request
	unansweredLines = 8                // in the log
)

// peers are the addresses that services' sampled requests go to with a tag, or that
// tags come from. A traced peer answers (ADR 2): one that does not has no agent, or
// something on the path removes TCP options.
type peers struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	at    map[netip.Addr]*peer
	swept time.Time // when quiet ones were forgotten
	lines int       // that were logged
}

type peer struct {
	port       uint16    // of the last request
	unanswered uint64    // requests, since the last that was answered
	since      time.Time // of these
	last       time.Time // that something new was heard of it
	answered   bool      // once
	tags       bool      // come from it
	said       bool
}

func newPeers(log *slog.Logger) *peers {
	return &peers{log: log, now: time.Now, at: map[netip.Addr]*peer{}}
}

// get returns nil if there is no room.
func (h *peers) get(addr netip.Addr, now time.Time) *peer {
	p := h.at[addr]
	if p == nil {
		if len(h.at) >= peersKnown && now.Sub(h.swept) >= time.Second {
			h.forget(now)
		}
		if len(h.at) >= peersKnown {
			return nil
		}
		p = &peer{since: now}
		h.at[addr] = p
	}
	p.last = now
	return p
}

func (h *peers) forget(now time.Time) {
	h.swept = now
	for addr, p := range h.at {
		if now.Sub(p.last) > peerForgotten {
			delete(h.at, addr)
		}
	}
}

// TagSent implements spans.Peers: a request with a tag had its response.
func (h *peers) TagSent(addr netip.Addr, port uint16, answered bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.at[addr]; answered && p != nil && p.answered && p.unanswered == 0 {
		return // as nearly always: it costs every span
	}
	now := h.now()
	p := h.get(addr, now)
	if p == nil {
		return
	}
	if answered {
		if p.said {
			h.say(slog.LevelInfo, "tags towards this address arrive now", addr, port)
		}
		p.answered, p.said = true, false
		p.unanswered, p.since = 0, now
		return
	}
	p.port = port
	if p.unanswered++; p.said || !p.silent(now) {
		return
	}
	p.said = true
	if p.tags {
		h.say(slog.LevelWarn, "tags come from this address, but those sent to it are not answered: something on the path removes TCP options", addr, port)
	} else {
		h.say(slog.LevelInfo, "tags towards this address are not answered: it has no agent, or something on the path removes TCP options", addr, port)
	}
}

func (h *peers) say(level slog.Level, text string, addr netip.Addr, port uint16) {
	if h.lines++; h.lines > unansweredLines {
		return
	}
	at := netip.AddrPortFrom(addr, port)
	h.log.Log(context.Background(), level, text, "peer", at, "to find out", "tare doctor --peer "+at.String())
}

// TagReceived implements spans.Peers.
func (h *peers) TagReceived(addr netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.at[addr]; p != nil && p.tags {
		return
	}
	if p := h.get(addr, h.now()); p != nil {
		p.tags = true
	}
}

func (p *peer) silent(now time.Time) bool {
	patience := unansweredFor
	if p.answered {
		patience = answeredBefore
	}
	return p.unanswered >= unansweredAfter && now.Sub(p.since) >= patience
}

// unanswered is a host that does not answer tags.
type unanswered struct {
	peer     netip.AddrPort
	tags     bool
	requests uint64
}

// list has those that were asked most.
func (h *peers) list() []unanswered {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(now)
	var list []unanswered
	for addr, p := range h.at {
		if p.silent(now) {
			list = append(list, unanswered{netip.AddrPortFrom(addr, p.port), p.tags, p.unanswered})
		}
	}
	slices.SortFunc(list, func(a, b unanswered) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), a.peer.Compare(b.peer))
	})
	return list[:min(len(list), peersTold)]
}
