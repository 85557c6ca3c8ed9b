package integration

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/workloads"
)

// server is a service under test: what runs it, and what Tare must say of it.
type server struct {
	name  string
	needs []string
	asks  []string // of backend, redis, memcached
	start func(c *servers) *workloads.Process
	// linked: what it asks is below its requests. Otherwise each of its spans says
	// that it is not, and the agent counts it.
	linked bool
	// takers is how many threads take requests over from those that receive them.
	takers int
	// asked is the path's prefix at the backend, "/n/" if the service does not change it.
	asked string
	// begins: it begins under the agent.
	begins bool
	// pairs: it talks with itself, which may have spans beside those of the shape.
	pairs bool
	// late: it asks after its answers, so that nothing is asked while its first request
	// is unanswered; nor is that said, then.
	late  bool
	loads []drive
}

// drive is a way to send requests.
type drive struct {
	name        string
	connections int  // 64
	closing     bool // one connection per request
	requests    int  // 1500: their records fit into the ring, however busy the machine is
	slow        bool // bodies that come in pieces
	// leaving: others begin a request meanwhile, do not end it and leave.
	leaving bool
	// rate per second at which connections are idle for longer than the service's
	// impatient port keeps them.
	rate float64
	// header appends lines to the header of a request.
	header func(dst []byte, n uint64) []byte
}

var (
	one      = drive{name: "one connection", connections: 1, requests: 500}
	kept     = drive{name: "kept connections"}
	closed   = drive{name: "a connection per request", closing: true}
	many     = drive{name: "256 connections", connections: 256}
	slow     = drive{name: "slow bodies", slow: true, requests: 640}
	slowOnce = drive{name: "slow bodies, a connection per request", slow: true, closing: true, requests: 640}
	leaving  = drive{name: "clients that leave", leaving: true}
	leftOnce = drive{name: "clients that leave, a connection per request", leaving: true, closing: true}
	idle     = drive{name: "connections that time out", rate: 500, requests: 1000}
)

var (
	backend  = []string{"backend"}
	bothAsk  = []string{"backend", "redis"}
	storages = []string{"redis", "memcached"}
)

