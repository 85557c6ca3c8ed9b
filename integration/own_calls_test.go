package integration

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

// inMode is a service whose calls are linked in a mode, "" for its own.
type inMode struct {
	name, linking string
	start         func(c *servers) *workloads.Process
}

// linked are the agent's arguments for that.
func linked(mode string) []string {
	if mode == "" {
		return nil
	}
	return []string{"--linking", "service=" + mode}
}

// A call that no request caused, as by a job or a timer, is the root of a trace, and is sampled as such. While requests
// are in flight it may have been caused by one of them; then the callee begins the trace.
func TestOwnCalls(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "redis-server", "memcached")
	const jobs = 200
	for _, v := range []inMode{
		{"go", "", goAsksBackend}, {"python", "", python("jobs")}, {"python", "auto", python("jobs")}, {"python", "thread", python("jobs")},
	} {
		t.Run(v.name+" "+v.linking, func(t *testing.T) {
			t.Parallel()
			c, s := newServers(t, "backend", "redis", "memcached"), newSink(t)
			c.env = append(c.env, "JOBS="+itoa(jobs))
			p := v.start(c)
			c.answers(p)
			a := trace(t, s, nil, append(c.ports, linked(v.linking)...)...)
			done := 0
			work := func() (from, to int) {
				t.Helper()
				from, done = done, done+jobs
				if err := syscall.Kill(p.PID(), syscall.SIGUSR1); err != nil {
					t.Fatal(err)
				}
				testkit.Until(t, time.Minute, "the jobs are done", func() bool {
					return strings.HasSuffix(p.Output(), "jobs done: "+itoa(done))
				})
				return from, done
			}

			from, to := work() // before any request
			before, m := 0, a.settle()
			spans := s.since(before)
			wantOwnCalls(t, spans, from, to, to-from)
			if m.unlinked() > 0 {
				t.Errorf("%d calls are not linked\n%v", m.unlinked(), m)
			}

			before = s.count() // between requests
			send(t, load.Options{Addr: loopback(c.entry), Connections: 4, Requests: 40, First: 1 << 20, AppendPath: numbered})
			a.settle()
			from, to = work()
			a.settle()
			wantOwnCalls(t, s.since(before), from, to, to-from)

			before = s.count() // among requests
			l := keepSending(t, load.Options{Addr: loopback(c.entry), Connections: 4, First: 1 << 30, AppendPath: numbered})
			l.more(20)
			from, to = work()
			l.end()
			a.settle()
			wantOwnCalls(t, s.since(before), from, to, 0)
		})
	}
}

// What a request causes that was received before the agent came is not the service's own: nothing is known of that
// request. Once it is answered, the service's own calls begin traces.
func TestNoOwnCallsOfEarlierRequests(t *testing.T) {
	t.Parallel()
	need(t, "redis-server", "memcached")
	const jobs, held = 20, "/n/1000"
	for _, v := range []inMode{{"go", "", goAsksBackend}, {"python", "", python("jobs")}, {"python", "thread", python("jobs")}} {
		t.Run(v.name+" "+v.linking, func(t *testing.T) {
			t.Parallel()
			c, s := newServers(t, "redis", "memcached"), newSink(t)
			asked, answer := make(chan struct{}), make(chan struct{})
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == held {
					close(asked)
					<-answer
				}
			}))
			defer backend.Close()
			c.backend = backend.Listener.Addr().(*net.TCPAddr).Port
			c.env = append(c.env, "JOBS="+itoa(jobs), "BACKEND="+itoa(c.backend))
			p := v.start(c)
			c.answers(p)

			done := make(chan error)
			go func() {
				resp, err := scraper.Get("http://" + loopback(c.entry) + held)
				if err == nil {
					err = resp.Body.Close()
				}
				done <- err
			}()
			<-asked
			a := trace(t, s, nil, append(c.ports, linked(v.linking)...)...)
			close(answer)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			m := a.settle()
			if own, n := m.int("tare_own_calls_total"), len(s.all()); own > 0 || n != 2 || m.unlinked() != 2 {
				t.Errorf("%d own calls, %d spans, %d calls not linked; want none, and two that redis and memcached begin\n%v", own, n, m.unlinked(), m)
			}

			if err := syscall.Kill(p.PID(), syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			testkit.Until(t, time.Minute, "the jobs are done", func() bool {
				return strings.HasSuffix(p.Output(), "jobs done: "+itoa(jobs))
			})
			if own := a.settle().int("tare_own_calls_total"); own != 3*jobs {
				t.Errorf("%d of %d calls are the service's own", own, 3*jobs)
			}
		})
	}
}

