package assemble

import (
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// TestReasons has one trace for each reason, and a similar complete one.
func TestReasons(t *testing.T) {
	chain := []sp{
		{trace: 1, id: 1, host: "a", start: 0, end: 100},
		{trace: 1, id: 2, parent: 1, kind: client, host: "a", start: 10, end: 90, attrs: peerTraced()},
		{trace: 1, id: 3, parent: 2, host: "b", start: 20, end: 80},
	}
	with := func(i int, change func(*sp)) []sp {
		list := append([]sp(nil), chain...)
		change(&list[i])
		return list
	}
	for name, c := range map[string]struct {
		spans []sp
		want  []string
	}{
		"whole":               {chain, []string{"1/1<0 complete", "1/2<1", "1/3<2"}},
		"backwards":           {[]sp{chain[2], chain[1], chain[0]}, []string{"1/1<0 complete", "1/2<1", "1/3<2"}},
		"a root alone":        {chain[:1], []string{"1/1<0 complete"}},
		"server missing":      {chain[:2], []string{"1/1<0 incomplete server_missing", "1/2<1"}},
		"root missing":        {chain[1:], []string{"1/2<1 incomplete no_root,parent_missing", "1/3<2"}},
		"middle missing":      {[]sp{chain[0], chain[2]}, []string{"1/1<0 incomplete parent_missing", "1/3<2"}},
		"all but the last":    {chain[2:], []string{"1/3<2 incomplete no_root,parent_missing"}},
		"peer not traced":     {with(1, func(s *sp) { s.attrs = nil })[:2], []string{"1/1<0 complete", "1/2<1"}},
		"peer says not":       {with(1, func(s *sp) { s.attrs = map[string]any{semconv.PeerTraced: false} })[:2], []string{"1/1<0 complete", "1/2<1"}},
		"connection refused":  {with(1, func(s *sp) { s.failed = true })[:2], []string{"1/1<0 complete", "1/2<1"}},
		"answered by a 500":   {with(1, func(s *sp) { s.failed, s.attrs = true, peerTraced(); s.attrs["http.response.status_code"] = 500 })[:2], []string{"1/1<0 incomplete server_missing", "1/2<1"}},
		"answered by ERR":     {with(1, func(s *sp) { s.failed, s.attrs = true, peerTraced(); s.attrs["db.response.status_code"] = "ERR" })[:2], []string{"1/1<0 incomplete server_missing", "1/2<1"}},
		"two roots":           {with(2, func(s *sp) { s.parent = 0 }), []string{"1/1<0 incomplete several_roots,server_missing", "1/2<1", "1/3<0"}},
		"its own parent":      {append(with(0, func(*sp) {}), sp{trace: 1, id: 9, parent: 9}), []string{"1/1<0 incomplete cycle", "1/2<1", "1/3<2", "1/9<9"}},
		"each other's parent": {append(with(0, func(*sp) {}), sp{trace: 1, id: 8, parent: 9}, sp{trace: 1, id: 9, parent: 8}), []string{"1/1<0 incomplete cycle", "1/2<1", "1/3<2", "1/8<9", "1/9<8"}},
		"only a cycle":        {[]sp{{trace: 1, id: 8, parent: 9}, {trace: 1, id: 9, parent: 8, start: 1}}, []string{"1/8<9 incomplete no_root,cycle", "1/9<8"}},
		"one id, two spans":   {append(with(0, func(*sp) {}), sp{trace: 1, id: 3, parent: 2, host: "c"}), []string{"1/1<0 incomplete id_conflict", "1/2<1", "1/3<2", "1/3<2"}},
		"Zipkin's shared id": {[]sp{chain[0], {trace: 1, id: 2, parent: 1, kind: client, host: "a", attrs: peerTraced()}, {trace: 1, id: 2, parent: 1, kind: server, host: "b"},
			{trace: 1, id: 5, parent: 2, kind: internal, host: "b"}}, []string{"1/1<0 complete", "1/2<1", "1/2<1", "1/5<2"}},
		"shared, at the root": {[]sp{{trace: 1, id: 2, kind: server, host: "b", start: 0}, {trace: 1, id: 2, kind: client, host: "a", start: 5, attrs: peerTraced()}},
			[]string{"1/2<0", "1/2<0 complete"}},
		"a call missing":             {with(0, func(s *sp) { s.attrs = calls(2) }), []string{"1/1<0 incomplete call_missing", "1/2<1", "1/3<2"}},
		"all calls there":            {with(0, func(s *sp) { s.attrs = calls(1) }), []string{"1/1<0 complete", "1/2<1", "1/3<2"}},
		"more calls than it knew of": {with(0, func(s *sp) { s.attrs = calls(0) }), []string{"1/1<0 complete", "1/2<1", "1/3<2"}},
		"no number of calls":         {with(0, func(s *sp) { s.attrs = calls(-1) }), []string{"1/1<0 complete", "1/2<1", "1/3<2"}},
		"a call in a call": {[]sp{chain[0], {trace: 1, id: 2, parent: 1, kind: client, host: "a", attrs: peerTraced()},
			{trace: 1, id: 4, parent: 2, kind: client, host: "a", attrs: peerTraced()}, {trace: 1, id: 3, parent: 4, host: "b"}},
			[]string{"1/1<0 complete", "1/2<1", "1/4<2", "1/3<4"}},
		"ends where calls are not linked":        {with(2, notLinked(semconv.LinkingNone)), []string{"1/1<0 unlinked ends_at=service-b", "1/2<1", "1/3<2"}},
		"may lack a call":                        {with(2, notLinked(semconv.LinkingUncertain)), []string{"1/1<0 unlinked may_end_at=service-b", "1/2<1", "1/3<2"}},
		"cannot link, and asked nobody":          {with(2, func(s *sp) { s.attrs = map[string]any{semconv.Linking: semconv.LinkingNone} }), []string{"1/1<0 complete", "1/2<1", "1/3<2"}},
		"begins behind one that cannot, and end": {with(0, func(s *sp) { notLinked(semconv.LinkingNone)(s); s.attrs[semconv.Behind] = "gate" }), []string{"1/1<0 unlinked begins_behind=gate,ends_at=service-a", "1/2<1", "1/3<2"}},
		"behind, and joined":                     {with(2, func(s *sp) { s.attrs = map[string]any{semconv.Behind: "gate"} }), []string{"1/1<0 complete", "1/2<1", "1/3<2"}},
		"ends there, and lacks a span":           {with(0, notLinked(semconv.LinkingNone))[:2], []string{"1/1<0 incomplete server_missing", "1/2<1"}},
	} {
		t.Run(name, func(t *testing.T) {
			newFixture(t, Options{}).add(c.spans...).after(11 * time.Second).want(c.want...)
			// One by one, the state is that of what came before the trace was
			// emitted; here only that nothing is lost.
			f := newFixture(t, Options{Shards: 3})
			for _, s := range c.spans {
				f.add(s)
			}
			if f.after(time.Minute); len(f.given) != len(c.spans) {
				t.Errorf("%d spans in, %d out", len(c.spans), len(f.given))
			}
		})
	}
}

func notLinked(how string) func(*sp) {
	return func(s *sp) {
		s.attrs = map[string]any{semconv.Linking: how, semconv.LinkingReason: "no_request"}
	}
}

// Traces are counted by the kinds of their reasons alone: names of services would be without bound.
func TestUnlinkedIsCounted(t *testing.T) {
	f := newFixture(t, Options{})
	for i, how := range []string{semconv.LinkingNone, semconv.LinkingNone, semconv.LinkingUncertain, ""} {
		s := sp{trace: byte(1 + i), id: 1, host: string(rune('a' + i)), attrs: calls(0)}
		if how != "" {
			s.attrs[semconv.Linking], s.attrs[semconv.LinkingReason] = how, "runtime"
		}
		f.add(s)
	}
	s := f.after(time.Second).a.Stats()
	if s.Complete != 1 || s.Unlinked[semconv.EndsAt] != 2 || s.Unlinked[semconv.MayEndAt] != 1 || len(s.Unlinked) != 2 || len(s.Incomplete) != 0 {
		t.Errorf("%+v", s)
	}
}

func calls(n int64) map[string]any { return map[string]any{semconv.Calls: n} }

// The agent's spans say how many spans they have below them, so their traces are emitted
// as soon as they are complete, in any order of arrival; only traces with an SDK's spans
// wait.
func TestWhoTellsItsCallsDoesNotWait(t *testing.T) {
	agent := []sp{
		{trace: 1, id: 1, host: "a", attrs: calls(2)},
		{trace: 1, id: 2, parent: 1, kind: client, host: "a", attrs: peerTraced()},
		{trace: 1, id: 3, parent: 2, host: "b", attrs: calls(0)},
		{trace: 1, id: 4, parent: 1, kind: client, host: "a"},
	}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}} {
		f := newFixture(t, Options{Settle: 2 * time.Second})
		for _, i := range order[:3] {
			f.add(agent[i]).after(3 * time.Second).want()
		}
		f.add(agent[order[3]]).want("1/1<0 complete", "1/2<1", "1/3<2", "1/4<1")
	}
	for name, change := range map[string]func(list []sp) []sp{
		"a server of an SDK": func(list []sp) []sp { list[2].attrs = nil; return list },
		"an internal span":   func(list []sp) []sp { return append(list, sp{trace: 1, id: 9, parent: 3, kind: internal}) },
		"begun by a client":  func([]sp) []sp { return []sp{{trace: 1, id: 1, kind: client}} },
		"a producer's": func(list []sp) []sp {
			return append(list, sp{trace: 1, id: 9, parent: 3, kind: ptrace.SpanKindProducer})
		},
		"a consumer's server": func(list []sp) []sp {
			return append(list, sp{trace: 1, id: 9, parent: 3, kind: ptrace.SpanKindConsumer})
		},
	} {
		t.Run(name, func(t *testing.T) {
			list := change(append([]sp(nil), agent...))
			f := newFixture(t, Options{Settle: 2 * time.Second}).add(list...).after(1900 * time.Millisecond).want()
			if f.after(200 * time.Millisecond); len(f.given) != len(list) {
				t.Errorf("%d of %d spans after the time to settle", len(f.given), len(list))
			}
		})
	}
}

