package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

// A handler has another process ask: a copy of its own, a program, a program of a program. Where threads or goroutines
// work for requests, the calls are children of the request, once processes of the service were seen to end with their
// requests. Before that, after one has outlived its request, and elsewhere they are not linked, and the request says so.
func TestHelperProcesses(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name, needs string
		start       func(*testing.T, *servers) *workloads.Process
		ways        []string
		linked      bool
	}{
		{"python", "python3", func(_ *testing.T, c *servers) *workloads.Process { return python("helpers")(c) }, []string{"fork", "program", "shell", "shells", "later"}, true},
		{"php", "php", func(_ *testing.T, c *servers) *workloads.Process {
			return c.service("service", "", append(c.env, "PHP_CLI_SERVER_WORKERS=8"), "php", "-q", "-S", loopback(c.entry), testdata("exec.php"))
		}, []string{"shell"}, true},
		{"go", "go", func(t *testing.T, c *servers) *workloads.Process {
			return c.service("service", "", nil, goBuild(t, "goexec"), loopback(c.entry), loopback(c.backend))
		}, []string{"shell"}, true},
		{"node", "node", func(_ *testing.T, c *servers) *workloads.Process {
			return c.service("service", "", c.env, "node", testdata("exec.js"), loopback(c.entry))
		}, []string{"shell"}, false},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			need(t, "nginx", "bash", v.needs)
			c, s := newServers(t, "backend"), newSink(t)
			c.ready(v.start(t, c), loopback(c.entry))
			a := trace(t, s, nil, c.ports...)
			client := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: testkit.Patient(time.Minute)}
			defer client.CloseIdleConnections()
			ask := func(way string, requests int) {
				t.Helper()
				inParallel(t, 4, requests, func(n int) error {
					return asked(client.Get(fmt.Sprintf("http://%s/%s/%d", loopback(c.entry), way, n)))
				})
			}
			if v.linked {
				a.proven(t, func() { ask("shell", 16) })
			}
			for _, way := range v.ways {
				t.Run(way, func(t *testing.T) {
					before, requests := s.count(), few(200)
					ask(way, requests)
					m := a.settle()
					switch {
					case way == "later":
						testkit.Until(t, time.Minute, "the programs have asked", func() bool {
							a.settle()
							return backends(s.since(before)) == requests
						})
						judge(t, withoutLater(t, s.since(before)), serve("service", "/later/"))
						before = s.count()
						ask("shell", requests)
						a.settle()
						wantSaid(t, s.since(before), requests)
					case v.linked:
						wantComplete(t, judge(t, s.since(before), serve("service", "/"+way+"/", call("service", "/n/", serve("backend", "/n/")))), m, requests, 0.98)
					default:
						if backends(s.since(before)) != requests {
							t.Errorf("%d of %d calls have reached the backend with a span", backends(s.since(before)), requests)
						}
						wantSaid(t, s.since(before), requests)
					}
				})
			}
		})
	}
}

// wantSaid requires that so many requests of the service say that a call of theirs is not linked.
func wantSaid(t *testing.T, spans []span.Span, requests int) {
	t.Helper()
	all, said := 0, 0
	for i := range spans {
		if spans[i].Resource.Service != "service" || spans[i].Kind != span.Server {
			continue
		}
		all++
		if _, says := spans[i].Attr("tare.linking"); says {
			said++
		}
	}
	if all != requests || said != all {
		t.Errorf("%d of %d requests have a span, of which %d say that a call is not linked", all, requests, said)
	}
}

// backends counts the requests that the backend has received.
func backends(spans []span.Span) (n int) {
	for i := range spans {
		if spans[i].Resource.Service == "backend" {
			n++
		}
	}
	return n
}
