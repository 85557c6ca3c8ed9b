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

// msg is a message event.
func msg(trace byte, id, parent uint64, name string, at uint64, bytes int) sp {
	return sp{trace: trace, id: id, parent: parent, kind: internal, name: name, host: "a", start: at, end: at,
		attrs: map[string]any{semconv.MessageBytes: bytes}}
}

// begun makes a message event the first of its request (events: only).
func begun(m sp, kind, parent string) sp {
	m.attrs[semconv.RequestKind], m.attrs[semconv.RequestParent] = kind, parent
	return m
}

func ended(trace byte, id, parent, at uint64, name string, messages int, attrs map[string]any) sp {
	all := map[string]any{semconv.RequestName: name, semconv.RequestMessages: messages}
	for k, v := range attrs {
		all[k] = v
	}
	return sp{trace: trace, id: id, parent: parent, kind: internal, name: semconv.RequestEnded, host: "a", start: at, end: at, attrs: all}
}

// events formats a span's events.
func events(x ptrace.Span) string {
	var list []string
	for _, e := range x.Events().All() {
		s := fmt.Sprintf("%s@%d", e.Name(), (uint64(e.Timestamp())-base)/1000)
		for _, k := range []string{semconv.MessageBytes, semconv.MessagePieces, semconv.MessageDuration} {
			if v, ok := e.Attributes().Get(k); ok {
				s += "," + v.AsString()
			}
		}
		list = append(list, s)
	}
	return strings.Join(list, " ")
}

func TestMessagesBecomeEvents(t *testing.T) {
	spans := []sp{
		msg(1, 11, 1, "received", 0, 100), msg(1, 12, 1, "received", 2, 50), msg(1, 13, 1, "sent", 5, 7),
		{trace: 1, id: 1, host: "a", start: 0, end: 9, name: "GET"},
		msg(1, 15, 2, "sent", 3, 1), {trace: 1, id: 2, parent: 1, kind: client, host: "a", start: 3, end: 4},
		msg(1, 16, 2, "received", 4, 2), msg(1, 14, 1, "sent", 9, 3),
	}
	for range 20 { // in any order
		rand.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
		f := newFixture(t, Options{}).add(spans...)
		if got, want := events(f.one(1).Span), "received@0,150,2,2000 sent@5,10,2,4000"; got != want {
			t.Errorf("events %s, want %s", got, want)
		}
		if got, want := events(f.one(2).Span), "sent@3,1,1 received@4,2,1"; got != want {
			t.Errorf("events %s, want %s", got, want)
		}
		f.want("1/1<0 complete", "1/2<1")
	}
	f := newFixture(t, Options{Messages: DropMessages}).add(spans...)
	if n := f.one(1).Events().Len(); n != 0 {
		t.Errorf("%d events", n)
	}
	f.want("1/1<0 complete", "1/2<1")
	newFixture(t, Options{Messages: KeepMessages}).add(spans...).
		want("1/1<0 complete", "1/11<1", "1/12<1", "1/13<1", "1/14<1", "1/15<2", "1/16<2", "1/2<1")
	// What has nothing to belong to stays a span.
	newFixture(t, Options{}).add(msg(1, 11, 9, "sent", 1, 1)).flush().
		want("1/11<9 incomplete no_root,parent_missing,shutdown")
	newFixture(t, Options{Messages: DropMessages}).add(msg(1, 11, 9, "sent", 1, 1)).flush().want()
	// A message of a message is not one.
	newFixture(t, Options{}).add(sp{trace: 1, id: 1}, msg(1, 11, 1, "sent", 1, 1), msg(1, 12, 11, "sent", 1, 1)).
		want("1/1<0 complete", "1/12<11")
	// Many attributes are the same ones, too.
	many := sp{trace: 1, id: 2, parent: 1, attrs: map[string]any{}}
	for i := range 100 {
		many.attrs[fmt.Sprint(i)] = i
	}
	f = newFixture(t, Options{}).addData(repeated(sp{trace: 1, id: 1}, many))
	f.want("1/1<0 complete", "1/2<1")
	// A user's span of that name is not a message.
	newFixture(t, Options{}).add(sp{trace: 1, id: 1}, sp{trace: 1, id: 2, parent: 1, kind: internal, name: "sent"}).
		want("1/1<0 complete", "1/2<1")
}

// If client and server share an id, a message belongs to the one of its own service.
func TestMessagesOfASharedID(t *testing.T) {
	other := msg(1, 12, 2, "received", 2, 7)
	other.host = "b"
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		pair := []sp{{trace: 1, id: 2, parent: 1, kind: client, host: "a"}, {trace: 1, id: 2, parent: 1, kind: server, host: "b"}}
		f := newFixture(t, Options{}).add(sp{trace: 1, id: 1, host: "a"}, pair[order[0]], pair[order[1]], msg(1, 11, 2, "sent", 1, 5), other)
		for _, g := range f.given {
			if g.SpanID() != spanID(2) {
				continue
			}
			want := map[string]string{"a": "sent@1,5,1", "b": "received@2,7,1"}[g.host]
			if got := events(g.Span); got != want {
				t.Errorf("host %s has events %q, want %q", g.host, got, want)
			}
		}
		f.want("1/1<0 complete", "1/2<1", "1/2<1")
	}
}

