package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
)

// newGoServers starts them; asks is what the service asks besides.
func newGoServers(t *testing.T, asks ...string) *servers {
	t.Helper()
	return goServers(t, nil, asks...)
}

// goServers have more in their environment.
func goServers(t *testing.T, env []string, asks ...string) *servers {
	t.Helper()
	c := newServers(t, asks...)
	c.env = append(c.env, env...)
	next := testkit.FreePort(t)
	c.selects("next", next)
	c.ready(c.service("next", "", append(env, goServiceEnv+"="+loopback(next)), os.Args[0]), loopback(next))
	c.answers(c.service("service", "", append(c.env, goServiceEnv+"="+loopback(c.entry), "NEXT="+loopback(next)), os.Args[0]))
	return c
}

// toNext is a call to the other service in Go, and what it does there.
func toNext(prefix string) fidelity.Shape {
	return call("service", prefix, serve("next", prefix))
}

func toRedis(prefix string) fidelity.Shape {
	return call("service", "GET "+prefix, serve("redis", "GET "+prefix))
}

func toMemcached(prefix string) fidelity.Shape {
	return call("service", "gets "+prefix, serve("memcached", "gets "+prefix))
}

// way is the path of a way of goService, for load.
func way(name string) func([]byte, uint64) []byte {
	return func(dst []byte, n uint64) []byte { return strconv.AppendUint(append(dst, "/"+name+"/"...), n, 10) }
}

// inTurnAndAtOnce sends requests over one connection, then over 64; returns how many.
func inTurnAndAtOnce(t *testing.T, addr, name string) int {
	t.Helper()
	one, many := few(100), few(1400)
	send(t, load.Options{Addr: addr, Connections: 1, Requests: uint64(one), AppendPath: way(name)})
	send(t, load.Options{Addr: addr, Connections: 64, First: uint64(one), Requests: uint64(many), AppendPath: way(name)})
	return one + many
}

// untilLinked sends until nothing is unlinked any more: the kernel side cannot wait for a
// page of a program's tables that the program itself has not touched yet, and asks the
// agent to. It returns the share of calls that are linked from then on at least, for
// another may come by a way through the program that was not taken before.
func untilLinked(t *testing.T, a *tracer, addr string, path func([]byte, uint64) []byte) (share float64) {
	t.Helper()
	for range 20 {
		counted := a.mustMetrics().unlinked()
		send(t, load.Options{Addr: addr, Connections: 16, Requests: 64, AppendPath: path})
		if a.settle().unlinked() == counted {
			break
		}
	}
	return 0.995
}

// goWay is a way of goService, and what it asks; nil: that is not linked.
type goWay struct {
	name  string
	calls []fidelity.Shape
}

// onStack says that it may be linked by nothing but contexts that lie on the stack.
func (w goWay) onStack() bool {
	return slices.Contains([]string{"errgroup", "go", "pool", "begun"}, w.name)
}

// served is the part of a request's trace that is the service's.
func (w goWay) served() fidelity.Shape { return serve("service", "/"+w.name+"/", w.calls...) }

// run sends requests in this way, and requires that their traces are complete or, where
// nothing is linked, that all spans of the service say so.
func (w goWay) run(t *testing.T, s *sink, a *tracer, addr, name string, whole fidelity.Shape) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		share := 1.0
		if w.onStack() {
			share = untilLinked(t, a, addr, way(w.name))
		}
		before, counted := s.count(), a.mustMetrics().unlinked()
		requests := inTurnAndAtOnce(t, addr, w.name)
		m := a.settle()
		spans := s.since(before)
		wantNoErrors(t, spans)
		r := judge(t, spans, whole)
		if w.calls == nil {
			wantUnlinked(t, spans, m, requests, m.unlinked()-counted)
			wantFewLinked(t, spans, requests)
			return
		}
		wantComplete(t, r, m, requests, share)
		wantLinked(t, m, counted+int((1-share)*float64(requests)))
	})
}

