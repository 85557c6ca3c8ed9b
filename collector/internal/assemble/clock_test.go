package assemble

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tare-trace/tare/span/semconv"
)

func TestClocks(t *testing.T) {
	// a calls b, whose clock is off by so much (µs).
	call := func(off int64, attrs map[string]any, failed bool) []sp {
		at := func(us int64) uint64 { return uint64(us + off) }
		return []sp{
			{trace: 1, id: 1, host: "a", start: 10_000, end: 30_000},
			{trace: 1, id: 2, parent: 1, kind: client, host: "a", start: 11_000, end: 29_000, attrs: attrs, failed: failed},
			{trace: 1, id: 3, parent: 2, host: "b", start: at(15_000), end: at(25_000)},
			{trace: 1, id: 4, parent: 3, kind: internal, host: "b", start: at(16_000), end: at(24_000)},
		}
	}
	for name, c := range map[string]struct {
		spans []sp
		by    int64 // µs, of b
	}{
		"equal":                                  {call(0, nil, false), 0},
		"within":                                 {call(3_000, nil, false), 0},
		"the end within slack":                   {call(4_900, nil, false), 0},
		"ahead":                                  {call(50_000, nil, false), -50_000},
		"behind":                                 {call(-5_000, nil, false), 5_000},
		"client gave up: the end proves nothing": {call(8_000, nil, true), 0},
		"client gave up: the beginning does":     {call(-5_000, nil, true), 1_000},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []ClockMode{CorrectClocks, MarkClocks, IgnoreClocks} {
				f := newFixture(t, Options{Clock: mode}).add(c.spans...)
				for _, s := range c.spans {
					x := f.one(s.id)
					by, mark := c.by, ""
					if s.host == "a" || mode == IgnoreClocks {
						by = 0
					}
					if by != 0 {
						mark = fmt.Sprint(by * 1000)
					}
					if got := text(x.Span, semconv.ClockOffset); got != mark {
						t.Errorf("mode %d: span %d is marked %q, want %q", mode, s.id, got, mark)
					}
					if mode == MarkClocks {
						by = 0
					}
					if got, want := int64(uint64(x.StartTimestamp())-base), (int64(s.start)+by)*1000; got != want {
						t.Errorf("mode %d: span %d starts at %d, want %d", mode, s.id, got, want)
					}
					if got, want := int64(uint64(x.EndTimestamp())-base), (int64(s.end)+by)*1000; got != want {
						t.Errorf("mode %d: span %d ends at %d, want %d", mode, s.id, got, want)
					}
				}
				if offsets := f.a.HostOffsets(); (len(offsets) == 1) != (c.by != 0 && mode != IgnoreClocks) {
					t.Errorf("offsets %v", offsets)
				} else if len(offsets) == 1 && (offsets[0].Offset != c.by*1000 || offsets[0].Host != "host.name=b") {
					t.Errorf("offsets %v, want %d µs", offsets, c.by)
				}
			}
		})
	}
}

// Only the beginning of a server span that is longer than its client span is proof;
// events move with their span, and an earlier correction is added.
func TestWhatMovesWithASpan(t *testing.T) {
	call := func(start, end uint64) []sp {
		return []sp{
			{trace: 1, id: 2, kind: client, host: "a", start: 11_000, end: 29_000},
			{trace: 1, id: 3, parent: 2, host: "b", start: start, end: end, attrs: map[string]any{semconv.ClockOffset: 100}},
			func() sp { m := msg(1, 4, 3, "received", start, 1); m.host = "b"; return m }(),
		}
	}
	f := newFixture(t, Options{}).add(call(12_000, 40_000)...)
	if x := f.one(3); text(x.Span, semconv.ClockOffset) != "100" || f.a.Stats().Unproven != 0 {
		t.Errorf("moved: %v, %d contradictions", x.Attributes().AsRaw(), f.a.Stats().Unproven)
	}
	f = newFixture(t, Options{}).add(call(1_000, 9_000)...) // 15 ms behind: the middle
	x := f.one(3)
	if text(x.Span, semconv.ClockOffset) != "15000100" || events(x.Span) != "received@16000,1,1" {
		t.Errorf("%v, %s", x.Attributes().AsRaw(), events(x.Span))
	}
}

