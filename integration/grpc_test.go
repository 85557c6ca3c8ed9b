package integration

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// mesh is a chain of grpcServices.
type mesh struct {
	*servers
	redis int
}

// newMesh starts a chain of a kind.
func newMesh(t *testing.T, kind string) *mesh {
	t.Helper()
	need(t, "redis-server", "go")
	m := &mesh{&servers{stack: newStack(t), entry: testkit.FreePort(t)}, testkit.FreePort(t)}
	m.stack.redis(m.redis)
	m.selects("redis", m.redis)
	next := ""
	for _, role := range []string{"leaf", "middle", "front"} {
		port := testkit.FreePort(t)
		if role == "front" {
			port = m.entry
		}
		env := []string{goGRPCEnv + "=" + strings.Join([]string{role, loopback(port), next}, ","), "REDIS=" + itoa(m.redis), "GRPC_CASE=" + kind}
		argv := []string{os.Args[0]}
		if kind == "grpc alone" && role == "middle" {
			argv = []string{goBuild(t, "gogrpc", "-ldflags=-s -w"), loopback(port), next, loopback(m.redis)}
		}
		m.ready(m.service(role, "", env, argv...), loopback(port))
		m.selects(role, port)
		if kind == "envoy" && role == "middle" {
			envoy := testkit.FreePort(t)
			m.ready(envoyTranslates(m.servers, "envoy", envoy, port, "http2", "http2"), loopback(envoy))
			m.selects("envoy", envoy)
			port = envoy
		}
		next = loopback(port)
	}
	return m
}

func (m *mesh) load(connections, requests int) load.Options {
	return load.Options{Addr: loopback(m.entry), Connections: connections, Requests: uint64(requests), AppendPath: numbered}
}

// grpcShape is a request's trace; between: what the middle asks beside redis.
func grpcShape(methods ...string) fidelity.Shape {
	calls := []fidelity.Shape{call("middle", "GET n:", serve("redis", "GET n:"))}
	for _, method := range methods {
		calls = append(calls, call("middle", "test.Leaf/"+method, serve("leaf", "test.Leaf/"+method)))
	}
	return serve("front", "/n/", call("front", "test.Middle/Get", serve("middle", "test.Middle/Get", calls...)))
}

// Services of gRPC in Go: many streams share a connection, and a segment.
func TestGRPC(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kind     string
		share    float64 // of the requests that must be complete
		requests int
		methods  []string
	}{
		{kind: "unary", share: accounted},
		{kind: "streams", share: accounted, methods: []string{"Down", "Up", "Both", "Get"}},
		{kind: "waiting", share: accounted},
		{kind: "workers", share: accounted},
		{kind: "keepalive", share: accounted, requests: 64},
		{kind: "goaway", share: accounted},
		{kind: "large", share: accounted, requests: 500},
		{kind: "grpc alone", share: accounted}, // a program without net/http's server
	} {
		t.Run(tc.kind, func(t *testing.T) {
			t.Parallel()
			c, s := newMesh(t, tc.kind), newSink(t)
			a := trace(t, s, []string{grpcNumber}, c.ports...)
			if tc.kind == "workers" {
				tc.share = untilLinked(t, a, loopback(c.entry), numbered)
			}
			before := s.count()
			requests := cmp.Or(tc.requests, 3000)
			send(t, c.load(64, requests))
			m := a.settle()
			if tc.methods == nil {
				tc.methods = []string{"Get"}
			}
			wantComplete(t, judge(t, s.since(before), grpcShape(tc.methods...)), m, requests, tc.share)
			wantNoErrors(t, s.since(before))
			wantHTTP2Counted(t, m, "tare_http2_connections_total")
			if n := m.int("tare_http2_connections_total"); tc.kind == "goaway" && n < 12 {
				t.Errorf("%d ends of connections: none was ended while requests ran", n)
			}
		})
	}
}

// A proxy of gRPC that nothing but a header links, which is metadata.
func TestGRPCByHeader(t *testing.T) {
	t.Parallel()
	c, s := newMesh(t, "envoy"), newSink(t)
	a := trace(t, s, []string{grpcNumber}, c.ports...)
	learned := uint64(1 << 20)
	testkit.Until(t, time.Minute, "its requests' headers are noted", func() bool {
		before := a.mustMetrics().unlinked()
		learn := c.load(8, 200)
		learn.First, learned = learned, learned+200 // a value that comes again is doubtful
		send(t, learn)
		return a.settle().unlinked() == before
	})
	s.take()
	const requests = 3000
	send(t, c.load(64, requests))
	m := a.settle()
	shape := grpcShape("Get")
	shape.Children[0].Children = []fidelity.Shape{serve("envoy", "test.Middle/Get", call("envoy", "test.Middle/Get", shape.Children[0].Children...))}
	wantComplete(t, judge(t, s.all(), shape), m, requests, accounted)
	wantNoErrors(t, s.all())
}

