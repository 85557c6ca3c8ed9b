package integration

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

// What a service asks between the head of an answer and its end is a child of the request that it answers; what it
// asks after the end is not.
func TestCallsAfterTheHead(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "redis-server", "python3")
	calls := []fidelity.Shape{call("service", "/n/", serve("backend", "/n/")), call("service", "GET n:", serve("redis", "GET n:"))}
	for _, v := range []struct {
		name, needs, linking string
		start                func(*servers) *workloads.Process
		ways                 []string
	}{
		{"threads", "python3", "", python("early"), []string{"length", "chunks", "lines", "trailers", "head"}},
		{"threads", "python3", "thread", python("early"), []string{"length", "chunks", "lines", "trailers", "head"}},
		{"uvicorn", "uvicorn", "", uvicorn, []string{"chunks"}},
	} {
		t.Run(v.name+" "+v.linking, func(t *testing.T) {
			t.Parallel()
			need(t, v.needs)
			c, s := newServers(t, "backend", "redis"), newSink(t)
			c.ready(v.start(c), loopback(c.entry))
			args := c.ports
			if v.linking != "" {
				args = append(args, "--linking", "service="+v.linking)
			}
			a := trace(t, s, nil, args...)
			client := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: testkit.Patient(time.Minute)}
			defer client.CloseIdleConnections()
			ask := func(way string, requests int) {
				t.Helper()
				inParallel(t, 8, requests, func(n int) error {
					method := http.MethodGet
					if way == "head" {
						method = http.MethodHead
					}
					req, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("http://%s/%s/%d", loopback(c.entry), way, n), nil)
					if err != nil {
						return err
					}
					return asked(client.Do(req))
				})
			}
			a.proven(t, func() { ask(v.ways[0], 64) })
			for _, way := range v.ways {
				t.Run(way, func(t *testing.T) {
					before, requests := s.count(), few(400)
					ask(way, requests)
					m := a.settle()
					whole := serve("service", "/"+way+"/", calls...)
					if way == "head" {
						whole.Children = nil
					}
					wantComplete(t, judge(t, withoutLater(t, s.since(before)), whole), m, requests, 0.999)
				})
			}
		})
	}
}

// withoutLater are the spans of requests, without those of calls that are made when a request is over
// and that begin traces of their own.
func withoutLater(t *testing.T, spans []span.Span) (rest []span.Span) {
	t.Helper()
	later := 0
	for _, sp := range spans {
		path, _ := sp.Attr("url.path")
		query, _ := sp.Attr("db.query.text")
		var n int
		for text, format := range map[string]string{path.Str: "/n/%d", query.Str: "GET n:%d"} {
			_, _ = fmt.Sscanf(text, format, &n)
		}
		if n < 1<<24 {
			rest = append(rest, sp)
			continue
		}
		later++
		if sp.Kind == span.Client && !sp.Parent.IsZero() {
			t.Errorf("a request that was over has a child: %s", describe(&sp))
		}
	}
	t.Logf("%d spans of later calls", later)
	return rest
}

// Of requests that are not sampled the calls are not sampled either: they are not the service's own.
func TestNoOwnCallsOfRequests(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "redis-server", "memcached")
	for _, v := range []struct {
		name, linking string
		start         func(c *servers) *workloads.Process
	}{
		{"go", "", goOwn}, {"python", "auto", python("threads")}, {"python", "thread", python("threads")}, {"python", "queue", python("threads")},
	} {
		t.Run(v.name+" "+v.linking, func(t *testing.T) {
			t.Parallel()
			c, s := newServers(t, "backend", "redis", "memcached"), newSink(t)
			c.answers(v.start(c))
			args := append(c.ports, ratio("0.1")...)
			if v.linking != "" {
				args = append(args, "--linking", "service="+v.linking)
			}
			a := trace(t, s, nil, args...)
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

func goOwn(c *servers) *workloads.Process {
	return c.service("service", "", append(c.env, goServiceEnv+"="+loopback(c.entry), "NEXT="+loopback(c.backend)), os.Args[0])
}
