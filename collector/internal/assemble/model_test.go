package assemble

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// model is what the assembler should do, written without any thought of cost:
// after every request each trace is judged anew from all of its spans.
type model struct {
	pending map[byte][]sp
	given   map[byte][]sp // of every trace that was emitted
	out     map[string]int
	dropped int
	late    int
}

func (s sp) equal(o sp) bool { return fmt.Sprint(s) == fmt.Sprint(o) }

func (m *model) add(batch []sp) {
	for _, s := range batch {
		all, was := m.given[s.trace]
		if !was {
			all = m.pending[s.trace]
		}
		if slices.ContainsFunc(all, s.equal) {
			m.dropped++
			continue
		}
		if was {
			m.late++
			m.given[s.trace] = append(all, s)
			m.out[fmt.Sprintf("%v late", s.key())]++
			continue
		}
		m.pending[s.trace] = append(all, s)
	}
	for trace, spans := range m.pending {
		if len(m.reasons(spans)) == 0 {
			m.finish(trace, nil)
		}
	}
}

func (m *model) finish(trace byte, reasons []string) {
	spans := m.pending[trace]
	delete(m.pending, trace)
	m.given[trace] = spans
	for _, s := range spans {
		m.out[s.key()]++
	}
	state := fmt.Sprintf("trace %d complete", trace)
	if len(reasons) > 0 {
		state = fmt.Sprintf("trace %d incomplete %s", trace, strings.Join(reasons, ","))
	}
	m.out[state]++
}

func (s sp) key() string {
	return fmt.Sprintf("%d/%d<%d %d %s %d", s.trace, s.id, s.parent, s.kind, s.host, s.start)
}

// shared reports whether x is the server's side of a span that c began.
func shared(c, x sp) bool {
	return c.id == x.id && isClient(uint8(c.kind)) && isServer(uint8(x.kind))
}

func (m *model) reasons(spans []sp) (list []string) {
	ids := map[uint64][]sp{}
	for _, s := range spans {
		ids[s.id] = append(ids[s.id], s)
	}
	roots, missing, conflict, unserved, circle := 0, false, false, false, false
	for _, same := range ids {
		switch {
		case len(same) == 2 && (shared(same[0], same[1]) || shared(same[1], same[0])):
		case len(same) > 1:
			conflict = true
		}
	}
	for _, s := range spans {
		isShared := slices.ContainsFunc(spans, func(c sp) bool { return shared(c, s) })
		if s.parent == 0 && !isShared {
			roots++
		}
		if s.parent != 0 && len(ids[s.parent]) == 0 && !isShared {
			missing = true
		}
		if s.kind == client && s.attrs[semconv.PeerTraced] == true && !s.failed {
			unserved = unserved || !slices.ContainsFunc(spans, func(x sp) bool {
				below := x.parent == s.id || shared(s, x)
				return below && (isServer(uint8(x.kind)) || x.kind == client && x.host == s.host)
			})
		}
		steps := 0
		for at, ok := above(ids, s); ok && steps <= len(spans); at, ok = above(ids, at) {
			steps++
		}
		circle = circle || steps > len(spans)
	}
	for _, r := range []struct {
		holds bool
		name  string
	}{
		{roots == 0, ReasonNoRoot}, {roots > 1, ReasonSeveralRoots}, {missing, ReasonParentMissing},
		{unserved, ReasonServerMissing}, {conflict, ReasonIDConflict}, {circle, ReasonCycle},
	} {
		if r.holds {
			list = append(list, r.name)
		}
	}
	return list
}

// above is the parent of a span: the client's side of a shared span, else the
// span with that id, of two the one of the same service or the server's.
func above(ids map[uint64][]sp, s sp) (parent sp, ok bool) {
	for _, c := range ids[s.id] {
		if shared(c, s) {
			return c, true
		}
	}
	same := ids[s.parent]
	if s.parent == 0 || len(same) == 0 {
		return sp{}, false
	}
	if len(same) == 1 {
		return same[0], true
	}
	for i, c := range same {
		if c.host == s.host && same[1-min(i, 1)].host != s.host {
			return c, true
		}
	}
	if isServer(uint8(same[0].kind)) {
		return same[0], true
	}
	return same[1], true
}