// Every way in which a service in Go asks others while it works for a request, one
// request at a time and 64 at once: linked whole or, where nothing in the program
// tells whose the call is, said to be unlinked. None is ever linked to another
// request.
func TestGo(t *testing.T) {
	t.Parallel()
	need(t, "redis-server", "memcached")
	asks := storages
	if program("postgres") != "" {
		asks = append(slices.Clone(asks), "postgres")
	}
	c, s := newGoServers(t, asks...), newSink(t)
	a := trace(t, s, nil, c.ports...)
	for _, w := range []goWay{
		{"n", allAsked.Children},
		{"client", []fidelity.Shape{toNext("/client/")}},
		{"timeout", []fidelity.Shape{toNext("/timeout/")}},
		{"queued", []fidelity.Shape{toNext("/queued/")}},
		{"proxy", []fidelity.Shape{toNext("/proxy/")}},
		{"redirect", []fidelity.Shape{toNext("/redirect/"), toNext("/redirected/")}},
		{"redis", []fidelity.Shape{toRedis("n:")}},
		{"memcached", []fidelity.Shape{toMemcached("n:")}},
		{"errgroup", []fidelity.Shape{toRedis("a:"), toRedis("b:"), toNext("/errgroup/")}},
		{"go", []fidelity.Shape{toRedis("n:"), toNext("/go/")}},
		{"pool", []fidelity.Shape{toRedis("n:")}},
		{"begun", []fidelity.Shape{toRedis("n:")}},
		{"early", []fidelity.Shape{toNext("/early/"), toRedis("n:"), toMemcached("n:")}},
		{"early-length", []fidelity.Shape{toNext("/early-length/"), toRedis("n:"), toMemcached("n:")}},
		{"nocontext", nil},
		{"bare", nil}, // an errgroup without a context
		{"background", nil},
		{"grown", nil},
		{"lazy", nil},
	} {
		w.run(t, s, a, loopback(c.entry), w.name, w.served())
	}

	since := func(t *testing.T, run func()) (metrics, []span.Span) {
		t.Helper()
		before := s.count()
		run()
		m := a.settle()
		return m, s.since(before)
	}
	// A query's length is its number.
	t.Run("sql", func(t *testing.T) {
		need(t, "postgres")
		requests := 0
		m, spans := since(t, func() { requests = inTurnAndAtOnce(t, loopback(c.entry), "sql") })
		wantBranches(t, spans, branch{service: "service", kind: span.Server, name: "GET", below: []branch{{service: "service", kind: span.Client, name: "*",
			below: []branch{{service: "postgres", kind: span.Server, name: "*"}}}}}, m, requests, 1)
		wantNoErrors(t, spans)
		wantLengths(t, spans, pathNumber(t))
	})
	// The upstream closes every connection with its fifth request unanswered.
	t.Run("retry", func(t *testing.T) {
		requests := 0
		m, spans := since(t, func() { requests = inTurnAndAtOnce(t, loopback(c.entry), "retry") })
		judge(t, spans, serve("service", "/retry/", toNext("/retry/")))
		wantAttempts(t, spans, m, requests, requests/10)
	})
	// Requests that come at the same time share a call: it is below the one whose handler
	// makes it.
	t.Run("shared", func(t *testing.T) {
		requests := 0
		_, spans := since(t, func() { requests = inTurnAndAtOnce(t, loopback(c.entry), "shared") })
		numbers, calls := map[span.TraceID]int{}, 0
		for i := range spans {
			if spans[i].Parent.IsZero() {
				numbers[spans[i].TraceID] = pathNumber(t)(&spans[i])
			}
		}
		for i := range spans {
			query, asks := spans[i].Attr("db.query.text")
			if !asks || spans[i].Kind != span.Client {
				continue
			}
			calls++
			if n := numbers[spans[i].TraceID]; query.Str != "GET "+key("n", n/4) {
				t.Errorf("%q is below request %d", query.Str, n)
			}
		}
		if calls < requests/4 || calls > requests || len(numbers) != requests {
			t.Errorf("%d calls, %d traces, of %d requests", calls, len(numbers), requests)
		}
	})
	// Bodies in pieces, both ways at once.
	t.Run("stream", func(t *testing.T) {
		requests := few(640)
		m, spans := since(t, func() { streamed(t, "http://"+loopback(c.entry)+"/stream/", requests) })
		wantComplete(t, judge(t, spans, serve("service", "/stream/", toNext("/stream/"))), m, requests, accounted)
		wantNoErrors(t, spans)
	})
	// Clients leave when they know that their request is at the upstream.
	t.Run("hold", func(t *testing.T) {
		requests := few(640)
		m, spans := since(t, func() { inParallel(t, 64, requests, func(n int) error { return leaves(loopback(c.entry), n) }) })
		wantComplete(t, judge(t, spans, serve("service", "/hold/", toNext("/hold/"))), m, requests, accounted)
	})
	// Calls are given up at any time: some never were sent.
	t.Run("cancelled", func(t *testing.T) {
		requests := 0
		_, spans := since(t, func() { requests = inTurnAndAtOnce(t, loopback(c.entry), "cancelled") })
		judge(t, spans, serve("service", "/cancelled/", toNext("/cancelled/"), toRedis("n:")))
		wantCount(t, spans, "redis", span.Server, requests)
		wantCount(t, spans, "service", span.Server, requests)
		if n := orphans(spans); n > 0 {
			t.Errorf("%d spans have parents that never came", n)
		}
	})
	// What is said after the protocol was switched belongs to no request.
	for _, name := range []string{"upgrade", "hijacked"} {
		t.Run(name, func(t *testing.T) {
			requests := few(320)
			var below []fidelity.Shape
			if name == "upgrade" {
				below = append(below, toNext("/upgrade/"))
			}
			m, spans := since(t, func() {
				inParallel(t, 16, requests, func(n int) error { return lines(loopback(c.entry), "/"+name+"/"+itoa(n)) })
			})
			wantComplete(t, judge(t, spans, serve("service", "/"+name+"/", below...)), m, requests, accounted)
		})
	}
	// What is late asks while a later request is served; of one connection, by the same
	// goroutine, or with its connection gone.
	for _, closing := range []bool{false, true} {
		t.Run("late, connections closed "+onOff(closing), func(t *testing.T) {
			requests, counted := few(400), a.mustMetrics().unlinked()
			m, spans := since(t, func() {
				send(t, load.Options{Addr: loopback(c.entry), Connections: 1, Requests: uint64(requests), Close: closing, AppendPath: way("late")})
			})
			judge(t, spans, serve("service", "/late/"))
			wantNone(t, spans, "service", span.Client)
			wantCount(t, spans, "service", span.Server, requests)
			if n := m.unlinked() - counted; n < 3*(requests-1) {
				t.Errorf("%d calls of %d requests are counted", n, requests)
			}
		})
	}
	t.Run("late, at once", func(t *testing.T) { // it may be in time here
		_, spans := since(t, func() {
			send(t, load.Options{Addr: loopback(c.entry), Connections: 64, Requests: uint64(few(1400)), AppendPath: way("late")})
		})
		judge(t, spans, serve("service", "/late/"))
	})
}

