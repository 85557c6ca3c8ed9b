package assemble

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// hop is a request of a made-up trace, in the true time (µs).
type hop struct {
	sp
	sent, received int // bytes of its messages
	calls          int
}

// journey makes requests across hosts whose clocks are off by seconds. Where no tag passed between two hosts, the server's
// part is a trace of its own, and both spans have the position at which the request began.
type journey struct {
	*rand.Rand
	clocks []uint64 // of each host: how far it is ahead (µs)
	calls  []*hop
	traces byte
	apart  int // how many servers no tag reached
}

const midnight = 100_000_000 // µs: clocks may be behind by less

func makeJourney(r *rand.Rand) *journey {
	j := &journey{Rand: r, traces: 1}
	for range 1 + r.IntN(5) {
		j.clocks = append(j.clocks, uint64(r.IntN(20_000_000)))
	}
	j.serve(1, 0, 0, midnight, midnight+1_000_000, 3)
	return j
}

func (j *journey) add(c sp) *hop {
	c.id = uint64(len(j.calls) + 1)
	x := &hop{sp: c, sent: 1 + j.IntN(5000), received: 1 + j.IntN(5000)}
	j.calls = append(j.calls, x)
	return x
}

// serve adds a request that a host serves in the time from begin to end, and those that it sends meanwhile.
func (j *journey) serve(trace byte, parent uint64, host int, begin, end uint64, depth int) *hop {
	s := j.add(sp{trace: trace, parent: parent, kind: server, host: fmt.Sprint(host), start: begin, end: end, attrs: map[string]any{}})
	n := j.IntN(4)
	if depth == 0 {
		n = 0
	}
	for i := range n {
		step := (end - begin - 20) / uint64(n)
		from := begin + 10 + uint64(i)*step
		to := from + step - 5
		if to < from+200 {
			break
		}
		c := j.add(sp{trace: trace, parent: s.id, kind: client, host: s.host, start: from, end: to, attrs: map[string]any{}})
		s.calls++
		where := j.IntN(len(j.clocks))
		if j.IntN(2) == 0 {
			c.attrs = peerTraced()
			j.serve(trace, c.id, where, from+20+uint64(j.IntN(40)), to-20-uint64(j.IntN(40)), depth-1)
			continue
		}
		j.traces++
		j.apart++
		at, offset := 1000+int(j.traces), j.IntN(3)*100
		c.attrs = on("client", at, offset)
		other := j.serve(j.traces, 0, where, from+20+uint64(j.IntN(40)), to-20-uint64(j.IntN(40)), depth-1)
		maps.Copy(other.attrs, on("server", at, offset))
	}
	s.attrs[semconv.Calls] = s.calls
	return s
}

// shown are the requests as an agent reports them: spans, or the events that they are made of.
func (j *journey) shown(events bool) (all []sp) {
	next := uint64(1000)
	for _, c := range j.calls {
		s := c.sp
		var host int
		if _, err := fmt.Sscan(s.host, &host); err != nil {
			panic(err)
		}
		s.start += j.clocks[host]
		s.end += j.clocks[host]
		if !events {
			all = append(all, s)
			continue
		}
		first, last, kind := "received", "sent", "server"
		firstBytes, lastBytes := c.received, c.sent
		if s.kind == client {
			first, last, kind, firstBytes, lastBytes = last, first, "client", lastBytes, firstBytes
		}
		message := func(name string, at uint64, bytes int) sp {
			next++
			m := msg(s.trace, next, s.id, name, at, bytes)
			m.host = s.host
			return m
		}
		parent := ""
		if s.parent != 0 {
			parent = fmt.Sprintf("%016x", s.parent)
		}
		pieces := 1 + j.IntN(min(3, firstBytes))
		all = append(all, begun(message(first, s.start, firstBytes-(pieces-1)), kind, parent))
		for i := range pieces - 1 {
			all = append(all, message(first, s.start+uint64(i+1), 1))
		}
		all = append(all, message(last, s.end, lastBytes))
		next++
		over := ended(s.trace, next, s.id, s.end, fmt.Sprint("request ", s.id), pieces+1, s.attrs)
		over.host = s.host
		all = append(all, over)
	}
	return all
}