// Servers that people run, each in front of others. What Tare links is linked at
// 64 connections and more, what it cannot link it says and counts, and no trace
// ever holds two requests.
func TestServers(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "redis-server", "memcached", "python3")
	for _, s := range []server{
		{name: "python threads", asks: bothAsk, linked: true, start: python("threads"), loads: []drive{kept, closed, many, slow}},
		{name: "python forks in a thread", asks: bothAsk, linked: true, start: python("forks"), loads: []drive{kept, closed}},
		{name: "python forks in a thread that begin later", asks: bothAsk, linked: true, begins: true, start: python("forks"), loads: []drive{closed}},
		{name: "python hand-over to a pool", asks: bothAsk, start: python("handover"), loads: []drive{kept}},
		{name: "python asks through a pool", asks: storages, start: python("asking_pool"), loads: []drive{kept}},
		{name: "python threads of a request", asks: storages, linked: true, start: python("children"), loads: []drive{kept, closed}},
		{name: "python generators", asks: bothAsk, linked: true, start: python("generators"), loads: []drive{kept, closed}},
		{name: "python wakes itself", asks: storages, linked: true, pairs: true, start: python("waking"), loads: []drive{kept}},
		{name: "python select loop", asks: bothAsk, start: python("loop"), loads: []drive{kept}},
		{name: "python select loop that asks late", asks: bothAsk, late: true, start: python("late"), loads: []drive{one, {name: "four connections", connections: 4}, kept}},
		{name: "apache event", needs: []string{"apache2"}, asks: backend, linked: true, start: apache("event"), loads: []drive{kept, closed, many, slow, leaving, idle}},
		{name: "apache worker", needs: []string{"apache2"}, asks: backend, linked: true, start: apache("worker"), loads: []drive{kept, closed, many, slow, leaving, idle}},
		{name: "apache prefork", needs: []string{"apache2"}, asks: backend, linked: true, start: apache("prefork"), loads: []drive{kept, closed, many, slow, leaving, idle}},
		{name: "puma", needs: []string{"puma"}, asks: bothAsk, linked: true, takers: 16, start: puma("-t", "8:8", "-w", "2"), loads: []drive{kept, closed, many, slow, leaving}},
		{name: "puma whose threads come and go", needs: []string{"puma"}, asks: bothAsk, linked: true, takers: 8, start: puma("-t", "0:8"), loads: []drive{kept}},
		{name: "unicorn", needs: []string{"unicorn"}, asks: bothAsk, linked: true, start: unicorn, loads: []drive{closed, slowOnce, leftOnce}},
		{name: "ruby hand-over, who works asks for TCP_INFO", needs: []string{"ruby"}, asks: bothAsk, linked: true, takers: 8, start: handover("own"), loads: []drive{kept}},
		{name: "ruby hand-over, another asks for TCP_INFO", needs: []string{"ruby"}, asks: bothAsk, start: handover("watched alone"), loads: []drive{one, kept}},
		{name: "ruby hand-over, another asks for TCP_INFO as well", needs: []string{"ruby"}, asks: bothAsk, start: handover("watched"), loads: []drive{one, kept}},
		{name: "ruby hand-over, who works asks for TCP_INFO of others", needs: []string{"ruby"}, asks: bothAsk, start: handover("others"), loads: []drive{kept}},
		{name: "uwsgi", needs: []string{"uwsgi", "/usr/lib/uwsgi/plugins/python3*_plugin.so"}, asks: bothAsk, linked: true, start: uwsgi, loads: []drive{closed, slowOnce, leftOnce}},
		{name: "php -S", needs: []string{"php"}, asks: bothAsk, linked: true, start: phpServer, loads: []drive{closed, slowOnce, leftOnce}},
		{name: "gunicorn sync", needs: []string{"gunicorn"}, asks: bothAsk, linked: true, start: gunicorn("-k", "sync", "-w", "8"), loads: []drive{closed, slowOnce, leftOnce}},
		{name: "gunicorn gthread", needs: []string{"gunicorn"}, asks: bothAsk, linked: true, start: gunicorn("-k", "gthread", "-w", "2", "--threads", "8", "--keep-alive", "60"), loads: []drive{kept, many, slow, leaving}},
		{name: "gunicorn gevent", needs: []string{"gunicorn", "/usr/lib/python3/dist-packages/gevent"}, asks: bothAsk, linked: true, start: gunicorn("-k", "gevent", "-w", "2", "--keep-alive", "60"), loads: []drive{kept}},
		{name: "gunicorn gevent that begins later", needs: []string{"gunicorn", "/usr/lib/python3/dist-packages/gevent"}, asks: bothAsk, linked: true, begins: true, start: gunicorn("-k", "gevent", "-w", "2", "--keep-alive", "60"), loads: []drive{kept}},
		{name: "java threads that begin later", needs: []string{"java"}, asks: backend, linked: true, begins: true, start: java, loads: []drive{kept}},
		{name: "uvicorn", needs: []string{"uvicorn"}, asks: bothAsk, start: uvicorn, loads: []drive{kept}},
		{name: "python hand-over to a pool, with the shim", asks: bothAsk, linked: true, loads: []drive{kept},
			start: shimmed("PYTHONPATH", "{root}/runtimes/python:{root}/integration/testdata/shim", python("handover"))},
		{name: "node", needs: []string{"node"}, asks: backend, start: node, loads: []drive{kept}},
		{name: "node with the shim", needs: []string{"node"}, asks: backend, linked: true, loads: []drive{kept, closed},
			start: shimmed("NODE_OPTIONS", "--require={root}/runtimes/node/tare.js", node)},
		{name: "node cluster with the shim", needs: []string{"node"}, asks: backend, linked: true, loads: []drive{kept, closed},
			start: shimmed("NODE_OPTIONS", "--require={root}/runtimes/node/tare.js", nodeCluster)},
		{name: "node cluster with the shim that begins later", needs: []string{"node"}, asks: backend, linked: true, begins: true, loads: []drive{kept, closed},
			start: shimmed("NODE_OPTIONS", "--require={root}/runtimes/node/tare.js", nodeCluster)},
		{name: "python passes connections on", asks: bothAsk, linked: true, start: python("passing"), loads: []drive{kept, closed}},
		{name: "python passes connections on and begins later", asks: bothAsk, linked: true, begins: true, start: python("passing"), loads: []drive{kept, closed}},
		{name: "java threads", needs: []string{"java"}, asks: backend, linked: true, start: java, loads: []drive{kept, many}},
		{name: "lighttpd", needs: []string{"lighttpd"}, asks: backend, start: lighttpd, loads: []drive{kept, {name: "two connections", connections: 2}}},
		{name: "varnish", needs: []string{"varnishd"}, asks: backend, start: varnish, loads: []drive{kept}},
		{name: "haproxy that rewrites paths", needs: []string{"haproxy"}, asks: backend, asked: "/r/n/", linked: true, start: rewriting, loads: []drive{kept, closed}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			need(t, s.needs...)
			s.test(t)
		})
	}
}