func TestCompleteAtOnceIncompleteAtExpiry(t *testing.T) {
	f := newFixture(t, Options{Expiry: 2 * time.Second, MaxAge: 5 * time.Second})
	whole := []sp{{trace: 1, id: 1}, {trace: 1, id: 2, parent: 1, kind: client}}
	f.add(whole...).want("1/1<0 complete", "1/2<1")
	f.add(sp{trace: 2, id: 2, parent: 1}).after(1900 * time.Millisecond).want()
	f.after(200 * time.Millisecond).want("2/2<1 incomplete no_root,parent_missing")
	// Spans that keep coming prolong it, up to MaxAge.
	for i := range uint64(4) {
		f.add(sp{trace: 3, id: 10 + i, parent: 1, start: i}).after(1200 * time.Millisecond).want()
	}
	f.after(300*time.Millisecond).want("3/10<1 incomplete no_root,parent_missing", "3/11<1", "3/12<1", "3/13<1")
}

// A trace that keeps getting spans does not delay traces that began after it.
func TestEachTraceExpiresByItsOwnLastSpan(t *testing.T) {
	f := newFixture(t, Options{})
	f.add(sp{trace: 1, id: 2, parent: 1}).after(time.Second)
	f.add(sp{trace: 2, id: 2, parent: 1}).after(time.Second)
	f.add(sp{trace: 1, id: 3, parent: 1}).after(9100 * time.Millisecond).want("2/2<1 incomplete no_root,parent_missing")
	f.after(time.Second).want("1/2<1 incomplete no_root,parent_missing", "1/3<1")
}