// randomTrace is a tree of calls; some ids are shared as Zipkin's are.
func randomTrace(r *rand.Rand, trace byte, size int) (spans []sp) {
	id := uint64(0)
	var grow func(parent uint64, host int)
	grow = func(parent uint64, host int) {
		id++
		me := id
		spans = append(spans, sp{trace: trace, id: me, parent: parent, kind: server, host: fmt.Sprint(host), start: me, end: me + 5})
		for range r.IntN(4) {
			if len(spans) >= size {
				return
			}
			id++
			c := sp{trace: trace, id: id, parent: me, kind: client, host: fmt.Sprint(host), start: id, end: id + 3}
			switch r.IntN(4) {
			case 0:
				c.kind = internal
			case 1: // to a peer that is not traced
			case 2:
				c.attrs = peerTraced()
				c.failed = r.IntN(4) == 0
				spans = append(spans, c)
				grow(c.id, r.IntN(4))
				continue
			case 3:
				c.attrs = peerTraced()
				x := c
				x.kind, x.host, x.attrs = server, fmt.Sprint(10+host), nil
				spans = append(spans, x)
			}
			spans = append(spans, c)
		}
	}
	grow(0, 0)
	return spans
}

// TestAgainstModel sends random traces in random pieces and orders, with
// losses, repetitions, conflicts and wrong parents, and compares what comes out.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 7))
		var spans []sp
		for trace := byte(1); trace <= byte(1+r.IntN(6)); trace++ {
			list := randomTrace(r, trace, 1+r.IntN(80))
			for i := range list {
				switch r.IntN(300) {
				case 0:
					list[i].parent = uint64(1 + r.IntN(len(list))) // maybe a cycle
				case 1:
					list[i].parent = 0
				case 2:
					other := list[i]
					other.host, other.start = "other", other.start+1
					list = append(list, other)
				}
			}
			spans = append(spans, list...)
		}
		if seed%2 == 0 {
			r.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
		} else { // as exporters do: children first
			slices.Reverse(spans)
		}
		var sent []sp
		for _, s := range spans {
			switch n := r.IntN(60); {
			case n == 0 && seed%3 == 0: // lost
			case n < 4:
				sent = append(sent, s, s)
			default:
				sent = append(sent, s)
			}
		}
		if seed%5 == 0 { // a whole export once more
			sent = append(sent, sent[:r.IntN(len(sent)+1)]...)
		}
		m := &model{pending: map[byte][]sp{}, given: map[byte][]sp{}, out: map[string]int{}}
		f := newFixture(t, Options{Clock: IgnoreClocks, Shards: 1 + int(seed%3)})
		for i := 0; i < len(sent); {
			n := min(1+r.IntN(40), len(sent)-i)
			f.add(sent[i : i+n]...)
			m.add(sent[i : i+n])
			i += n
		}
		f.after(11 * time.Second)
		for trace, list := range m.pending {
			m.finish(trace, m.reasons(list))
		}
		got := map[string]int{}
		for _, g := range f.given {
			key := sp{
				trace: g.TraceID()[0], kind: g.Kind(), host: g.host, start: (uint64(g.StartTimestamp()) - base) / 1000,
			}
			key.id, key.parent = idOf(g.Span)
			name := key.key()
			if text(g.Span, semconv.Late) != "" {
				name += " late"
			}
			got[name]++
			if state := text(g.Span, semconv.TraceState); state != "" {
				reason := text(g.Span, semconv.TraceReason)
				got[strings.TrimSpace(fmt.Sprintf("trace %d %s %s", key.trace, state, reason))]++
			}
		}
		for k, n := range m.out {
			if got[k] != n {
				t.Errorf("seed %d: %q: %d times, the model says %d", seed, k, got[k], n)
			}
		}
		for k, n := range got {
			if m.out[k] == 0 {
				t.Errorf("seed %d: %q: %d times, the model does not know it", seed, k, n)
			}
		}
		s := f.a.Stats()
		if int(s.Dropped[DropDuplicate]) != m.dropped || int(s.Late) != m.late || s.Spans != 0 {
			t.Errorf("seed %d: %d duplicates, %d late, %d held; the model says %d, %d, 0", seed,
				s.Dropped[DropDuplicate], s.Late, s.Spans, m.dropped, m.late)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

func idOf(x ptrace.Span) (id, parent uint64) {
	var it item
	var e ends
	it.inspect(x, &e)
	return it.id, it.parent
}
