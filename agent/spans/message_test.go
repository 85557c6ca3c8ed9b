package spans

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tare-trace/tare/agent/spans/spanstest"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// pieceTogether makes spans of events as semconv.RequestKind has it: the
// smallest reader that could be right.
func pieceTogether(t *testing.T, events []span.Span) []span.Span {
	t.Helper()
	var out []span.Span
	started := map[span.ID]*span.Span{}
	messages := map[span.ID]int64{}
	for _, e := range events {
		if e.Kind != span.Internal || e.Duration() != 0 || e.ID.IsZero() {
			t.Fatalf("no event: %+v", e)
		}
		switch e.Name {
		case semconv.MessageReceived, semconv.MessageSent:
			kind, first := e.Attr(semconv.RequestKind)
			if (messages[e.Parent] == 0) != first {
				t.Errorf("message %d of %v: kind given: %v", messages[e.Parent], e.Parent, first)
			}
			messages[e.Parent]++
			if !first {
				continue
			}
			s := span.Span{TraceID: e.TraceID, ID: e.Parent, TraceState: e.TraceState, Start: e.Start, Resource: e.Resource}
			s.Kind = map[string]span.Kind{"server": span.Server, "client": span.Client}[kind.Str]
			parent, ok := e.Attr(semconv.RequestParent)
			if !ok {
				t.Error("no parent")
			}
			if parent.Str != "" {
				if _, err := hex.Decode(s.Parent[:], []byte(parent.Str)); err != nil || len(parent.Str) != 16 {
					t.Errorf("parent %q: %v", parent.Str, err)
				}
			}
			started[e.Parent] = &s
		case semconv.RequestEnded:
			s := started[e.Parent]
			if s == nil {
				t.Fatalf("ended before it began: %+v", e)
			}
			n, _ := e.Attr(semconv.RequestMessages)
			if n.Num != messages[e.Parent] {
				t.Errorf("%d messages, %d came", n.Num, messages[e.Parent])
			}
			name, _ := e.Attr(semconv.RequestName)
			s.Name, s.End, s.Status = name.Str, e.End, e.Status
			s.Attrs = slices.DeleteFunc(slices.Clone(e.Attrs), func(a span.Attr) bool {
				return a.Key == semconv.RequestName || a.Key == semconv.RequestMessages
			})
			out = append(out, *s)
		default:
			t.Errorf("event %q", e.Name)
		}
	}
	return out
}

// play handles all records; what has no END is finished in an order of its own.
func play(f *fixture) {
	for _, r := range spanstest.Requests() {
		f.Handle(r)
	}
	f.FinishAll()
	slices.SortStableFunc(f.spans, func(a, b span.Span) int { return cmp.Compare(a.Start, b.Start) })
}

// The same records give the same spans, sent as such or as events.
func TestEventsOnlyEqualSpans(t *testing.T) {
	state := func(th uint64) string { return fmt.Sprintf("ot=th:%x", th) }
	whole, events := newFixture(Config{TraceState: state}), newFixture(Config{TraceState: state, Messages: OnlyMessages})
	events.offset = whole.offset // one clock
	play(whole)
	play(events)
	got := pieceTogether(t, events.spans)
	slices.SortStableFunc(got, func(a, b span.Span) int { return cmp.Compare(a.Start, b.Start) })
	if len(got) != len(whole.spans) || len(got) != 7 {
		t.Fatalf("%d spans of events, %d as such", len(got), len(whole.spans))
	}
	for i, want := range whole.spans {
		want.UTF8 = false // whoever pieces spans together does not know
		if !reflect.DeepEqual(got[i], want) {
			t.Errorf("span %d of events\n     %+v\nwant %+v", i, got[i], want)
		}
	}
	if whole.Built() != events.Built() {
		t.Errorf("%d spans counted, %d as events", whole.Built(), events.Built())
	}
	ids := map[span.ID]bool{}
	for _, e := range events.spans {
		if ids[e.ID] {
			t.Errorf("two events have id %v", e.ID)
		}
		ids[e.ID] = true
	}
}

// Objects are reused by another kind of event.
func TestEventsAreClean(t *testing.T) {
	f := newFixture(Config{Messages: OnlyMessages, Quiet: time.Nanosecond})
	for id := uint64(1); id < 20; id++ {
		f.start(id, server, id, "GET / HTTP/1.1\r\n", func(s *bpf.Start) { s.ParentId = id * 100 })
		f.data(id, sent, id+1, "HTTP/1.1 200 OK")
		f.data(id, sent, id+1, "more")
		f.end(id, next, 0)
	}
	for i, e := range f.spans {
		want := []int{3, 1, 1, -1}[i%4]
		if want > 0 && len(e.Attrs) != want || e.TraceState != "" || e.Status != span.Unset {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if len(f.spans) != 19*4 {
		t.Errorf("%d events", len(f.spans))
	}
}