func TestSettle(t *testing.T) {
	f := newFixture(t, Options{Settle: time.Second})
	f.add(sp{trace: 1, id: 1}).after(900 * time.Millisecond).want()
	f.add(sp{trace: 1, id: 2, parent: 1, kind: internal}).after(900 * time.Millisecond).want()
	f.after(200*time.Millisecond).want("1/1<0 complete", "1/2<1")
	// What makes it incomplete again makes it wait for its expiry.
	f.add(sp{trace: 2, id: 1}).after(500 * time.Millisecond)
	f.add(sp{trace: 2, id: 3, parent: 2}).after(9 * time.Second).want()
	f.after(2*time.Second).want("2/1<0 incomplete parent_missing", "2/3<2")
	f.add(sp{trace: 3, id: 1}).flush().want("3/1<0 complete")
}

// The earliest root; without one, the earliest of the spans whose callers are missing, as a call comes after its caller
// whatever their clocks say.
func TestTopIsTheEarliestRootOrSpan(t *testing.T) {
	newFixture(t, Options{}).add(
		sp{trace: 1, id: 1, start: 5}, sp{trace: 1, id: 2, start: 3}, sp{trace: 1, id: 3, parent: 1, start: 1},
		sp{trace: 2, id: 1, parent: 9, start: 5}, sp{trace: 2, id: 2, parent: 1, start: 3},
		sp{trace: 3, id: 1, parent: 9, start: 5}, sp{trace: 3, id: 2, parent: 8, start: 3},
	).after(time.Minute).want(
		"1/1<0", "1/2<0 incomplete several_roots", "1/3<1",
		"2/1<9 incomplete no_root,parent_missing", "2/2<1",
		"3/1<9", "3/2<8 incomplete no_root,parent_missing")
}

