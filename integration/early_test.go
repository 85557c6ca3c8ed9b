package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/fidelity"
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
		{"threads", "python3", "", python("early"), []string{"length", "chunks", "lines", "trailers", "until", "head"}},
		{"threads", "python3", "thread", python("early"), []string{"length", "chunks", "lines", "trailers", "until", "head"}},
		{"uvicorn", "uvicorn", "", uvicorn, []string{"chunks"}},
	} {
		t.Run(v.name+" "+v.linking, func(t *testing.T) {
			t.Parallel()
			need(t, v.needs)
			c, s := newServers(t, "backend", "redis"), newSink(t)
			c.ready(v.start(c), loopback(c.entry))
			a := trace(t, s, nil, append(c.ports, linked(v.linking)...)...)
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