// A collector that runs all the time moves stacks about, and nothing clears them: what
// lies on them of another request is not believed.
func TestGoCollecting(t *testing.T) {
	t.Parallel()
	need(t, "redis-server", "memcached")
	c, s := goServers(t, []string{"GOGC=2"}, storages...), newSink(t)
	a := trace(t, s, nil, c.ports...)
	for _, name := range []string{"nocontext", "bare", "background", "lazy"} {
		t.Run(name, func(t *testing.T) {
			before, counted := s.count(), a.mustMetrics().unlinked()
			requests := inTurnAndAtOnce(t, loopback(c.entry), name)
			m := a.settle()
			spans := s.since(before)
			judge(t, spans, serve("service", "/"+name+"/"))
			wantUnlinked(t, spans, m, requests, m.unlinked()-counted)
			wantFewLinked(t, spans, requests)
		})
	}
}

// A thousand connections at once.
func TestGoThousandConnections(t *testing.T) {
	t.Parallel()
	need(t, "redis-server", "memcached")
	c, s := newGoServers(t, storages...), newSink(t)
	a := trace(t, s, []string{"TARE_QUEUE=65536", "TARE_MAX_SPANS=65536"}, c.ports...)
	requests := few(5000)
	send(t, load.Options{Addr: loopback(c.entry), Connections: 1000, Requests: uint64(requests), Timeout: 30 * time.Second, AppendPath: numbered})
	m := a.settle()
	wantComplete(t, judge(t, s.all(), allAsked), m, requests, 0.999)
	wantLinked(t, m, 0)
}

// allAsked is the trace of a request that asks each in turn.
var allAsked = serve("service", "/n/", toNext("/n/"), toRedis("n:"), toMemcached("n:"))

// wantLinked requires that no more calls are unlinked than those that were counted before.
func wantLinked(t *testing.T, m metrics, counted int) {
	t.Helper()
	if n := m.unlinked() - counted; n > 0 {
		t.Errorf("%d calls are not linked\n%v", n, m)
	}
}

// Of four requests one is sampled, and its calls are known from the others', whose
// goroutines, contexts and stacks look the same.
func TestGoSampled(t *testing.T) {
	t.Parallel()
	need(t, "redis-server", "memcached")
	c, s := newGoServers(t, storages...), newSink(t)
	a := trace(t, s, nil, append(c.ports, ratio("0.25")...)...)
	for _, w := range []struct {
		name  string
		calls []fidelity.Shape
	}{
		{"n", allAsked.Children},
		{"errgroup", []fidelity.Shape{toRedis("a:"), toRedis("b:"), toNext("/errgroup/")}},
		{"go", []fidelity.Shape{toRedis("n:"), toNext("/go/")}},
		{"lazy", nil},
		{"late", nil},
	} {
		t.Run(w.name, func(t *testing.T) {
			before, m := s.count(), a.mustMetrics()
			sampled, counted := m.sampled(), m.unlinked()
			requests := few(2000)
			send(t, load.Options{Addr: loopback(c.entry), Connections: 64, Requests: uint64(requests), AppendPath: way(w.name)})
			m = a.settle()
			r := judge(t, s.since(before), serve("service", "/"+w.name+"/", w.calls...))
			if w.calls == nil {
				return
			}
			wantRate(t, m.sampled()-sampled, requests, 0.25)
			wantComplete(t, r, m, m.sampled()-sampled, accounted)
			wantLinked(t, m, counted)
		})
	}
}

