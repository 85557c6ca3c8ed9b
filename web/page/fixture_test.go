package page_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// call is a span of a generated trace, with what it calls. Times are in µs
// from its parent's start.
type call struct {
	service, name string
	kind          ptrace.SpanKind
	at, took      float64
	failed        string // status message; "": it did not fail
	attributes    map[string]any
	events        []string
	calls         []call

	lost bool // it is not sent, what it calls is
	id   pcommon.SpanID
}

const (
	server   = ptrace.SpanKindServer
	client   = ptrace.SpanKindClient
	internal = ptrace.SpanKindInternal
)

// writer makes traces of calls.
type writer struct {
	random *rand.Rand
	td     ptrace.Traces
	scopes map[string]ptrace.ScopeSpans
}

func newWriter(seed uint64) *writer {
	return &writer{random: rand.New(rand.NewPCG(seed, 1)), td: ptrace.NewTraces(), scopes: map[string]ptrace.ScopeSpans{}}
}

func (w *writer) scope(service string) ptrace.ScopeSpans {
	if s, ok := w.scopes[service]; ok {
		return s
	}
	rs := w.td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", service)
	rs.Resource().Attributes().PutStr("host.name", "node-"+string(rune('a'+len(w.scopes)%3)))
	s := rs.ScopeSpans().AppendEmpty()
	s.Scope().SetName("tare")
	w.scopes[service] = s
	return s
}

func (w *writer) traceID() (id pcommon.TraceID) {
	binary.BigEndian.PutUint64(id[:8], w.random.Uint64())
	binary.BigEndian.PutUint64(id[8:], w.random.Uint64())
	return id
}

// trace writes a trace and says of it what the collector would.
func (w *writer) trace(start time.Time, top call, facts map[string]any, tracestate string) pcommon.TraceID {
	id := w.traceID()
	w.write(id, pcommon.SpanID{}, start, top, facts, tracestate)
	return id
}

func (w *writer) write(id pcommon.TraceID, parent pcommon.SpanID, start time.Time, c call, facts map[string]any, tracestate string) {
	from := start.Add(time.Duration(c.at * 1e3))
	own := c.id
	if own.IsEmpty() {
		binary.BigEndian.PutUint64(own[:], w.random.Uint64())
	}
	if !c.lost {
		s := w.scope(c.service).Spans().AppendEmpty()
		s.SetTraceID(id)
		s.SetSpanID(own)
		s.SetParentSpanID(parent)
		s.SetName(c.name)
		s.SetKind(c.kind)
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(from))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(from.Add(time.Duration(c.took * 1e3))))
		s.TraceState().FromRaw(tracestate)
		if c.failed != "" {
			s.Status().SetCode(ptrace.StatusCodeError)
			s.Status().SetMessage(c.failed)
		}
		put(s.Attributes(), c.attributes)
		put(s.Attributes(), facts)
		for i, name := range c.events {
			e := s.Events().AppendEmpty()
			e.SetName(name)
			e.SetTimestamp(pcommon.NewTimestampFromTime(from.Add(time.Duration(float64(i+1) * c.took * 1e3 / float64(len(c.events)+1)))))
			e.Attributes().PutInt(semconv.MessageBytes, int64(100*(i+1)))
		}
	}
	for _, below := range c.calls {
		w.write(id, own, from, below, nil, tracestate)
	}
}

func put(m pcommon.Map, values map[string]any) {
	for k, v := range values {
		if err := m.PutEmpty(k).FromRaw(v); err != nil {
			panic(err) // a type that pdata does not know: the fixture is wrong
		}
	}
}

// http makes a call of one service by another: the client span, and the server
// span below it.
func http(from, to, method, path string, at, took, wire float64, calls ...call) call {
	name := method + " " + path
	attributes := map[string]any{"http.request.method": method, "url.path": path, "http.response.status_code": 200,
		"network.protocol.version": "1.1", semconv.BytesReceived: 612, semconv.BytesSent: 248}
	below := call{service: to, name: name, kind: server, at: wire, took: took - 2*wire, attributes: attributes, calls: calls}
	return call{service: from, name: name, kind: client, at: at, took: took, calls: []call{below},
		attributes: map[string]any{"http.request.method": method, "server.address": to, "server.port": 8080, semconv.PeerTraced: true}}
}

func redis(from, command string, at, took float64) call {
	return call{service: from, name: command, kind: client, at: at, took: took,
		attributes: map[string]any{"db.system.name": "redis", "db.operation.name": command, "server.address": "10.1.0.9", "server.port": 6379}}
}