// Whatever the clocks of the hosts say, in whatever order and pieces events or spans arrive, and whether tags or positions tell
// what belongs together: the trace is the tree of calls, each host's spans come in the order of its clock, no answer comes
// before its question, and the bytes of each message are in the order in which they passed.
func TestOrderDoesNotDependOnClocks(t *testing.T) {
	for seed := range uint64(1200) {
		r := rand.New(rand.NewPCG(seed, 15))
		j := makeJourney(r)
		events := seed%4 != 0
		all := j.shown(events)
		r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		f := newFixture(t, Options{SequenceWait: 2 * time.Second, Shards: 1 + int(seed%4)})
		for len(all) > 0 {
			n := min(1+r.IntN(30), len(all))
			f.add(all[:n]...)
			all = all[n:]
			if r.IntN(10) == 0 {
				f.after(50 * time.Millisecond)
			}
		}
		f.after(30 * time.Second)
		f.checkOrder(j, events)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func (f *fixture) checkOrder(j *journey, events bool) {
	f.Helper()
	stats := f.a.Stats()
	if len(f.given) != len(j.calls) || int(stats.Joins[Joined]) != j.apart || stats.Complete != 1 {
		f.Fatalf("%d spans of %d, %d joins of %d: %+v", len(f.given), len(j.calls), stats.Joins[Joined], j.apart, stats)
	}
	began := map[string]uint64{}
	var hosts []string
	byID := map[uint64]ptrace.Span{}
	for _, g := range f.given {
		id, parent := idOf(g.Span)
		c := j.calls[id-1]
		byID[id] = g.Span
		want := c.parent
		if c.kind == server && id > 1 && want == 0 {
			want = id - 1 // its client's, which was made just before
			if text(g.Span, semconv.LinkedBy) != "sequence" {
				f.Errorf("nothing says how the parent of %d was found", id)
			}
		}
		if parent != want || g.TraceID() != traceID(1) || g.host != c.host {
			f.Errorf("span %d of trace %v on host %s has the parent %d, want %d on host %s", id, g.TraceID(), g.host, parent, want, c.host)
		}
		start := uint64(g.StartTimestamp())
		if start < began[g.host] {
			f.Errorf("host %s: span %d, which began at %d, comes behind one of %d", g.host, id, start, began[g.host])
		}
		if _, seen := began[g.host]; !seen {
			hosts = append(hosts, g.host)
		} else if hosts[len(hosts)-1] != g.host {
			f.Errorf("the spans of host %s are not together", g.host)
		}
		began[g.host] = start
		if events {
			f.checkEvents(g.Span, c)
		}
	}
	if len(hosts) > 0 && hosts[0] != j.calls[0].host {
		f.Errorf("host %s comes first, the trace begins on host %s", hosts[0], j.calls[0].host)
	}
	if stats.Unproven > 0 {
		return
	}
	for _, c := range j.calls[1:] {
		x := byID[c.id]
		_, parent := idOf(x)
		up := byID[parent]
		if x.StartTimestamp() < up.StartTimestamp() || uint64(x.EndTimestamp()) > uint64(up.EndTimestamp())+uint64(endSlack) {
			f.Errorf("span %d lies outside its parent %d", c.id, parent)
		}
	}
}

func (f *fixture) checkEvents(x ptrace.Span, c *hop) {
	f.Helper()
	want := []struct {
		name  string
		bytes int
	}{{"received", c.received}, {"sent", c.sent}}
	if c.kind == client {
		want[0], want[1] = want[1], want[0]
	}
	if x.Events().Len() != 2 || x.Name() != fmt.Sprint("request ", c.id) {
		f.Errorf("%s: %d events: %s", x.Name(), x.Events().Len(), events(x))
		return
	}
	for i, w := range want {
		e := x.Events().At(i)
		if v, _ := e.Attributes().Get(semconv.MessageBytes); e.Name() != w.name || v.Int() != int64(w.bytes) {
			f.Errorf("%s: event %d of %s, want %s of %d bytes", x.Name(), i, events(x), w.name, w.bytes)
		}
	}
}

// What passes at one instant of a coarse clock: the first message is the first, and callers come before what they call.
func TestOrderWithinOneInstant(t *testing.T) {
	list := []sp{
		begun(msg(1, 11, 1, "received", 5, 100), "server", ""), msg(1, 12, 1, "sent", 5, 7), ended(1, 13, 1, 5, "GET", 2, nil),
		begun(msg(1, 21, 2, "sent", 5, 8), "client", "0000000000000001"), msg(1, 22, 2, "received", 5, 9), ended(1, 23, 2, 5, "POST", 2, nil),
	}
	for range 50 {
		rand.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
		f := newFixture(t, Options{}).add(list...)
		if len(f.given) != 2 || f.given[0].Name() != "GET" {
			t.Fatalf("%d spans, the first is %s", len(f.given), f.given[0].Name())
		}
		if got := events(f.given[0].Span) + ", " + events(f.given[1].Span); got != "received@5,100,1 sent@5,7,1, sent@5,8,1 received@5,9,1" {
			t.Fatal(got)
		}
	}
}