func (s server) test(t *testing.T) {
	c, sink := newServers(t, s.asks...), newSink(t)
	var a *tracer
	if s.begins {
		a = trace(t, sink, nil, c.ports...)
	}
	c.answers(s.start(c))
	if a == nil {
		a = trace(t, sink, nil, c.ports...)
	}
	unknown := 0 // requests that may be sent before it is known who takes them over
	if s.linked {
		learn := s.loads[0]
		learn.requests = 200
		ask := func() { learn.run(t, loopback(c.entry)) }
		if a.proven(t, ask); s.takers > 0 {
			a.takes(t, ask)
			// The first 8 of the service, and the first of each thread (docs/adr/0032). How many come while it learns is
			// chance: a thread may receive all of its requests itself then, and a process hardly be asked.
			unknown = 8 + s.takers
		}
	}
	for _, d := range s.loads {
		t.Run(d.name, func(t *testing.T) {
			if d.slow && s.linked { // that threads work for what they have half read is to be seen first
				learn := d
				learn.connections, learn.requests = 1, 4
				learn.run(t, loopback(c.entry))
				a.settle()
			}
			before, counted := sink.count(), a.mustMetrics().unlinked()
			addr := loopback(c.entry)
			if d.rate > 0 {
				addr = loopback(c.impatient)
			}
			answered := d.run(t, addr)
			m := a.settle()
			spans := sink.since(before)
			if !d.leaving {
				wantNoErrors(t, spans)
			}
			if s.pairs {
				spans = slices.DeleteFunc(spans, func(sp span.Span) bool { return sp.Resource.Service == "service" && sp.Name == "tcp" })
			}
			r := judge(t, spans, s.shape())
			if s.linked {
				r.Traces = min(r.Traces, answered) // of those that leave, a span tells
				wantComplete(t, r, m, answered, 0.999-float64(unknown)/float64(answered))
				unknown -= min(unknown, max(answered-r.Complete, 0))
				return
			}
			if s.late {
				if r.Complete > 0 {
					t.Errorf("%d requests are linked", r.Complete)
				}
				return
			}
			wantUnlinked(t, spans, m, answered, m.unlinked()-counted)
		})
	}
}

// shape is that of the traces if the service's requests are linked.
func (s server) shape() fidelity.Shape {
	asked := s.asked
	if asked == "" {
		asked = "/n/"
	}
	prefixes := map[string]string{"backend": asked, "redis": "GET n:", "memcached": "get n:"}
	var calls []fidelity.Shape
	for _, name := range s.asks {
		calls = append(calls, call("service", prefixes[name], serve(name, prefixes[name])))
	}
	return serve("service", "/n/", calls...)
}

// proven has a service asked until the kernel side has seen how its threads sleep,
// and the agent has read all its processes.
func (a *tracer) proven(t *testing.T, ask func()) {
	t.Helper()
	a.knows(t, ask, "unproven", "task")
}

// knows has a service asked until no call is unlinked for these reasons.
func (a *tracer) knows(t *testing.T, ask func(), reasons ...string) {
	t.Helper()
	unknown := func() (n int) {
		m := a.settle()
		for _, reason := range reasons {
			n += m.int(`tare_unlinked_total{reason="` + reason + `"}`)
		}
		return n
	}
	defer func() {
		if t.Failed() {
			t.Log(a.mustMetrics())
		}
	}()
	testkit.Until(t, time.Minute, "calls are linked", func() bool {
		before := unknown()
		ask()
		return unknown() == before
	})
}