// checkout is the large trace of the shop, about 20 ms; slow makes it longer.
func checkout(slow float64) call {
	return call{service: "gateway", name: "POST /checkout", kind: server, took: 23400 * slow, events: []string{"received", "sent"},
		attributes: map[string]any{"http.request.method": "POST", "url.path": "/checkout", "http.response.status_code": 200, "client.address": "192.0.2.17"},
		calls: []call{http("gateway", "frontend", "POST", "/checkout", 400, 22600*slow, 180,
			http("frontend", "cart", "GET", "/cart/{id}", 900, 3100*slow, 150, redis("cart", "HGETALL", 420, 900*slow), redis("cart", "EXPIRE", 1700*slow, 350)),
			http("frontend", "catalog", "GET", "/products", 4300*slow, 4100*slow, 170, redis("catalog", "MGET", 300, 1200*slow)),
			http("frontend", "catalog", "GET", "/prices", 4500*slow, 5600*slow, 170, redis("catalog", "MGET", 500, 700)),
			http("frontend", "payment", "POST", "/charge", 11000*slow, 9800*slow, 210,
				call{service: "payment", name: "reserve", kind: internal, at: 300, took: 2100 * slow},
				http("payment", "ledger", "POST", "/entries", 2800*slow, 5200*slow, 160,
					call{service: "ledger", name: "INSERT", kind: client, at: 700, took: 3300 * slow,
						attributes: map[string]any{"db.system.name": "postgresql", "server.address": "10.1.0.12", "server.port": 5432}})))}}
}

func browse(slow float64) call {
	return call{service: "gateway", name: "GET /", kind: server, took: 5200 * slow,
		attributes: map[string]any{"http.request.method": "GET", "url.path": "/", "http.response.status_code": 200},
		calls: []call{http("gateway", "frontend", "GET", "/", 250, 4700*slow, 120,
			http("frontend", "catalog", "GET", "/products", 500, 3100*slow, 130, redis("catalog", "MGET", 300, 900*slow)))}}
}

// find is the first call of a service and kind below c, c included.
func (c *call) find(service string, kind ptrace.SpanKind) *call {
	if c.service == service && c.kind == kind {
		return c
	}
	for i := range c.calls {
		if found := c.calls[i].find(service, kind); found != nil {
			return found
		}
	}
	return nil
}

// shop is an hour of the shop until now: n traces, some failed, some incomplete.
// It returns the ids of the special ones by what they are.
func shop(n int, now time.Time) (ptrace.Traces, map[string]pcommon.TraceID) {
	w := newWriter(7)
	special := map[string]pcommon.TraceID{}
	complete := map[string]any{semconv.TraceState: semconv.StateComplete}
	for i := range n {
		start := now.Add(-time.Duration(float64(55*time.Minute) * (float64(n-i) - 0.5) / float64(n)))
		slow := 0.7 + w.random.ExpFloat64()*0.5
		c := browse(slow)
		if i%3 == 0 {
			c = checkout(slow)
		}
		facts := complete
		switch {
		case i%29 == 5:
			c.calls[0].attributes["http.response.status_code"] = 502
			c.failed, c.calls[0].failed = "502", "502"
			s := c.find("catalog", server)
			s.failed, s.took = "connection reset by peer", s.took*3
			facts = map[string]any{semconv.TraceState: semconv.StateComplete, semconv.KeepReason: "error"}
		case slow > 2.5:
			facts = map[string]any{semconv.TraceState: semconv.StateComplete, semconv.KeepReason: "slow"}
		}
		tracestate := ""
		if i%4 == 0 {
			tracestate = "ot=th:c" // 25%
		}
		w.trace(start, c, facts, tracestate)
	}

	whole := checkout(1)
	whole.find("ledger", client).failed = "deadlock detected"
	whole.find("payment", server).attributes["http.response.status_code"] = 500
	whole.find("payment", server).failed = "500"
	special["checkout"] = w.trace(now.Add(-40*time.Second), whole, map[string]any{semconv.TraceState: semconv.StateComplete, semconv.KeepReason: "error"}, "")

	broken := checkout(1.3)
	broken.find("frontend", server).lost = true
	broken.find("ledger", server).lost = true
	broken.find("ledger", server).calls = nil
	put := func(c *call, key string, v any) {
		if c.attributes == nil {
			c.attributes = map[string]any{}
		}
		c.attributes[key] = v
	}
	put(broken.find("cart", server), semconv.Late, true)
	put(broken.find("catalog", server), semconv.ClockOffset, -1_250_000)
	put(broken.find("payment", server), semconv.LinkedBy, "sequence")
	special["broken"] = w.trace(now.Add(-20*time.Second), broken,
		map[string]any{semconv.TraceState: semconv.StateIncomplete, semconv.TraceReason: "parent_missing,server_missing"}, "ot=th:c")

	// payment cannot link what it sends: its part ends there, and ledger's begins behind it.
	part := checkout(0.9)
	paid := part.find("payment", server)
	paid.calls = nil
	put(paid, semconv.Linking, semconv.LinkingNone)
	put(paid, semconv.LinkingReason, "overlap")
	special["part"] = w.trace(now.Add(-12*time.Second), part, map[string]any{semconv.TraceState: semconv.StateUnlinked, semconv.TraceReason: semconv.EndsAt + "=payment"}, "")
	rest := call{service: "mail", name: "POST /send", kind: server, took: 4000}
	put(&rest, semconv.Behind, "payment")
	special["rest"] = w.trace(now.Add(-12*time.Second), rest, map[string]any{semconv.TraceState: semconv.StateUnlinked, semconv.TraceReason: semconv.BeginsBehind + "=payment"}, "")

	// Two spans with a hole between, whose parent was lost.
	special["gap"] = w.trace(now.Add(-15*time.Second), call{service: "batch", name: "run", lost: true, calls: []call{
		{service: "batch", name: "read", kind: internal, took: 4000}, {service: "batch", name: "write", kind: internal, at: 9000, took: 5000},
	}}, map[string]any{}, "")
	return w.td, special
}