// Contexts on the wire: a request that begins alone in its segment has a tag; where
// several begin, the segment says which streams are sampled, and a collector joins what
// they cause.
func TestGRPCOverWire(t *testing.T) {
	t.Parallel()
	t.Run("one of four", func(t *testing.T) {
		t.Parallel()
		c := newMesh(t, "unary")
		j := joinBefore(t, newSink(t))
		a := trace(t, j.sink, []string{grpcNumber}, slices.Concat(c.ports, ratio("0.25"), []string{overWire})...)
		const requests = 8000
		send(t, c.load(64, requests))
		m := a.settle()
		j.passed(t, a)
		wantRate(t, m.sampled(), requests, 0.25)
		wantTrees(t, j.sink.all(), m.sampled(), 7)
		if m.int("tare_streams_apart_total") == 0 {
			t.Error("no streams were named")
		}
	})
	for _, connections := range []int{1, 64} {
		t.Run(itoa(connections), func(t *testing.T) {
			t.Parallel()
			c := newMesh(t, "unary")
			j := joinBefore(t, newSink(t))
			a := trace(t, j.sink, []string{grpcNumber}, append(c.ports, overWire)...)
			const requests = 2000
			send(t, c.load(connections, requests))
			m := a.settle()
			apart := m.int("tare_streams_apart_total")
			t.Logf("%d tags sent, %d received, %d streams named", m.tags("sent"), m.tags("received"), apart)
			if alone := connections == 1; (apart == 0) != alone {
				t.Errorf("%d streams were named, of %d connections", apart, connections)
			}
			j.joined(t, grpcShape("Get"), requests, apart, a)
		})
	}
}

// Of four requests one is sampled: headers of the others are not seen, so that
// spans have no names; linked they are.
func TestGRPCOneOfFour(t *testing.T) {
	t.Parallel()
	c, s := newMesh(t, "unary"), newSink(t)
	a := trace(t, s, []string{grpcNumber}, append(c.ports, ratio("0.25")...)...)
	const requests = 8000
	send(t, c.load(64, requests))
	m := a.settle()
	wantRate(t, m.sampled(), requests, 0.25)
	wantTrees(t, s.all(), m.sampled(), 7)
}

// wantTrees requires that there is a trace for each sampled request, with so many
// spans, one root, each below another of the trace, and of one request.
func wantTrees(t *testing.T, spans []span.Span, sampled, each int) {
	t.Helper()
	r := fidelity.Classify(spans, grpcShape("Get").Always())
	sizes, roots := map[span.TraceID]int{}, 0
	for i := range spans {
		sizes[spans[i].TraceID]++
		if spans[i].Parent.IsZero() {
			roots++
		}
	}
	other := 0
	for _, n := range sizes {
		if n != each {
			other++
		}
	}
	if r.Wrong > 0 || r.Orphaned > 0 || other > 0 || roots != sampled || len(sizes) != sampled {
		t.Errorf("%d sampled: %d traces, %d roots, %d wrong, %d orphaned spans, %d traces not of %d spans",
			sampled, len(sizes), roots, r.Wrong, r.Orphaned, other, each)
		for _, id := range example(spans, r) {
			show(t, spans, id)
		}
	}
}

// Calls that end early, by a deadline or because the client gives them up, and
// those that are tried again: the spans of each are its request's.
func TestGRPCEarly(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"late", "retries"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c, s := newMesh(t, kind), newSink(t)
			a := trace(t, s, []string{grpcNumber}, c.ports...)
			const requests = 2000
			send(t, c.load(64, requests))
			m := a.settle()
			spans := s.all()
			r := judge(t, spans, grpcShape("Get"))
			// One that is given up before its headers were sent is not linked: it is
			// counted, and what it asked for may begin a trace. So may another one of the
			// same write, whose request is over.
			attempts, behind := 0, 0
			for i := range spans {
				if spans[i].Resource.Service == "leaf" {
					attempts++
				}
				if of, _ := spans[i].Attr(semconv.Behind); of.Str == "middle" {
					behind++
				}
			}
			if r.Traces != requests+behind || r.Orphaned > 0 || r.Split > behind || behind > 2*m.unlinked() {
				t.Errorf("%d traces, %d orphaned spans, %d requests split, %d spans behind the middle, of %d\n%v",
					r.Traces, r.Orphaned, r.Split, behind, requests, m)
			}
			if kind == "retries" {
				wantLinked(t, m, 0)
			}
			// One that is given up at once may never be begun.
			if least := map[string]int{"late": requests * 3 / 4, "retries": requests * 5 / 4}[kind]; attempts < least {
				t.Errorf("%d spans of the leaf for %d requests", attempts, requests)
			}
			wantHTTP2Counted(t, m, "tare_http2_connections_total")
		})
	}
}

// Connections that are older than the agent: headers before it are unknown, names
// are not guessed; what the requests cause is linked, or not, and never wrong.
func TestGRPCMidload(t *testing.T) {
	t.Parallel()
	c, s := newMesh(t, "unary"), newSink(t)
	o := c.load(64, 0)
	b := keepSending(t, o)
	b.more(500)
	a := trace(t, s, []string{grpcNumber}, c.ports...)
	b.more(3000)
	b.end()
	m := a.settle()
	spans := s.all()
	r := judge(t, spans, grpcShape("Get"))
	unnamed := 0
	for i := range spans {
		if spans[i].Name == "http2" {
			unnamed++
		}
		if _, behind := spans[i].Attr(semconv.Behind); !spans[i].Parent.IsZero() && behind {
			t.Fatalf("behind a service, and below a span: %s", describe(&spans[i]))
		}
	}
	t.Logf("%d of %d traces complete, %d of %d spans without a name\n%v", r.Complete, r.Traces, unnamed, len(spans), m)
}
