package assemble

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// on are the attributes of a span on the connection 10.0.0.1:port to
// 10.0.0.2:80, whose stream has come to offset.
func on(kind string, port, offset int) map[string]any {
	m := map[string]any{semconv.StreamOffset: offset}
	if kind == "client" {
		m["network.local.address"], m["network.local.port"] = "10.0.0.1", port
		m["network.peer.address"], m["network.peer.port"] = "10.0.0.2", 80
	} else {
		m["network.peer.address"], m["network.peer.port"] = "::ffff:10.0.0.1", port
		m["server.address"], m["server.port"] = "10.0.0.2", 80
	}
	return m
}

// clientHalf is trace n: a root and its call; serverHalf the trace of the callee.
func clientHalf(n byte, port, offset int) []sp {
	return []sp{{trace: n, id: 1, host: "a", start: 0, end: 9000},
		{trace: n, id: 2, parent: 1, kind: client, host: "a", start: 1000, end: 8000, attrs: on("client", port, offset)}}
}

func serverHalf(n byte, port, offset int) []sp {
	return []sp{{trace: n, id: 3, host: "b", start: 2000, end: 7000, attrs: on("server", port, offset)},
		{trace: n, id: 4, parent: 3, kind: internal, host: "b", start: 3000, end: 4000}}
}

func TestHalvesAreJoined(t *testing.T) {
	joined := []string{"1/1<0 complete", "1/2<1", "1/3<2 by sequence", "1/4<3"}
	for _, shards := range []int{1, 2, 7} {
		o := Options{SequenceWait: 2 * time.Second, Shards: shards}
		f := newFixture(t, o).add(clientHalf(1, 4000, 77)...).add(serverHalf(2, 4000, 77)...).want()
		f.after(1900 * time.Millisecond).want()
		f.after(2500 * time.Millisecond).want(joined...)
		// What comes later of the server's trace finds its way.
		f.add(sp{trace: 2, id: 5, parent: 4, kind: internal}).want("1/5<4 late")
		// The other way round, one after the other.
		newFixture(t, o).add(serverHalf(2, 4000, 77)...).after(1500 * time.Millisecond).add(clientHalf(1, 4000, 77)...).
			after(5 * time.Second).want(joined...)
		// In time means within the wait.
		newFixture(t, o).add(serverHalf(2, 4000, 77)...).after(2500*time.Millisecond).want("2/3<0 complete", "2/4<3").
			add(clientHalf(1, 4000, 77)...).after(5*time.Second).want("1/1<0 complete", "1/2<1")
	}
}

// A server span whose headers were not decoded has the name of the call that it answers,
// whether a tag or their position has told which.
func TestNamelessServerIsNamed(t *testing.T) {
	call := func(id, parent uint64, kind ptrace.SpanKind, name string, attrs map[string]any) sp {
		return sp{trace: 1, id: id, parent: parent, kind: kind, name: name, host: "a", end: 9, attrs: attrs}
	}
	method := map[string]any{"rpc.system.name": "grpc", "rpc.method": "test.Leaf/Get"}
	asked := clientHalf(2, 4000, 77)
	asked[1].name, asked[1].attrs["rpc.method"] = "test.Leaf/Get", "test.Leaf/Get"
	answered := serverHalf(3, 4000, 77)
	answered[0].name = "http2"
	f := newFixture(t, Options{SequenceWait: time.Second}).add(append(append(asked, answered...),
		call(11, 0, server, "http2", nil),
		call(12, 11, client, "test.Leaf/Get", method), call(13, 12, server, "http2", nil),
		call(14, 11, client, "http2", nil), call(15, 14, server, "http2", nil),
		call(16, 11, client, "test.Leaf/Get", method), call(17, 16, server, "GET", nil))...).after(5 * time.Second)
	for id, want := range map[uint64]string{3: "test.Leaf/Get", 11: "http2", 13: "test.Leaf/Get", 15: "http2", 17: "GET"} {
		x := f.one(id)
		named := want == "test.Leaf/Get"
		if x.Name() != want || (text(x.Span, "rpc.method") == want) != named || (text(x.Span, "rpc.system.name") == "grpc") != named {
			t.Errorf("%d is %s %v, want %s", id, x.Name(), x.Attributes().AsRaw(), want)
		}
	}
}

func TestAChainOfThreeIsJoined(t *testing.T) {
	for i := range 20 {
		middle := append(serverHalf(2, 4000, 5), sp{trace: 2, id: 6, parent: 3, kind: client, host: "b", start: 2500, end: 6500, attrs: on("client", 5000, 0)})
		last := []sp{{trace: 3, id: 7, host: "c", start: 3000, end: 6000, attrs: on("server", 5000, 0)}}
		f := newFixture(t, Options{SequenceWait: time.Second, Shards: 4})
		if i%2 == 0 { // which of both joins comes first follows from the order
			f.add(last...).add(clientHalf(1, 4000, 5)...).add(middle...)
		} else {
			f.add(clientHalf(1, 4000, 5)...).add(middle...).add(last...)
		}
		f.after(5*time.Second).
			want("1/1<0 complete", "1/2<1", "1/3<2 by sequence", "1/4<3", "1/6<3", "1/7<6 by sequence")
	}
}

