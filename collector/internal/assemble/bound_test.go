package assemble

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

func TestLateSpans(t *testing.T) {
	f := newFixture(t, Options{}).add(sp{trace: 1, id: 1}).want("1/1<0 complete")
	late := sp{trace: 1, id: 2, parent: 1}
	f.add(late, sp{trace: 1, id: 3, parent: 2}).want("1/2<1 late", "1/3<2 late")
	f.add(late, late, sp{trace: 1, id: 1}).want() // a retried export
	if s := f.a.Stats(); s.Late != 2 || s.Dropped[DropDuplicate] != 3 {
		t.Errorf("%d late, %d duplicates", s.Late, s.Dropped[DropDuplicate])
	}
	f = newFixture(t, Options{DropLate: true}).add(sp{trace: 1, id: 1}).want("1/1<0 complete")
	f.add(late).want()
	if s := f.a.Stats(); s.Late != 1 || s.Dropped[DropLate] != 1 {
		t.Errorf("%d late, %d dropped", s.Late, s.Dropped[DropLate])
	}
	f = newFixture(t, Options{Messages: DropMessages}).add(sp{trace: 1, id: 1}).want("1/1<0 complete")
	f.add(msg(1, 5, 1, "sent", 1, 1)).want()
	// An incomplete trace is emitted once, too.
	f = newFixture(t, Options{}).add(late).after(11 * time.Second).want("1/2<1 incomplete no_root,parent_missing")
	f.add(sp{trace: 1, id: 1}).want("1/1<0 late")
}

func TestGivenTracesAreForgotten(t *testing.T) {
	f := newFixture(t, Options{Remember: 3})
	for n := byte(1); n <= 4; n++ {
		f.add(sp{trace: n, id: 1})
	}
	f.forget()
	f.add(sp{trace: 1, id: 1}, sp{trace: 4, id: 1}).want("1/1<0 complete")
	if n := len(f.a.shards[0].history.traces); n != 3 {
		t.Errorf("%d remembered", n)
	}
}

// A trace whose fingerprints were overwritten has no duplicates.
func TestFingerprintsAreOverwritten(t *testing.T) {
	spans := pdata(sp{trace: 1, id: 5}, sp{trace: 2, id: 6}).ResourceSpans()
	items := make([]item, 2)
	for i := range items {
		items[i].inspect(spans.At(i).ScopeSpans().At(0).Spans().At(0), &ends{})
	}
	g := newHistory(2)
	g.add(traceID(1), items[:1])
	if was, same := g.has(traceID(1), &items[0]); !was || !same {
		t.Error("not remembered")
	}
	others := make([]item, maxPrints)
	for i := range others {
		others[i] = items[1]
	}
	g.add(traceID(2), others)
	if was, same := g.has(traceID(1), &items[1]); !was || same {
		t.Errorf("trace known: %t, span known: %t", was, same)
	}
}