// The server's side of a shared span is not the top, although it has no parent and, by
// its clock, began first.
func TestTopOfASharedRoot(t *testing.T) {
	f := newFixture(t, Options{}).add(
		sp{trace: 1, id: 2, kind: server, host: "b", start: 0}, sp{trace: 1, id: 2, kind: client, host: "a", start: 5})
	for _, g := range f.given {
		if text(g.Span, semconv.TraceState) != "" && g.Kind() != client {
			t.Errorf("a span of kind %s speaks for the trace", g.Kind())
		}
	}
	f.want("1/2<0", "1/2<0 complete")
}

func TestWhatOthersSaidOfTheTraceIsRemoved(t *testing.T) {
	said := map[string]any{semconv.TraceState: "complete", semconv.TraceReason: "x", semconv.Late: true, "kept": "yes"}
	f := newFixture(t, Options{})
	f.add(sp{trace: 1, id: 1, attrs: said}, sp{trace: 1, id: 2, parent: 1, attrs: said})
	if text(f.one(2).Span, "kept") != "yes" {
		t.Error("an attribute of the user's is gone")
	}
	f.want("1/1<0 complete", "1/2<1")
	f.add(sp{trace: 1, id: 3, parent: 1, attrs: said}).want("1/3<1 late")
}

func TestLearnedPeers(t *testing.T) {
	at := func(kind string, port int) map[string]any {
		return map[string]any{kind + ".address": "10.0.0.9", kind + ".port": port}
	}
	f := newFixture(t, Options{LearnPeers: true})
	call := func(n byte, port int) {
		f.add(sp{trace: n, id: 1}, sp{trace: n, id: 2, parent: 1, kind: client, attrs: at("network.peer", port)})
	}
	call(1, 80)
	f.want("1/1<0 complete", "1/2<1") // not known yet
	f.add(sp{trace: 2, id: 1, attrs: at("server", 80)}).want("2/1<0 complete")
	call(3, 80)
	call(4, 81)
	f.want("4/1<0 complete", "4/2<1")
	f.after(11*time.Second).want("3/1<0 incomplete server_missing", "3/2<1")
	f.add(sp{trace: 8, id: 1, kind: client, failed: true, attrs: at("network.peer", 80)}).want("8/1<0 complete")
	f.after(10 * time.Minute)
	call(5, 80)
	f.want("5/1<0 complete", "5/2<1") // forgotten
	f.add(sp{trace: 6, id: 1, attrs: map[string]any{"server.address": "127.0.0.1", "server.port": 90}}).
		add(sp{trace: 7, id: 1, kind: client, attrs: map[string]any{"server.address": "127.0.0.1", "server.port": 90}}).
		want("6/1<0 complete", "7/1<0 complete")
}