func TestMessagesOfAJoinedHalf(t *testing.T) {
	m := msg(2, 11, 3, "received", 2000, 5)
	m.host = "b"
	f := newFixture(t, Options{SequenceWait: time.Second}).add(clientHalf(1, 4000, 5)...).
		add(append(serverHalf(2, 4000, 5), m)...).after(3 * time.Second)
	if got := events(f.one(3).Span); got != "received@2000,5,1" {
		t.Errorf("events %q", got)
	}
}

// inEvents are the server's and client's spans of a half as an agent with events: only reports them.
func inEvents(half []sp) (all []sp) {
	for _, s := range half {
		if s.kind == internal {
			all = append(all, s)
			continue
		}
		kind, parent := "server", ""
		if s.kind == client {
			kind = "client"
		}
		if s.parent != 0 {
			parent = fmt.Sprintf("%016x", s.parent)
		}
		first := begun(msg(s.trace, 10*s.id, s.id, "received", s.start, 9), kind, parent)
		last := ended(s.trace, 10*s.id+1, s.id, s.end, "GET", 1, s.attrs)
		first.host, last.host = s.host, s.host
		all = append(all, first, last)
	}
	return all
}

// Requests that are made from events are joined as spans are, and as carefully.
func TestHalvesInEventsAreJoined(t *testing.T) {
	numbered := func(half []sp, sequence int) []sp {
		for i := range half {
			if half[i].attrs != nil {
				half[i].attrs[semconv.StreamSequence] = sequence
			}
		}
		return half
	}
	long := serverHalf(2, 4000, 77)
	long[0].end = 20_000
	apart := []string{"1/1<0 complete", "1/2<1", "2/3<0 complete", "2/4<3"}
	joined := []string{"1/1<0 complete", "1/2<1", "1/3<2 by sequence", "1/4<3"}
	for name, c := range map[string]struct {
		client, server []sp
		renumbered     bool
		want           []string
		outcome        int
	}{
		"both":                      {inEvents(clientHalf(1, 4000, 77)), inEvents(serverHalf(2, 4000, 77)), false, joined, Joined},
		"the client's":              {inEvents(clientHalf(1, 4000, 77)), serverHalf(2, 4000, 77), false, joined, Joined},
		"the server's":              {clientHalf(1, 4000, 77), inEvents(serverHalf(2, 4000, 77)), false, joined, Joined},
		"another sequence":          {inEvents(numbered(clientHalf(1, 4000, 77), 7)), inEvents(numbered(serverHalf(2, 4000, 77), 8)), false, apart, -1},
		"another one, renumbered":   {inEvents(numbered(clientHalf(1, 4000, 77), 7)), inEvents(numbered(serverHalf(2, 4000, 77), 8)), true, joined, Joined},
		"longer than the call":      {inEvents(clientHalf(1, 4000, 77)), inEvents(long), false, apart, Mismatched},
		"the client's is not there": {nil, inEvents(serverHalf(2, 4000, 77)), false, apart[2:], -1},
	} {
		t.Run(name, func(t *testing.T) {
			all := append(c.client, c.server...)
			for range 10 {
				rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
				f := newFixture(t, Options{SequenceWait: 2 * time.Second, Settle: 2 * time.Second, Shards: 3, Renumbered: c.renumbered})
				f.add(all[:len(all)/2]...).after(time.Second).add(all[len(all)/2:]...).after(9 * time.Second).want(c.want...)
				for i, n := range f.a.Stats().Joins {
					if want := map[bool]uint64{true: 1}[i == c.outcome]; n != want {
						t.Errorf("%s: %d, want %d", JoinOutcomes[i], n, want)
					}
				}
			}
		})
	}
}