func TestClocksThatContradict(t *testing.T) {
	f := newFixture(t, Options{}).add(
		sp{trace: 1, id: 1, host: "a", start: 0, end: 100_000},
		sp{trace: 1, id: 2, parent: 1, kind: client, host: "a", start: 10_000, end: 20_000},
		sp{trace: 1, id: 3, parent: 2, host: "b", start: 31_000, end: 39_000}, // 20 ms ahead
		sp{trace: 1, id: 4, parent: 1, kind: client, host: "a", start: 50_000, end: 60_000},
		sp{trace: 1, id: 5, parent: 4, host: "b", start: 51_000, end: 59_000}, // not ahead
	)
	for _, id := range []uint64{3, 5} {
		if by := text(f.one(id).Span, semconv.ClockOffset); by != "" {
			t.Errorf("span %d was moved by %s", id, by)
		}
	}
	if n := f.a.Stats().Unproven; n != 1 {
		t.Errorf("%d counted", n)
	}
}

// TestClocksOfManyHosts makes random trees of calls over hosts with wrong clocks.
// Corrected times satisfy every call, all spans of a host move together, and the root's
// host does not move; if all clocks are right, nothing moves.
func TestClocksOfManyHosts(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		hosts := 2 + r.IntN(5)
		wrong := make([]int64, hosts)
		for h := range wrong {
			if seed%4 != 0 {
				wrong[h] = r.Int64N(2_000_000) - 1_000_000 // µs
			}
		}
		var spans []sp
		var grow func(parent uint64, host int, from, to int64)
		next := uint64(0)
		grow = func(parent uint64, host int, from, to int64) {
			shift := func(at int64, h int) uint64 { return uint64(10_000_000 + at + wrong[h]) }
			next++
			me := next
			spans = append(spans, sp{trace: 1, id: me, parent: parent, host: fmt.Sprint(host), start: shift(from, host), end: shift(to, host)})
			for range 3 {
				if to-from < 1000 || r.IntN(3) == 0 || next > 200 {
					continue
				}
				a := from + 1 + r.Int64N((to-from)/2)
				b := a + (to-a)/2 + r.Int64N((to-a)/2)
				next++
				callee := r.IntN(hosts)
				spans = append(spans, sp{trace: 1, id: next, parent: me, kind: client, host: fmt.Sprint(host), start: shift(a, host), end: shift(b, host)})
				edge := 1 + (b-a)/10
				grow(next, callee, a+edge, b-edge)
			}
		}
		grow(0, 0, 0, 1_000_000)
		sent := map[uint64]sp{}
		for _, s := range spans {
			sent[s.id] = s
		}
		r.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
		f := newFixture(t, Options{}).addData(pdata(spans...)).flush()
		got := map[uint64]given1{}
		for _, g := range f.given {
			id, _ := idOf(g.Span)
			got[id] = g
		}
		if len(got) != len(spans) {
			t.Fatalf("seed %d: %d of %d spans", seed, len(got), len(spans))
		}
		moved := map[string]int64{"0": 0}
		for id, x := range got {
			by := int64(uint64(x.StartTimestamp())-base) - int64(sent[id].start)*1000
			if was, ok := moved[x.host]; ok && was != by {
				t.Fatalf("seed %d: host %s is moved by %d and by %d", seed, x.host, was, by)
			}
			moved[x.host] = by
			if seed%4 == 0 && by != 0 {
				t.Fatalf("seed %d: right clocks were moved by %d", seed, by)
			}
			if length := x.EndTimestamp() - x.StartTimestamp(); uint64(length) != (sent[id].end-sent[id].start)*1000 {
				t.Fatalf("seed %d: a span's duration has changed", seed)
			}
			if c, ok := got[sent[id].parent]; ok && x.Kind() == server {
				if x.StartTimestamp() < c.StartTimestamp() || x.EndTimestamp() > c.EndTimestamp()+pcommon.Timestamp(endSlack) {
					t.Fatalf("seed %d: server span %d is still outside of its client span", seed, id)
				}
			}
		}
	}
}

func TestClockArithmetic(t *testing.T) {
	if got := shifted(5, -6); got != 0 {
		t.Errorf("before 1970: %d", got)
	}
	if a, b := diff(0, ^pcommon.Timestamp(0)), diff(^pcommon.Timestamp(0), 0); a != -unbounded || b != unbounded {
		t.Errorf("%d, %d", a, b)
	}
}