func TestInvalidIDs(t *testing.T) {
	f := newFixture(t, Options{}).add(sp{id: 1}, sp{trace: 1}, sp{}, sp{trace: 1, id: 1}).want("1/1<0 complete")
	if n := f.a.Stats().Dropped[DropInvalidID]; n != 3 {
		t.Errorf("%d counted", n)
	}
	f.add(sp{id: 1})
	if n := f.a.Stats().Dropped[DropInvalidID]; n != 4 {
		t.Errorf("%d counted", n)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	f := newFixture(t, Options{MaxSpans: 10})
	for n := byte(1); n <= 5; n++ {
		f.add(sp{trace: n, id: 2, parent: 1}, sp{trace: n, id: 3, parent: 2})
	}
	f.want()
	f.add(sp{trace: 6, id: 2, parent: 1}).want("1/2<1 incomplete no_root,parent_missing,memory", "1/3<2")
	f.add(sp{trace: 1, id: 1}).want("1/1<0 late")
	// What a giant attribute costs counts.
	f = newFixture(t, Options{MaxBytes: 1 << 20})
	giant := func(n byte) sp {
		return sp{trace: n, id: 2, parent: 1, attrs: map[string]any{"deep": []any{map[string]any{"x": strings.Repeat("y", 600<<10)}}}}
	}
	f.add(giant(1)).want().add(giant(2)).want("1/2<1 incomplete no_root,parent_missing,memory")
	// One span that is larger than all of it is held alone.
	newFixture(t, Options{MaxBytes: 1000}).add(giant(1)).want().
		add(giant(2)).want("1/2<1 incomplete no_root,parent_missing,memory").flush().
		want("2/2<1 incomplete no_root,parent_missing,shutdown")
	// A complete one that only waits for stragglers is complete.
	newFixture(t, Options{MaxSpans: 1, Settle: time.Second}).add(sp{trace: 1, id: 1}).add(sp{trace: 2, id: 2, parent: 1}).
		want("1/1<0 complete")
	// Within one request, too, and what is emitted early is not looked at again.
	newFixture(t, Options{MaxSpans: 1, Settle: time.Second}).add(sp{trace: 1, id: 1}, sp{trace: 2, id: 1}, sp{trace: 3, id: 1}).
		want("1/1<0 complete", "2/1<0 complete").after(2 * time.Second).want("3/1<0 complete")
	// The span that is made of events counts.
	f = newFixture(t, Options{}).add(begun(msg(1, 11, 1, "received", 1, 1), "server", ""))
	if s := f.a.Stats(); s.Spans != 2 || s.Bytes < 2*spanBytes {
		t.Errorf("%d spans, %d bytes", s.Spans, s.Bytes)
	}
	// A flood in one request never holds more.
	var flood []sp
	for i := range uint64(5000) {
		flood = append(flood, sp{trace: byte(1 + i%200), id: 10 + i, parent: 1})
	}
	f = newFixture(t, Options{MaxSpans: 100, Shards: 2}).add(flood...)
	if n := f.a.Stats().Spans; n > 100 {
		t.Errorf("%d spans held", n)
	}
}

func TestALargeTraceComesInParts(t *testing.T) {
	f := newFixture(t, Options{MaxTraceSpans: 3})
	for i := range uint64(7) {
		f.add(sp{trace: 1, id: 2 + i, parent: 1})
	}
	f.want("1/2<1 incomplete span_limit", "1/3<1", "1/4<1", "1/5<1 incomplete span_limit", "1/6<1", "1/7<1")
	f.after(11 * time.Second).want("1/8<1 incomplete span_limit")
	f.add(sp{trace: 1, id: 1}).want("1/1<0 late")
	newFixture(t, Options{MaxTraceSpans: 3}).add(sp{trace: 1, id: 1}, sp{trace: 1, id: 2, parent: 1}, sp{trace: 1, id: 3, parent: 1}).
		want("1/1<0 complete", "1/2<1", "1/3<1")
}

// TestLargeTrace adds 100,000 spans in random order and pieces of 500; finding out that
// the trace is complete does not visit all of them each time.
func TestLargeTrace(t *testing.T) {
	const n = 100_000
	order := rand.Perm(n)
	a := New(Options{Remember: 10})
	var out Out
	for i := 0; i < n; i += 500 {
		td := ptrace.NewTraces()
		spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
		for _, k := range order[i : i+500] {
			id := uint64(k + 1)
			sp{trace: 1, id: id, parent: id / 2, kind: internal}.fill(spans.AppendEmpty())
		}
		if a.Add(td, a.epoch, &out); i+500 < n && len(out.Take()) > 0 {
			// The root and all of its children so far may be there early on; the
			// odds against it later are overwhelming.
			t.Fatalf("emitted after %d spans", i+500)
		}
	}
	got := out.Take()
	if len(got) != 1 || got[0].SpanCount() != n {
		t.Fatalf("%d batches", len(got))
	}
	if s := a.Stats(); s.Complete != 1 || s.Late != 0 {
		t.Errorf("%+v", s)
	}
}

// Waiting spans keep their resource in memory, but not the request in which they arrived;
// equal resources are stored once.
func TestOrigins(t *testing.T) {
	f := newFixture(t, Options{})
	var spans []sp
	for i := range uint64(20) {
		spans = append(spans, sp{trace: 1, id: 2 + i, parent: 1, host: fmt.Sprint(i % 3), kind: internal})
	}
	f.add(spans[:10]...).add(spans[10:]...).add(sp{trace: 1, id: 1, host: "0"})
	for _, s := range spans {
		if x := f.one(s.id); x.host != s.host {
			t.Errorf("span %d came from host %q, not %q", s.id, x.host, s.host)
		}
	}
	if n := len(f.a.origins.young); n != 3 {
		t.Errorf("%d resources", n)
	}
	values := []any{"", "a", 1, 2, 0, true, false, 1.5, -0.5, []byte("a"), []byte{}, []any{"a"}, []any{}, []any{[]any{}},
		map[string]any{}, map[string]any{"a": "b"}, map[string]any{"a": []any{"b"}}, nil}
	keys := map[string]any{}
	for _, v := range values {
		td := ptrace.NewTraces()
		rs := td.ResourceSpans().AppendEmpty()
		if err := rs.Resource().Attributes().FromRaw(map[string]any{"k": v}); err != nil {
			t.Fatal(err)
		}
		key := string(appendResource(nil, rs))
		if other, ok := keys[key]; ok {
			t.Errorf("%#v and %#v have one key", v, other)
		}
		keys[key] = v
		if r := f.a.origins.resource(rs); r != f.a.origins.resource(rs) {
			t.Errorf("%#v is two resources", v)
		}
	}
}

func TestOriginsAreBounded(t *testing.T) {
	f := newFixture(t, Options{})
	for i := range 3*maxResources + 5 {
		td := pdata(sp{trace: 1, id: uint64(i), host: fmt.Sprint(i)})
		td.ResourceSpans().At(0).ScopeSpans().At(0).Scope().SetVersion(fmt.Sprint(i))
		rs := td.ResourceSpans().At(0)
		r := f.a.origins.resource(rs)
		f.a.origins.scope(r, rs.ScopeSpans().At(0))
	}
	if o := &f.a.origins; len(o.young)+len(o.old) > 2*maxResources || len(o.hosts) > maxHosts {
		t.Errorf("%d resources, %d hosts", len(o.young)+len(o.old), len(o.hosts))
	}
}

// Batches end between traces.
func TestBatches(t *testing.T) {
	f := newFixture(t, Options{Settle: time.Second})
	const per = 50
	for n := range 200 {
		var spans []sp
		for i := range uint64(per) {
			spans = append(spans, sp{trace: byte(n + 1), id: 1 + i, parent: i, kind: internal})
		}
		f.add(spans...)
	}
	f.flush()
	sizes, calls := map[int]int{}, map[byte]int{}
	for _, g := range f.given {
		sizes[g.call]++
		if c, ok := calls[g.TraceID()[0]]; ok && c != g.call {
			t.Fatal("a trace stands in two batches")
		}
		calls[g.TraceID()[0]] = g.call
	}
	if len(sizes) != 2 || sizes[1] < batchSpans || sizes[1] >= batchSpans+per {
		t.Errorf("batches of %v spans", sizes)
	}
}

// FuzzAssemble adds arbitrary OTLP in two pieces: nothing panics, and every span is
// accounted for.
func FuzzAssemble(f *testing.F) {
	var m ptrace.ProtoMarshaler
	for _, spans := range [][]sp{
		clientHalf(1, 4000, 7), serverHalf(2, 4000, 7), requestEvents(), {{trace: 1, id: 1, parent: 1}},
		{{trace: 1, id: 1, kind: client, start: 5, host: "a"}, {trace: 1, id: 1, host: "b"}, msg(1, 2, 1, "sent", 1, 1)},
	} {
		b, err := m.MarshalTraces(pdata(spans...))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, mode uint8) {
		var u ptrace.ProtoUnmarshaler
		o := Options{
			Messages: MessageMode(mode % 3), Clock: ClockMode(mode / 3 % 3), LearnPeers: mode&64 != 0, DropLate: mode&128 != 0,
			SequenceWait: time.Second, MaxTraceSpans: 1 + int(mode%50), Shards: 2, Remember: 10,
		}
		fix := newFixture(t, o)
		first := true
		for range 2 { // all of it twice, with all of it between
			td, err := u.UnmarshalTraces(b)
			if err != nil {
				return
			}
			fix.addFuzzed(td)
			if first {
				fix.afterFuzzed(5 * time.Second)
				first = false
			}
		}
		fix.a.Flush(&fix.out)
		n := 0
		for _, td := range fix.out.Take() {
			n += td.SpanCount()
			for _, rs := range td.ResourceSpans().All() {
				for _, ss := range rs.ScopeSpans().All() {
					for _, x := range ss.Spans().All() {
						if x.TraceID().IsEmpty() || x.SpanID().IsEmpty() {
							t.Error("a span without ids")
						}
						if text(x, semconv.TraceState) == semconv.StateComplete && text(x, semconv.TraceReason) != "" {
							t.Error("complete, with a reason")
						}
					}
				}
			}
		}
		s := fix.a.Stats()
		sum := s.Emitted + s.Merged
		for _, d := range s.Dropped {
			sum += d
		}
		if s.Received+s.Built != sum || int(s.Emitted) != n || s.Spans != 0 || s.Bytes != 0 || s.Traces != 0 {
			t.Errorf("emitted %d: %+v", n, s)
		}
	})
}