func TestNoGuesses(t *testing.T) {
	apart := []string{"1/1<0 complete", "1/2<1", "2/3<0 complete", "2/4<3"}
	long := serverHalf(2, 4000, 77)
	long[0].end = 20_000
	tagged := append(clientHalf(1, 4000, 77), sp{trace: 1, id: 9, parent: 2, host: "b"})
	for name, c := range map[string]struct {
		spans   [][]sp
		want    []string
		outcome int
	}{
		"another offset":            {[][]sp{clientHalf(1, 4000, 77), serverHalf(2, 4000, 78)}, apart, -1},
		"another port":              {[][]sp{clientHalf(1, 4000, 77), serverHalf(2, 4001, 77)}, apart, -1},
		"longer than the call":      {[][]sp{clientHalf(1, 4000, 77), long}, apart, Mismatched},
		"two servers":               {[][]sp{clientHalf(1, 4000, 77), serverHalf(2, 4000, 77), serverHalf(3, 4000, 77)}, append([]string{"3/3<0 complete", "3/4<3"}, apart...), Ambiguous},
		"two clients":               {[][]sp{clientHalf(1, 4000, 77), serverHalf(2, 4000, 77), clientHalf(3, 4000, 77)}, append([]string{"3/1<0 complete", "3/2<1"}, apart...), Ambiguous},
		"has its server by its tag": {[][]sp{tagged, serverHalf(2, 4000, 77)}, append([]string{"1/9<2"}, apart...), Mismatched},
		"by its tag, and a parent is missing": {[][]sp{append([]sp{{trace: 1, id: 8, parent: 99, host: "a", start: 9}}, tagged...), serverHalf(2, 4000, 77)},
			[]string{"1/1<0 incomplete parent_missing", "1/2<1", "1/8<99", "1/9<2", "2/3<0 complete", "2/4<3"}, Mismatched},
		"both in one trace": {[][]sp{clientHalf(1, 4000, 77), serverHalf(1, 4000, 77)}, []string{"1/1<0 incomplete several_roots", "1/2<1", "1/3<0", "1/4<3"}, Mismatched},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Options{SequenceWait: 2 * time.Second, Settle: 4 * time.Second, Shards: 2})
			for _, s := range c.spans {
				f.add(s...)
			}
			f.after(15 * time.Second).want(c.want...)
			for i, n := range f.a.Stats().Joins {
				if want := map[bool]uint64{true: 1}[i == c.outcome]; n != want {
					t.Errorf("%s: %d, want %d", JoinOutcomes[i], n, want)
				}
			}
		})
	}
	// Sent twice is not ambiguous.
	newFixture(t, Options{SequenceWait: time.Second}).add(clientHalf(1, 1, 0)...).add(serverHalf(2, 1, 0)...).
		add(clientHalf(1, 1, 0)...).add(serverHalf(2, 1, 0)...).after(5*time.Second).
		want("1/1<0 complete", "1/2<1", "1/3<2 by sequence", "1/4<3")
	// Without the option nothing waits.
	newFixture(t, Options{}).add(clientHalf(1, 4000, 77)...).add(serverHalf(2, 4000, 77)...).want(apart...)
}

// A port that is used again makes another connection, unless a device between the hosts
// changes the numbers by which that is known.
func TestPortsThatAreUsedAgain(t *testing.T) {
	numbered := func(half []sp, sequence int) []sp {
		for i := range half {
			if half[i].attrs != nil {
				half[i].attrs[semconv.StreamSequence] = sequence
			}
		}
		return half
	}
	other := numbered(serverHalf(4, 4000, 0), 8)
	for i := range other {
		other[i].id += 4
		other[i].parent += other[i].parent / 3 * 4
	}
	again := numbered(clientHalf(3, 4000, 0), 8)
	for i := range again {
		again[i].id += 4
		again[i].parent += again[i].parent * 4
	}
	for renumbered, want := range map[bool][]string{
		false: {"1/1<0 complete", "1/2<1", "1/3<2 by sequence", "1/4<3", "3/5<0 complete", "3/6<5", "3/7<6 by sequence", "3/8<7"},
		true:  {"1/1<0 complete", "1/2<1", "2/3<0 complete", "2/4<3", "3/5<0 complete", "3/6<5", "4/7<0 complete", "4/8<7"},
	} {
		newFixture(t, Options{SequenceWait: time.Second, Renumbered: renumbered}).
			add(numbered(clientHalf(1, 4000, 0), 7)...).add(numbered(serverHalf(2, 4000, 0), 7)...).add(again...).add(other...).
			after(5 * time.Second).want(want...)
	}
	// Each sampled at one end only.
	f := newFixture(t, Options{SequenceWait: time.Second}).
		add(numbered(clientHalf(1, 4000, 0), 7)...).add(numbered(serverHalf(2, 4000, 0), 8)...)
	f.after(5*time.Second).want("1/1<0 complete", "1/2<1", "2/3<0 complete", "2/4<3")
}

func TestJoinsAreBoundedAndForgotten(t *testing.T) {
	f := newFixture(t, Options{SequenceWait: time.Second})
	for i := range 5000 {
		f.a.joins.see([]sighting{{position: position{offset: int64(i)}}}, 0)
	}
	f.after(2 * time.Second)
	if j := f.a.joins; len(j.positions) != 0 || len(j.queue)-j.head != 0 {
		t.Errorf("%d places, %d in the queue", len(j.positions), len(j.queue)-j.head)
	}
}