// An agent that starts while connections are open and carry requests learns which
// goroutine serves which.
func TestGoStartedUnderLoad(t *testing.T) {
	t.Parallel()
	need(t, "redis-server", "memcached")
	c, s := newGoServers(t, storages...), newSink(t)
	l := keepSending(t, load.Options{Addr: loopback(c.entry), Connections: 16, AppendPath: numbered})
	l.more(few(500))
	a := trace(t, s, nil, c.ports...)
	l.more(few(1000))
	l.end()
	m := a.settle()
	wantComplete(t, judge(t, s.all(), allAsked), m, m.sampled(), 0.95)

	before, counted := s.count(), m.unlinked()
	requests := few(1000)
	send(t, load.Options{Addr: loopback(c.entry), Connections: 16, Requests: uint64(requests), First: 1 << 32, AppendPath: numbered})
	m = a.settle()
	wantComplete(t, judge(t, s.since(before), allAsked), m, requests, accounted)
	wantLinked(t, m, counted)
}

func pathNumber(t *testing.T) func(*span.Span) int {
	return func(root *span.Span) int {
		url, _ := root.Attr("url.path")
		_, number := filepath.Split(url.Str)
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// wantCount requires a number of spans.
func wantCount(t *testing.T, spans []span.Span, service string, kind span.Kind, want int) {
	t.Helper()
	if n := countOf(spans, service, kind); n != want {
		t.Errorf("%d %s spans of %s, want %d", n, kind, service, want)
	}
}

func countOf(spans []span.Span, service string, kind span.Kind) (n int) {
	for i := range spans {
		if spans[i].Resource.Service == service && spans[i].Kind == kind {
			n++
		}
	}
	return n
}

// orphans is how many spans have a parent that is not there.
func orphans(spans []span.Span) (n int) {
	known := map[span.ID]bool{{}: true}
	for i := range spans {
		known[spans[i].ID] = true
	}
	for i := range spans {
		if !known[spans[i].Parent] {
			n++
		}
	}
	return n
}

// streamed sends bodies of several pieces, whose lengths are not announced, and
// reads as much.
func streamed(t *testing.T, base string, requests int) {
	t.Helper()
	const pieces = 12
	transport := &http.Transport{MaxIdleConnsPerHost: 64, WriteBufferSize: piece}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: testkit.Patient(30 * time.Second)}
	inParallel(t, 64, requests, func(n int) error {
		body := &slowly{left: pieces}
		resp, err := client.Post(base+itoa(n), "application/octet-stream", body)
		if err != nil {
			return err
		}
		size, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err == nil && (resp.StatusCode != http.StatusOK || size < 64<<10) {
			err = fmt.Errorf("%s, %d bytes", resp.Status, size)
		}
		return err
	})
}

// leaves asks, and closes the connection when it hears that its request is at the upstream.
func leaves(addr string, n int) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(testkit.Patient(30 * time.Second)))
	if _, err := fmt.Fprintf(conn, "GET /hold/%d HTTP/1.1\r\nHost: service\r\n\r\n", n); err != nil {
		return err
	}
	status, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.Contains(status, " 102 ") {
		err = errors.New(status)
	}
	return err
}

// lines switches protocols, and then sends lines and receives them.
func lines(addr, path string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(testkit.Patient(30 * time.Second)))
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: service\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n", path); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return errors.New(resp.Status)
	}
	for i := range 4 {
		line := fmt.Sprintf("line %d\n", i)
		if _, err := io.WriteString(conn, line); err != nil {
			return err
		}
		if got, err := in.ReadString('\n'); err != nil || got != line {
			return fmt.Errorf("%q: %w", got, err)
		}
	}
	return nil
}

// wantFewLinked requires that at most 1% of the calls that pass no context are linked. A few are: the goroutine's stack
// still holds a context of the request that started it (go_believed). That each is linked rightly, judge requires.
func wantFewLinked(t *testing.T, spans []span.Span, requests int) {
	t.Helper()
	if linked := countOf(spans, "service", span.Client); linked > requests/100 {
		t.Errorf("%d calls without a context are linked, of %d requests", linked, requests)
	}
}

// wantNone requires that there is no span of a kind of a service.
func wantNone(t *testing.T, spans []span.Span, service string, kind span.Kind) {
	t.Helper()
	wantCount(t, spans, service, kind, 0)
}