// FuzzInterleavings makes spans with few distinct ids, so that all cases interact: five
// bytes are one span, or an advance of time.
func FuzzInterleavings(f *testing.F) {
	f.Add([]byte("\x01\x01\x00\x02\x00\x01\x02\x01\x03\x00"), uint8(0))
	f.Add([]byte("\x01\x01\x00\x02\x10\x01\x02\x01\x03\x20\x02\x03\x00\x02\x2f\x00\x09\x00\x00\x00"), uint8(64))
	f.Add([]byte("\x01\x02\x01\x01\x40\x01\x03\x01\x01\x50\x01\x04\x01\x01\x60"), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, mode uint8) {
		fix := newFixture(t, Options{
			Messages: MessageMode(mode % 3), Clock: ClockMode(mode / 3 % 3), DropLate: mode&16 != 0, LearnPeers: mode&32 != 0,
			SequenceWait: time.Duration(mode>>6) * time.Second, MaxSpans: 20, MaxTraceSpans: 8, Shards: 1 + int(mode%2), Remember: 5,
		})
		var batch []sp
		for ; len(b) >= 5; b = b[5:] {
			if b[0]%8 == 0 {
				fix.add(batch...).after(time.Duration(b[1]) * 20 * time.Millisecond)
				batch = nil
				continue
			}
			batch = append(batch, fuzzedSpan(b))
		}
		fix.add(batch...).flush()
		if s := fix.a.Stats(); s.Spans != 0 || s.Traces != 0 {
			t.Errorf("held after the end: %+v", s)
		}
		for _, g := range fix.given {
			if text(g.Span, semconv.TraceState) == semconv.StateComplete && text(g.Span, semconv.TraceReason) != "" {
				t.Error("complete, with a reason")
			}
		}
	})
}

