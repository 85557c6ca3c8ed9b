package assemble

import (
	"encoding/binary"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// sp describes a span for a test. Times are microseconds from base.
type sp struct {
	trace      byte
	id, parent uint64
	kind       ptrace.SpanKind // default: server
	name       string
	host       string // and service
	start, end uint64
	attrs      map[string]any
	failed     bool
	state      string
}

const base = uint64(1_700_000_000_000_000_000)

const (
	server   = ptrace.SpanKindServer
	client   = ptrace.SpanKindClient
	internal = ptrace.SpanKindInternal
)

func traceID(n byte) pcommon.TraceID { return pcommon.TraceID{0: n, 14: n * 3, 15: n * 7} }

func spanID(n uint64) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], n)
	return id
}

// pdata makes one Traces, each span with a resource of its own.
func pdata(spans ...sp) ptrace.Traces {
	td := ptrace.NewTraces()
	for _, s := range spans {
		rs := td.ResourceSpans().AppendEmpty()
		if s.host != "" {
			rs.Resource().Attributes().PutStr("service.name", "service-"+s.host)
			rs.Resource().Attributes().PutStr("host.name", s.host)
		}
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName("test")
		s.fill(ss.Spans().AppendEmpty())
	}
	return td
}

func (s sp) fill(x ptrace.Span) {
	if s.kind == 0 {
		s.kind = server
	}
	if s.trace != 0 {
		x.SetTraceID(traceID(s.trace))
	}
	x.SetSpanID(spanID(s.id))
	x.SetParentSpanID(spanID(s.parent))
	x.SetKind(s.kind)
	x.SetName(s.name)
	x.TraceState().FromRaw(s.state)
	x.SetStartTimestamp(pcommon.Timestamp(base + s.start*1000))
	x.SetEndTimestamp(pcommon.Timestamp(base + s.end*1000))
	if s.failed {
		x.Status().SetCode(ptrace.StatusCodeError)
	}
	if err := x.Attributes().FromRaw(s.attrs); err != nil {
		panic(err)
	}
}

// fixture runs an assembler with a clock of its own.
type fixture struct {
	*testing.T
	a     *Assembler
	now   time.Time
	out   Out
	given []given1
	calls int
}

// given1 is a span that was emitted.
type given1 struct {
	ptrace.Span
	host string
	call int // in which batch
}

func newFixture(t *testing.T, o Options) *fixture {
	if o.Remember == 0 {
		o.Remember = 1000
	}
	a := New(o)
	return &fixture{T: t, a: a, now: a.epoch}
}

func (f *fixture) add(spans ...sp) *fixture { return f.addData(pdata(spans...)) }

func (f *fixture) addData(td ptrace.Traces) *fixture {
	f.a.Add(td, f.now, &f.out)
	return f.collect()
}

// after advances time, in the steps of a processor.
func (f *fixture) after(d time.Duration) *fixture {
	for end := f.now.Add(d); f.now.Before(end); {
		f.now = f.now.Add(min(50*time.Millisecond, end.Sub(f.now)))
		f.a.Expire(f.now, &f.out)
	}
	return f.collect()
}

func (f *fixture) flush() *fixture {
	f.a.Flush(&f.out)
	return f.collect()
}

func (f *fixture) collect() *fixture {
	f.Helper()
	for _, td := range f.out.Take() {
		f.calls++
		groups := map[string]bool{}
		for _, rs := range td.ResourceSpans().All() {
			host := ""
			if v, ok := rs.Resource().Attributes().Get("host.name"); ok {
				host = v.AsString()
			}
			key := string(appendResource(nil, rs))
			if groups[key] {
				f.Errorf("resource %q twice in one batch", host)
			}
			groups[key] = true
			for _, ss := range rs.ScopeSpans().All() {
				for _, x := range ss.Spans().All() {
					f.given = append(f.given, given1{x, host, f.calls})
				}
			}
		}
	}
	f.balance()
	return f
}

// balance checks that the counts account for every span.
func (f *fixture) balance() {
	f.Helper()
	s := f.a.Stats()
	sum := s.Emitted + s.Merged + uint64(s.Spans)
	for _, n := range s.Dropped {
		sum += n
	}
	if s.Received+s.Built != sum {
		f.Fatalf("%d spans came and %d were built, but %d are accounted for: %+v", s.Received, s.Built, sum, s)
	}
	if s.Emitted != uint64(len(f.given)) {
		f.Fatalf("%d spans are counted as emitted, but %d came", s.Emitted, len(f.given))
	}
	if s.Spans == 0 && (s.Bytes != 0 || s.Traces != 0) {
		f.Fatalf("no spans held, but %d bytes and %d traces", s.Bytes, s.Traces)
	}
	held := 0
	for _, sh := range f.a.shards {
		for _, t := range sh.traces {
			held += len(t.items)
		}
	}
	if held != s.Spans {
		f.Fatalf("%d spans held, %d counted", held, s.Spans)
	}
}

func text(x ptrace.Span, key string) string {
	v, ok := x.Attributes().Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// want compares what was emitted since the last call: one line for each span,
// "trace/id<parent", followed by what the collector said of it.
func (f *fixture) want(lines ...string) *fixture {
	f.Helper()
	var got []string
	for _, g := range f.given {
		id, parent := g.SpanID(), g.ParentSpanID()
		line := fmt.Sprintf("%d/%d<%d", g.TraceID()[0], binary.BigEndian.Uint64(id[:]), binary.BigEndian.Uint64(parent[:]))
		for _, key := range []string{semconv.TraceState, semconv.TraceReason} {
			if v := text(g.Span, key); v != "" {
				line += " " + v
			}
		}
		if v := text(g.Span, semconv.LinkedBy); v != "" {
			line += " by " + v
		}
		if v := text(g.Span, semconv.Late); v != "" {
			line += " late"
		}
		got = append(got, line)
	}
	sort.Strings(got)
	sort.Strings(lines)
	if a, b := strings.Join(got, "\n"), strings.Join(lines, "\n"); a != b {
		f.Errorf("emitted:\n%s\nwant:\n%s", a, b)
	}
	f.forget()
	return f
}

// forget resets the fixture's counts.
func (f *fixture) forget() {
	f.given = f.given[:0]
	for _, s := range f.a.shards {
		s.stats.Received -= s.stats.Emitted
		s.stats.Emitted = 0
	}
}

// one is the emitted span with this id.
func (f *fixture) one(id uint64) given1 {
	f.Helper()
	for _, g := range f.given {
		if g.SpanID() == spanID(id) {
			return g
		}
	}
	f.Fatalf("span %d was not emitted", id)
	return given1{}
}

func peerTraced() map[string]any { return map[string]any{semconv.PeerTraced: true} }
