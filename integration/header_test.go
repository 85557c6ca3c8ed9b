package integration

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/workloads"
)

// header makes every request's lines of a header.
func header(format string, value func(n uint64) uint64) func([]byte, uint64) []byte {
	return func(dst []byte, n uint64) []byte { return fmt.Appendf(dst, format, value(n)) }
}

const requestID = "x-request-id: 5f1c2b0e-%08d\r\n"

func own(n uint64) uint64      { return n }
func constant(uint64) uint64   { return 7 }
func ofPairs(n uint64) uint64  { return n / 2 }
func repeated(n uint64) uint64 { return n % 200 }

// traces of ten requests, which follow each other on one connection. Their
// traceparent is adopted, and their x-request-id is the trace's.
func tens(dst []byte, n uint64) []byte {
	return fmt.Appendf(dst, "traceparent: 00-00000000000000%018x-00000000%08x-01\r\n"+requestID, n/10+1, n+1, n/10)
}

// Services whose calls nothing else links, and which forward a header.
var forwarders = []server{
	{name: "lighttpd", needs: []string{"lighttpd"}, start: lighttpd},
	{name: "varnish", needs: []string{"varnishd"}, start: varnish},
	{name: "python select loop", start: python("loop")},
	{name: "node", needs: []string{"node"}, start: node},
}

// What only a header tells is linked by it, where each request has a value of its own.
func TestHeaderLinks(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "python3")
	for _, s := range forwarders {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			need(t, s.needs...)
			f := s.forwarding(t)
			f.learn(t, "x-request-id")
			for i, d := range []drive{kept, one, many} {
				t.Run(d.name, func(t *testing.T) {
					d.header = header(fmt.Sprintf("X-Request-Id:  drive-%d-%%08d\r\n", i), own)
					spans, m, answered, _ := f.drive(t, d)
					wantNoErrors(t, spans)
					linked, wrong := linkedOf(t, spans)
					t.Logf("%d of %d calls are linked, %d wrongly", linked, answered, wrong)
					if linked < answered-answered/1000-spare || wrong > 0 {
						t.Errorf("%d of %d calls are linked, %d wrongly\n%v", linked, answered, wrong, m)
					}
					for i := range spans {
						linking, _ := spans[i].Attr(semconv.Linking)
						if spans[i].Resource.Service == "service" && linking.Str != semconv.LinkingHeader {
							t.Fatalf("%s=%s, want it linked by the header: %s", semconv.Linking, linking.Str, describe(&spans[i]))
						}
					}
				})
			}
		})
	}
}

// headerOnly: nothing but a header links the service.
var headerOnly = []string{"--linking", "service=none"}

// A value that does not tell requests apart links nothing to another request; what
// is not linked says so and is counted.
func TestHeaderDoubts(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "python3")
	for _, tc := range []struct {
		name  string
		start func(*servers) *workloads.Process
		drive drive
		env   []string
		args  []string
		// reason of calls that must have been counted; "": any
		reason string
		none   bool // nothing may be linked
	}{
		{name: "the same in all requests", start: python("loop"), drive: drive{header: header(requestID, constant)}, reason: "header"},
		{name: "the same in all requests, one after the other", start: python("loop"), drive: drive{connections: 1, requests: 500, header: header(requestID, constant)}, reason: "header"},
		{name: "the same in two requests at once", start: python("loop"), drive: drive{header: header(requestID, ofPairs)}, reason: "header"},
		{name: "values that come again", start: python("loop"), drive: drive{header: header(requestID, repeated)}, reason: "header"},
		{name: "values that come again, one request of ten sampled", start: python("loop"), env: []string{"OTEL_TRACES_SAMPLER_ARG=0.1"},
			drive: drive{requests: 6000, header: header(requestID, repeated)}},
		{name: "short values", start: python("loop"), drive: drive{header: header("x-request-id: %d\r\n", own)}, none: true},
		{name: "asked late", start: python("forwarding_late"), args: headerOnly, drive: drive{connections: 4, header: header(requestID, own)}, none: true},
		{name: "asked in time and late, traces of several requests", start: python("forwarding_twice"), args: headerOnly, drive: drive{connections: 1, header: tens}},
		{name: "asked late, the same in all requests", start: python("forwarding_late"), args: headerOnly, drive: drive{connections: 4, header: header(requestID, constant)}, none: true},
		{name: "asked late, traces of several requests", start: python("forwarding_late"), args: headerOnly, drive: drive{connections: 1, header: tens}, none: true},
		{name: "another header", start: python("loop"), drive: drive{header: header("x-tenant-id: 5f1c2b0e-%08d\r\n", own)}, none: true},
		{name: "switched off", start: python("loop"), args: []string{"--correlation", "none"}, drive: drive{header: header(requestID, own)}, none: true},
		{name: "through varnish", start: varnish, drive: drive{header: header(requestID, repeated)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := server{name: tc.name, start: tc.start}
			f := s.forwarding(t, append(tc.args, tc.env...)...)
			if tc.args == nil {
				f.learn(t, "x-request-id")
			} else { // nothing links its calls
				for range 2 {
					f.drive(t, f.learning("x-request-id"))
				}
			}
			for range 2 { // it gets to know values of the first round
				spans, m, answered, counted := f.drive(t, tc.drive)
				linked, wrong := linkedOf(t, spans)
				t.Logf("%d answered, %d linked, %d wrongly, %d counted, %d of them for the header", answered, linked, wrong, counted["all"], counted[tc.reason])
				if wrong > 0 || tc.none && linked > 0 {
					t.Errorf("%d are linked, %d of them wrongly", linked, wrong)
				}
				if tc.reason != "" && counted[tc.reason] == 0 || len(tc.env) == 0 && tc.args == nil && linked+counted["all"] < answered && !tc.none {
					t.Errorf("of %d requests %d are linked and %d counted\n%v", answered, linked, counted["all"], m)
				}
			}
		})
	}
}