func fuzzedSpan(b []byte) sp {
	s := sp{
		trace: b[0] % 8, id: uint64(b[1] % 8), parent: uint64(b[2] % 8), kind: ptrace.SpanKind(1 + b[3]%5),
		host: fmt.Sprint(b[3] / 5 % 3), start: uint64(b[3]), end: uint64(b[3]) + uint64(b[4]&15),
	}
	switch b[4] >> 4 {
	case 1:
		s.attrs = on("client", int(b[4]&1), 0)
	case 2:
		s.attrs = on("server", int(b[4]&1), 0)
	case 3:
		s.attrs = peerTraced()
	case 4:
		return begun(msg(s.trace, s.id, s.parent, "sent", s.start, 3), "client", "")
	case 5:
		return begun(msg(s.trace, s.id, s.parent, "received", s.start, 3), "server", fmt.Sprintf("%016x", b[3]%8))
	case 6:
		return ended(s.trace, s.id, s.parent, s.start, "GET", int(b[3]%3), nil)
	case 7:
		return msg(s.trace, s.id, s.parent, "sent", s.start, 5)
	}
	return s
}

func (f *fixture) addFuzzed(td ptrace.Traces) { f.a.Add(td, f.now, &f.out) }

func (f *fixture) afterFuzzed(d time.Duration) {
	f.now = f.now.Add(d)
	f.a.Expire(f.now, &f.out)
}