// unlinked is what the agent counts of what it could not link.
func (m metrics) unlinked() (n int) {
	for key := range m {
		if strings.HasPrefix(key, "tare_unlinked_total{") {
			n += m.int(key)
		}
	}
	return n
}

// wantUnlinked requires that each request of the service has a span or is counted as lost, that
// each span without calls below it says that it is not linked, and that they are counted.
func wantUnlinked(t *testing.T, spans []span.Span, m metrics, requests, counted int) {
	t.Helper()
	parents := map[span.ID]bool{}
	for i := range spans {
		parents[spans[i].Parent] = true
	}
	all, unlinked, silent, example := 0, 0, 0, ""
	for i := range spans {
		sp := &spans[i]
		path, _ := sp.Attr("url.path")
		if sp.Resource.Service != "service" || sp.Kind != span.Server || path.Str == unfinished {
			continue
		}
		all++
		switch linking, _ := sp.Attr(semconv.Linking); {
		case linking.Str == "none":
			unlinked++
		case !parents[sp.ID]:
			silent++
			example = describe(sp)
		}
	}
	t.Logf("%d requests of the service have a span: %d are unlinked and say so, %d are and do not; %d counted", all, unlinked, silent, counted)
	if all > requests || requests-all > m.lostAll() || silent > 0 || counted < unlinked+silent {
		t.Errorf("%d requests have %d server spans, %d of which are unlinked in silence; %d calls are counted, %d records as lost\n%s\n%v",
			requests, all, silent, counted, m.lostAll(), example, m)
	}
}

// wantNoErrors requires that no span claims an error: every request was answered well.
func wantNoErrors(t *testing.T, spans []span.Span) {
	t.Helper()
	failed := 0
	for i := range spans {
		if spans[i].Status != span.Error {
			continue
		}
		if failed == 0 {
			t.Logf("an error: %s", describe(&spans[i]))
		}
		failed++
	}
	if failed > 0 {
		t.Errorf("%d of %d spans are errors, and every request was answered", failed, len(spans))
	}
}

// servers are a service under test and what it asks.
type servers struct {
	*stack
	entry, backend int      // ports
	impatient      int      // another entry, which closes connections that are idle for 100 ms, or 0
	env            []string // for the service: ports of those it asks
	ports          []string // the agent's flags
	within         []string // a command that runs the service
}

// service runs a service; the one under test as c.within says.
func (c *servers) service(name, ns string, env []string, argv ...string) *workloads.Process {
	c.t.Helper()
	if name == "service" && c.within != nil {
		argv = append(slices.Clone(c.within), argv...)
	}
	return c.stack.service(name, ns, env, argv...)
}

func newServers(t *testing.T, asks ...string) *servers {
	t.Helper()
	c := &servers{stack: newStack(t), entry: testkit.FreePort(t), env: []string{"PYTHONDONTWRITEBYTECODE=1"}}
	c.selects("service", c.entry)
	for _, name := range asks {
		port := testkit.FreePort(t)
		c.selects(name, port)
		c.env = append(c.env, strings.ToUpper(name)+"="+itoa(port))
		switch name {
		case "backend":
			c.backend = port
			c.nginx(name, "", "keepalive_requests 1000000;\n"+answer(loopback(port)), loopback(port))
		case "redis":
			c.redis(port)
		case "memcached":
			c.ready(c.service(name, "", nil, "memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", itoa(port)), loopback(port))
		case "postgres":
			c.postgres(port)
		case "mariadb":
			c.mariadb(port)
		default:
			t.Fatalf("nobody runs %s", name)
		}
	}
	return c
}

// selects has the agent trace what listens at a port, under a name.
func (c *servers) selects(name string, port int) {
	c.ports = append(c.ports, "--port", name+"="+itoa(port))
}

func (s *stack) redis(port int) {
	s.t.Helper()
	p := s.service("redis", "", nil, "redis-server", "--port", itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.g.Dir)
	s.ready(p, loopback(port))
}