// repeated is the last of the spans once more, exactly.
func repeated(spans ...sp) ptrace.Traces {
	td := pdata(spans...)
	last := td.ResourceSpans().At(len(spans) - 1)
	last.CopyTo(td.ResourceSpans().AppendEmpty())
	return td
}

func TestManyMessages(t *testing.T) {
	spans := []sp{{trace: 1, id: 1}}
	for i := range uint64(maxMessages + 10) {
		spans = append(spans, msg(1, 100+i, 1, []string{"sent", "received"}[i%2], i, 1))
	}
	f := newFixture(t, Options{}).add(spans...)
	if x := f.one(1); x.Events().Len() != maxMessages || x.DroppedEventsCount() != 10 {
		t.Errorf("%d events, %d dropped", x.Events().Len(), x.DroppedEventsCount())
	}
}

// requestEvents are the events that the agent sends for a server request 1 and its call
// 2, in place of their spans.
func requestEvents() []sp {
	first := begun(msg(1, 11, 1, "received", 0, 100), "server", "")
	first.state = "ot=th:8"
	end := ended(1, 15, 1, 8, "GET", 3, map[string]any{"http.response.status_code": 500})
	end.failed = true
	return []sp{
		first, msg(1, 12, 1, "received", 1, 50),
		begun(msg(1, 21, 2, "sent", 3, 1), "client", "0000000000000001"), msg(1, 22, 2, "received", 4, 2),
		ended(1, 25, 2, 4, "POST", 2, nil),
		msg(1, 13, 1, "sent", 8, 7), end,
	}
}

func TestRequestsAreMadeOfEvents(t *testing.T) {
	spans := requestEvents()
	for i := range 50 {
		f := newFixture(t, Options{})
		if i == 0 {
			for _, s := range spans {
				f.add(s)
			}
		} else { // in any order
			rand.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
			f.add(spans...)
		}
		x := f.one(1)
		if x.Name() != "GET" || x.Kind() != server || x.TraceState().AsRaw() != "ot=th:8" || x.Flags() != 0x101 ||
			x.Status().Code() != ptrace.StatusCodeError || uint64(x.StartTimestamp()) != base || uint64(x.EndTimestamp()) != base+8000 ||
			text(x.Span, "http.response.status_code") != "500" || x.Attributes().Len() != 2 || x.host != "a" {
			t.Errorf("server span %v %v", x, x.Attributes().AsRaw())
		}
		if got, want := events(x.Span), "received@0,150,2,1000 sent@8,7,1"; got != want {
			t.Errorf("events %s, want %s", got, want)
		}
		if x = f.one(2); x.Name() != "POST" || x.Kind() != client || x.Flags() != 0x101 || x.Attributes().Len() != 0 {
			t.Errorf("client span %v %v", x, x.Attributes().AsRaw())
		}
		f.want("1/1<0 complete", "1/2<1")
	}
	newFixture(t, Options{Messages: DropMessages}).add(spans...).want("1/1<0 complete", "1/2<1")
	f := newFixture(t, Options{Messages: KeepMessages}).add(spans...)
	if x := f.one(11); x.Attributes().Len() != 1 || x.TraceState().AsRaw() != "" {
		t.Errorf("a kept first message has %v", x.Attributes().AsRaw())
	}
	f.want("1/1<0 complete", "1/11<1", "1/12<1", "1/13<1", "1/2<1", "1/21<2", "1/22<2")
}

func TestRequestsWithoutAllEvents(t *testing.T) {
	for name, c := range map[string]struct {
		without uint64
		want    []string
	}{
		"no end":      {15, []string{"1/1<0 incomplete request_open", "1/2<1"}},
		"no message":  {13, []string{"1/1<0 incomplete request_open", "1/2<1"}},
		"no response": {12, []string{"1/1<0 incomplete request_open", "1/2<1"}},
		"no first":    {21, []string{"1/1<0 incomplete parent_missing", "1/22<2", "1/25<2"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Options{})
			for _, s := range requestEvents() {
				if s.id != c.without {
					f.add(s)
				}
			}
			f.want()
			f.after(11 * time.Second)
			if x := f.one(1); uint64(x.EndTimestamp()) != base+8000 {
				t.Errorf("ends at %d", x.EndTimestamp())
			}
			f.want(c.want...)
		})
	}
}

// If the attributes of a request cannot be read, its events stay as they are.
func TestBrokenRequests(t *testing.T) {
	for _, c := range [][2]string{{"server", "xyz"}, {"server", "zzzzzzzzzzzzzzzz"}, {"internal", ""}, {"", "0000000000000001"}} {
		newFixture(t, Options{}).add(begun(msg(1, 11, 1, "sent", 1, 1), c[0], c[1])).flush().
			want("1/11<1 incomplete no_root,parent_missing,shutdown")
	}
	// A client request towards a traced peer needs its server span, too.
	newFixture(t, Options{}).add(begun(msg(1, 11, 1, "sent", 1, 1), "client", ""),
		ended(1, 12, 1, 2, "GET", 1, peerTraced())).flush().want("1/1<0 incomplete server_missing,shutdown")
	// Its own span came as well: the events are those of that one.
	f := newFixture(t, Options{}).add(sp{trace: 1, id: 1, host: "a"}, begun(msg(1, 11, 1, "received", 1, 1), "server", ""))
	f.want("1/1<0 complete")
}