// Traces made to be expensive cost no more than others; without the bounds each of these
// would take minutes.
func TestHostileTraces(t *testing.T) {
	const n = 30_000
	for name, make := range map[string]func(i uint64) sp{
		"one id":           func(i uint64) sp { return sp{trace: 1, id: 7, parent: 1, start: i} },
		"one id and time":  func(i uint64) sp { return sp{trace: 1, id: 7 + i%2, parent: 1, start: i % 100} },
		"a chain":          func(i uint64) sp { return sp{trace: 1, id: i + 1, parent: i, kind: internal} },
		"a chain, upwards": func(i uint64) sp { return sp{trace: 1, id: n - i, parent: n - i - 1, kind: internal} },
		"a circle":         func(i uint64) sp { return sp{trace: 1, id: i + 2, parent: (i+1)%n + 2, kind: internal} },
		"a circle, rooted": func(i uint64) sp {
			return sp{trace: 1, id: i + 1, parent: map[uint64]uint64{0: 0, 1: 2}[i] + map[bool]uint64{true: i}[i > 1], kind: internal}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Options{Settle: time.Second})
			for i := range uint64(n) {
				f.a.Add(pdata(make(i)), f.now, &f.out)
			}
			f.flush()
		})
	}
}

// What is older than Oldest does not wait; a joined trace is as old as the older of its halves.
func TestOldest(t *testing.T) {
	a := New(Options{Shards: 2, Settle: time.Hour, Expiry: 2 * time.Hour, MaxAge: 3 * time.Hour})
	if _, some := a.Oldest(); some {
		t.Error("something waits")
	}
	begin := time.Now()
	for i := range 4 {
		td := ptrace.NewTraces()
		sp := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
		sp.SetTraceID([16]byte{15: byte(i + 1)})
		sp.SetSpanID([8]byte{byte(i + 1)})
		sp.SetParentSpanID([8]byte{9})
		a.Add(td, begin.Add(time.Duration(i)*time.Minute), &Out{})
	}
	if at, some := a.Oldest(); !some || !at.Equal(begin) {
		t.Errorf("%v, %v", at.Sub(begin), some)
	}
	s := a.shards[1]
	s.adopted[s.lists[byAge].last] = int64(begin.Add(-time.Minute).Sub(a.epoch))
	if at, _ := a.Oldest(); !at.Equal(begin.Add(-time.Minute)) {
		t.Errorf("after a join: %v", at.Sub(begin))
	}
	a.Flush(&Out{})
	if at, some := a.Oldest(); some || len(s.adopted) > 0 {
		t.Errorf("after all were emitted: %v", at)
	}
}