// answers waits until the service answers a request, with all that it asks.
func (c *servers) answers(p *workloads.Process) {
	c.t.Helper()
	last := errors.New("not asked yet")
	defer func() {
		if last != nil {
			c.t.Logf("%v\n%s", last, p.Output())
		}
	}()
	testkit.Until(c.t, time.Minute, "the service answers", func() bool {
		select {
		case <-p.Done():
			c.t.Fatal(p.Exited())
		default:
		}
		last = asked(noProxy.Get("http://" + loopback(c.entry) + "/n/0"))
		return last == nil
	})
}

// run sends the requests and returns how many were answered.
func (d drive) run(t *testing.T, addr string) int {
	t.Helper()
	if d.connections == 0 {
		d.connections = 64
	}
	if d.requests == 0 {
		d.requests = 1500
	}
	if d.slow {
		return d.sendSlowly(t, addr)
	}
	if d.leaving {
		defer d.leave(t, addr)()
	}
	o := load.Options{
		Addr: addr, Connections: d.connections, Requests: uint64(d.requests), Close: d.closing, Rate: d.rate, //nolint:gosec // a few thousand
		Timeout: 30 * time.Second, AppendPath: numbered, AppendHeader: d.header,
	}
	if d.rate == 0 {
		return int(send(t, o).OK) //nolint:gosec // a few thousand
	}
	// Of connections that the service closes when it likes, some have a request under way.
	r, err := load.Run(t.Context(), o)
	if err != nil || r.Dials < uint64(2*d.connections) { //nolint:gosec // a few hundred
		t.Errorf("%v, %d connections: none timed out", err, r.Dials)
	}
	return int(r.OK) //nolint:gosec // a few thousand
}

// piece is so large that a client does not wait for the next one before it sends it.
const piece = 8 << 10

// slowly is a body in three pieces with pauses between them.
type slowly struct{ left int }

func (s *slowly) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	s.left--
	time.Sleep(3 * time.Millisecond)
	n := min(len(p), piece)
	return n, nil
}

// sendSlowly sends bodies in pieces.
func (d drive) sendSlowly(t *testing.T, addr string) int {
	t.Helper()
	// Each on its own connection: a thread of gunicorn waits for one that was opened and is not used.
	clients := make([]http.Client, d.connections)
	for i := range clients {
		transport := &http.Transport{DisableKeepAlives: d.closing, MaxConnsPerHost: 1, WriteBufferSize: piece}
		defer transport.CloseIdleConnections()
		clients[i] = http.Client{Transport: transport, Timeout: testkit.Patient(30 * time.Second)}
	}
	return inParallel(t, d.connections, d.requests, func(n int) error {
		body := &slowly{3}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("http://%s/n/%d", addr, n), body)
		if err != nil {
			return err
		}
		req.ContentLength = 3 * piece
		return asked(clients[n%d.connections].Do(req))
	})
}

// asked reads an answer, which must be a good one.
func asked(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode/100 != 2 {
		err = errors.New(resp.Status)
	}
	return err
}

// inParallel has clients ask for the numbers below n; it returns how many, and each
// must succeed.
func inParallel(t *testing.T, clients, n int, ask func(n int) error) int {
	t.Helper()
	errs := make([]error, n)
	var wait sync.WaitGroup
	for c := range clients {
		wait.Go(func() {
			for i := c; i < n; i += clients {
				errs[i] = ask(i)
			}
		})
	}
	wait.Wait()
	if failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(failed) > 0 {
		t.Errorf("%d of %d requests failed, such as: %v", len(failed), n, failed[0])
	}
	return n
}

// unfinished is asked for by clients that leave, who do not say all that a request needs.
const unfinished = "/unfinished"

// leave begins requests without an end, and closes their connections, until it is told to stop.
func (d drive) leave(t *testing.T, addr string) (stop func()) {
	t.Helper()
	var wait sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		wait.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if c, err := net.Dial("tcp", addr); err == nil {
					_, _ = io.WriteString(c, "GET "+unfinished+" HTTP/1.1\r\nHost: ")
					time.Sleep(2 * time.Millisecond) // it is received meanwhile
					_ = c.Close()
				}
			}
		})
	}
	return func() {
		close(done)
		wait.Wait()
	}
}

// testdata is a file that the tests' services run.
func testdata(name string) string { return absolute(filepath.Join("testdata", name)) }