// Of a service's own calls as many are sampled as of its requests.
func TestOwnCallsSampled(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "redis-server", "memcached")
	const jobs = 4000
	c, s := newServers(t, "backend", "redis", "memcached"), newSink(t)
	c.env = append(c.env, "JOBS="+itoa(jobs))
	p := goAsksBackend(c)
	c.answers(p)
	a := trace(t, s, nil, append(c.ports, ratio("0.25")...)...)
	if err := syscall.Kill(p.PID(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, time.Minute, "the jobs are done", func() bool {
		return strings.HasSuffix(p.Output(), "jobs done: "+itoa(jobs))
	})
	m := a.settle()
	own := m.int("tare_own_calls_total")
	wantRate(t, own, 3*jobs, 0.25)
	spans := s.all()
	if roots := countRoots(spans, span.Client); roots != own || len(spans) != 2*roots {
		t.Errorf("%d roots are client spans, of %d; %d spans", roots, own, len(spans))
	}
}

// Of requests that are not sampled the calls are not sampled either: they are not the service's own.
func TestNoOwnCallsOfRequests(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "redis-server", "memcached")
	for _, v := range []inMode{
		{"go", "", goAsksBackend}, {"python", "auto", python("threads")}, {"python", "thread", python("threads")}, {"python", "queue", python("threads")},
	} {
		t.Run(v.name+" "+v.linking, func(t *testing.T) {
			t.Parallel()
			c, s := newServers(t, "backend", "redis", "memcached"), newSink(t)
			c.answers(v.start(c))
			a := trace(t, s, nil, slices.Concat(c.ports, ratio("0.1"), linked(v.linking))...)
			a.proven(t, func() {
				send(t, load.Options{Addr: loopback(c.entry), Connections: 4, Requests: 200, First: 1 << 20, AppendPath: numbered})
			})
			was, requests := a.mustMetrics().sampled(), few(2000)
			send(t, load.Options{Addr: loopback(c.entry), Connections: 4, Requests: uint64(requests), AppendPath: numbered}) //nolint:gosec // a few thousand
			m := a.settle()
			if v.linking != "queue" { // where calls that match no request are taken for entries
				wantRate(t, m.sampled()-was, requests, 0.1)
			}
			if own := m.int("tare_own_calls_total"); own > 0 {
				t.Errorf("%d calls are taken for the service's own\n%v", own, m)
			}
		})
	}
}

func countRoots(spans []span.Span, kind span.Kind) (n int) {
	for i := range spans {
		if spans[i].Kind == kind && spans[i].Parent.IsZero() {
			n++
		}
	}
	return n
}

// wantOwnCalls requires one server span of the backend and one of redis for each number, and that so many of each are
// children of client spans that are roots; the others are roots themselves.
func wantOwnCalls(t *testing.T, spans []span.Span, from, to, below int) {
	t.Helper()
	roots := map[span.ID]*span.Span{}
	for i := range spans {
		if sp := &spans[i]; sp.Kind == span.Client && sp.Parent.IsZero() {
			roots[sp.ID] = sp
			if sp.Resource.Service != "service" {
				t.Errorf("a root of another service: %s", describe(sp))
			}
		}
	}
	for _, asked := range []struct{ service, attribute, before string }{
		{"backend", "url.path", "/n/"}, {"redis", "db.query.text", "GET n:"},
	} {
		seen, linked := map[string]int{}, 0
		for i := range spans {
			sp := &spans[i]
			text, _ := sp.Attr(asked.attribute)
			if sp.Resource.Service != asked.service || sp.Kind != span.Server {
				continue
			}
			seen[text.Str]++
			root := roots[sp.Parent]
			if root != nil && root.TraceID == sp.TraceID {
				linked++
				if was, _ := root.Attr(asked.attribute); asked.service == "redis" && was.Str != text.Str {
					t.Errorf("%s is below %s", describe(sp), describe(root))
				}
			}
		}
		for n := from; n < to; n++ {
			if key := asked.before + itoa(n); seen[key] != 1 {
				t.Errorf("%s: %d server spans of %s", asked.service, seen[key], key)
				break
			}
		}
		if linked < below {
			t.Errorf("%s: %d of %d calls are roots of traces", asked.service, linked, below)
		}
	}
}