// Requests of a trace that come one after the other may have one value, if the service
// has never asked late.
func TestHeaderOfATrace(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "python3")
	s := server{name: "python", start: python("loop")}
	f := s.forwarding(t)
	f.learn(t, "x-request-id")
	spans, m, answered, _ := f.drive(t, drive{connections: 1, requests: 500, header: tens})
	if linked, wrong := linkedOf(t, spans); linked < answered-answered/100-spare || wrong > 0 {
		t.Errorf("%d of %d calls are linked, %d of them wrongly\n%v", linked, answered, wrong, m)
	}
}

// A rule names headers of its own.
func TestHeaderOfARule(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "python3")
	c, sink := newServers(t, "backend"), newSink(t)
	c.answers(python("loop")(c))
	file := c.file("tare.yaml", fmt.Sprintf(`
correlation: none
services:
  - {name: service, ports: [%d], correlation: [X-Tenant-ID]}
  - {name: backend, ports: [%d]}
`, c.entry, c.backend))
	f := &forwarder{servers: c, sink: sink, tracer: trace(t, sink, nil, "--config", file), server: server{asks: backend}}
	f.learn(t, "x-tenant-id")
	spans, m, answered, _ := f.drive(t, drive{header: header("x-tenant-id: 5f1c2b0e-%08d\r\n", own)})
	wantComplete(t, judge(t, spans, f.server.shape()), m, answered, 0.999)
	testkit.Until(t, 10*time.Second, "the log says so", func() bool {
		return strings.Contains(f.tracer.Log.String(), "header=x-tenant-id")
	})
}

// forwarder is a service that forwards a header, in front of the backend.
type forwarder struct {
	server  server
	servers *servers
	sink    *sink
	tracer  *tracer
	learned uint64 // values of the header so far
}

// forwarding starts it; options are flags of the agent, or its environment.
func (s server) forwarding(t *testing.T, options ...string) *forwarder {
	t.Helper()
	s.asks = backend
	c, sink := newServers(t, s.asks...), newSink(t)
	c.answers(s.start(c))
	var env []string
	for _, o := range options {
		if name, _, ok := strings.Cut(o, "="); ok && strings.ToUpper(name) == name {
			env = append(env, o)
		} else {
			c.ports = append(c.ports, o)
		}
	}
	return &forwarder{server: s, servers: c, sink: sink, tracer: trace(t, sink, env, c.ports...)}
}

// learning is a drive whose requests have a value of their own each.
func (f *forwarder) learning(name string) drive {
	return drive{connections: 8, requests: 200, header: func(dst []byte, _ uint64) []byte {
		return fmt.Appendf(dst, "%s: learning-%08d\r\n", name, atomic.AddUint64(&f.learned, 1))
	}}
}

// learn has it asked until its calls are linked.
func (f *forwarder) learn(t *testing.T, name string) {
	t.Helper()
	d := f.learning(name)
	testkit.Until(t, time.Minute, "its calls are linked", func() bool {
		_, _, _, counted := f.drive(t, d)
		return counted["all"] == 0
	})
}

// drive sends requests, and returns what was counted meanwhile, by reason.
func (f *forwarder) drive(t *testing.T, d drive) (spans []span.Span, m metrics, answered int, counted map[string]int) {
	t.Helper()
	from, before := f.sink.count(), f.tracer.mustMetrics()
	answered = d.run(t, loopback(f.servers.entry))
	m = f.tracer.settle()
	counted = map[string]int{"all": m.unlinked() - before.unlinked()}
	const header = `tare_unlinked_total{reason="header"}`
	counted["header"] = m.int(header) - before.int(header)
	return f.sink.since(from), m, answered, counted
}

// requestOf is the number of a span's request; "" if it is not known.
func requestOf(sp *span.Span) string {
	for _, name := range []string{"url.path", "url.full"} {
		if v, ok := sp.Attr(name); ok {
			return v.Str[strings.LastIndex(v.Str, "/")+1:]
		}
	}
	return ""
}

// linkedOf counts the service's calls that are below a request of the service, and those below another
// number's.
func linkedOf(t *testing.T, spans []span.Span) (linked, wrong int) {
	t.Helper()
	requests, below := map[span.ID]*span.Span{}, map[span.ID]*span.Span{}
	for i := range spans {
		if spans[i].Resource.Service == "service" && spans[i].Kind == span.Server {
			requests[spans[i].ID] = &spans[i]
		}
		below[spans[i].Parent] = &spans[i]
	}
	for i := range spans {
		sp := &spans[i]
		if sp.Resource.Service != "service" || sp.Kind != span.Client {
			continue
		}
		linked++
		if requestOf(sp) == "" && below[sp.ID] != nil { // varnish sends a request from many buffers
			sp = below[sp.ID]
		}
		if of := requests[spans[i].Parent]; of == nil || requestOf(of) == "" || requestOf(of) != requestOf(sp) {
			if wrong == 0 && of != nil {
				t.Logf("%s is below %s", describe(sp), describe(of))
			}
			wrong++
		}
	}
	return linked, wrong
}