// Names that would run or break something, were they ever more than text.
var hostileNames = []string{
	`<img src=x onerror="window.hacked=1">`, `"><script>window.hacked=1</script>`, `javascript:window.hacked=1`,
	"</title><svg onload=window.hacked=1>", "__proto__", "constructor", "${window.hacked=1}", "a\u202egnp.exe", "line\nbreak\ttab", "\x00nul", "\x1b[31mred\u009b2J", "ad\u200bmin\u2066\ufeff", "tag\U000e0041 \U0001f600\ufe0f", "%00%zz&service=x#/map", "",
}

func hostile(now time.Time) (ptrace.Traces, pcommon.TraceID) {
	w := newWriter(8)
	top := call{service: hostileNames[0], name: hostileNames[1], kind: server, took: 9000, failed: hostileNames[0]}
	for i, name := range hostileNames {
		top.calls = append(top.calls, call{service: name, name: name, kind: server, at: float64(i) * 500, took: 700, events: []string{name},
			attributes: map[string]any{name + "k": name, "long": fmt.Sprintf("%05000d", i), "peer.service": name}})
	}
	return w.td, w.trace(now.Add(-10*time.Second), top, map[string]any{semconv.TraceState: hostileNames[0], semconv.TraceReason: hostileNames[1], semconv.KeepReason: hostileNames[3]}, "")
}

// large is one trace of n spans, in levels of ten.
func large(n int, now time.Time) (ptrace.Traces, pcommon.TraceID) {
	w := newWriter(9)
	services := []string{"gateway", "frontend", "cart", "catalog", "payment", "ledger", "mail"}
	left := n - 1
	var below func(depth int, took float64) []call
	below = func(depth int, took float64) []call {
		var out []call
		for i := 0; i < 10 && left > 0 && depth < 6; i++ {
			left--
			c := call{service: services[depth], name: fmt.Sprintf("work %d", i), kind: internal, at: took / 10 * float64(i), took: took / 11}
			if left%5000 == 0 {
				c.failed = "out of luck"
			}
			out = append(out, c)
		}
		for i := range out {
			out[i].calls = below(depth+1, out[i].took)
		}
		return out
	}
	top := call{service: "gateway", name: "GET /everything", kind: server, took: 60e6}
	top.calls = below(1, top.took)
	return w.td, w.trace(now.Add(-2*time.Minute), top, map[string]any{semconv.TraceState: semconv.StateComplete}, "")
}

// mesh is calls among n services at random, with cycles. It returns how many
// different edges there are.
func mesh(n int, now time.Time) (ptrace.Traces, int) {
	w := newWriter(10)
	name := func(i int) string { return fmt.Sprintf("service-%02d", i) }
	edges := map[[2]int]bool{}
	for to := 1; to < n; to++ {
		for range 1 + w.random.IntN(2) {
			edges[[2]int{max(0, to-1-w.random.IntN(6)), to}] = true
		}
	}
	edges[[2]int{n - 1, 0}] = true
	edges[[2]int{n / 2, n / 3}] = true
	for edge := range edges {
		from, to := name(edge[0]), name(edge[1])
		for k := range 3 {
			c := http(from, to, "GET", "/x", 100, 900, 50)
			if k == 0 && edge[1]%5 == 0 {
				c.failed = "503"
			}
			w.trace(now.Add(-time.Minute), call{service: from, name: "GET /", kind: server, took: 1200, calls: []call{c}}, nil, "")
		}
	}
	return w.td, len(edges)
}
