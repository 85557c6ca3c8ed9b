package integration

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

// resolver starts a server of names at port 53 of a loopback address that nobody else
// has, and has the service under test ask it.
func (c *servers) resolver() {
	c.t.Helper()
	address := fmt.Sprintf("127.%d.%d.%d", 16+rand.N(200), rand.N(256), 1+rand.N(254))
	p := c.service("names", "", nil, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=", "--user=root",
		"--no-resolv", "--no-hosts", "--bind-interfaces", "--listen-address="+address, "--address=/example.test/127.0.0.1", "--address=/example.test/::1")
	c.ready(p, net.JoinHostPort(address, "53"))
	c.env = append(c.env, "NAMES="+address)
	conf := c.file("resolv.conf", "nameserver "+address+"\noptions timeout:30 attempts:1\n")
	c.within = []string{"unshare", "-m", "sh", "-c", `mount --bind "$0" /etc/resolv.conf && exec "$@"`, conf}
}

// Services that look up a name for each request, which has the request's number: each
// look-up is below its own request, and those of requests that are not sampled have no
// span.
func TestLookups(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "python3", "dnsmasq", "unshare")
	for _, s := range []struct {
		name  string
		way   string
		needs []string
		start func(c *servers) *workloads.Process
	}{
		{name: "go", way: "names", start: func(c *servers) *workloads.Process {
			return c.service("service", "", append(c.env, goServiceEnv+"="+loopback(c.entry), "NEXT="+loopback(c.backend)), os.Args[0])
		}},
		{name: "python threads", way: "n", start: python("threads")},
		{name: "gunicorn gthread", way: "n", needs: []string{"gunicorn"}, start: gunicorn("-k", "gthread", "-w", "2", "--threads", "8", "--keep-alive", "60")},
		{name: "java threads", way: "n", needs: []string{"java"}, start: java},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			need(t, s.needs...)
			c, sink := newServers(t, "backend"), newSink(t)
			c.resolver()
			c.answers(s.start(c))
			asked := 1
			ask := func(connections, requests int) { // each name once: Java remembers them
				send(t, load.Options{Addr: loopback(c.entry), Connections: connections, First: uint64(asked), Requests: uint64(requests), AppendPath: way(s.way)})
				asked += requests
			}
			a := traceWith(t, ratioSampler, 1, sink, nil, c.ports...)
			withLookups(t, a.tracer)
			for _, p := range []float64{1, 0.1} {
				t.Run(fmt.Sprint(p), func(t *testing.T) {
					a.sample(t, ratioSampler, p)
					testkit.Until(t, 10*time.Second, "the first look-up has the hooks attached", func() bool {
						ask(1, 1)
						return a.hooksFor("lookups")
					})
					a.settle()
					if s.way == "n" {
						a.proven(t, func() { ask(8, 200) })
					}
					for _, connections := range []int{1, 64} {
						before, m := sink.count(), a.mustMetrics()
						requests := few(1500)
						ask(connections, requests)
						after := a.settle()
						wantLookups(t, sink.since(before), after, after.sampled()-m.sampled())
						wantRate(t, after.sampled()-m.sampled(), requests, p)
						if n := after.unlinked() - m.unlinked(); n > 0 {
							t.Errorf("%d calls are not linked\n%v", n, after)
						}
					}
				})
			}
		})
	}
}

// hooksFor reports whether the hooks are attached that are only on demand.
func (a *tracer) hooksFor(what string) bool {
	return a.mustMetrics()[fmt.Sprintf("tare_hooks_on_demand{for=%q}", what)] == 1
}

// withLookups skips the test in a tier that has no hooks for look-ups.
func withLookups(t *testing.T, a *tracer) {
	t.Helper()
	switch has, ok := a.mustMetrics()[`tare_capability{name="lookups"}`]; {
	case !ok:
		t.Skip("no hooks for look-ups here")
	case has != 1:
		t.Fatal("the kernel refuses the hooks for look-ups")
	}
}

// wantNamesOfRequests requires that each look-up is below the request for its name; it
// returns how many of each type are below each request.
func wantNamesOfRequests(t *testing.T, spans []span.Span) map[span.ID]map[string]int {
	t.Helper()
	names := map[span.ID]string{}
	found := map[span.ID]map[string]int{}
	for i := range spans {
		if at, _ := spans[i].Attr("url.path"); spans[i].Kind == span.Server && spans[i].Resource.Service == "service" {
			names[spans[i].ID] = "n" + path.Base(at.Str) + ".example.test"
			found[spans[i].ID] = map[string]int{}
		}
	}
	all, wrong, orphaned := 0, 0, 0
	for i := range spans {
		s := &spans[i]
		if !strings.HasPrefix(s.Name, "DNS") {
			continue
		}
		all++
		name, _ := s.Attr("dns.question.name")
		want, ok := names[s.Parent]
		if !ok {
			orphaned++
			continue
		}
		found[s.Parent][s.Name]++
		if name.Str != want {
			wrong++
			t.Logf("below the request for %s: %s of %s", want, describe(s), name.Str)
		}
		if port, _ := s.Attr("server.port"); s.Kind != span.Client || port.Text() != "53" || s.Status == span.Error || s.Duration() == 0 || s.Duration() > uint64(time.Minute) {
			t.Errorf("%s to port %s, status %v", describe(s), port.Text(), s.Status)
		}
	}
	t.Logf("%d look-ups: %d are below another request, %d below none", all, wrong, orphaned)
	if wrong > 0 || orphaned > 0 {
		t.Errorf("%d of %d look-ups are below another request, %d below none", wrong, all, orphaned)
	}
	return found
}

// wantLookups requires a look-up of each type below each request.
func wantLookups(t *testing.T, spans []span.Span, m metrics, sampled int) {
	t.Helper()
	found := wantNamesOfRequests(t, spans)
	whole := 0
	for _, f := range found {
		if f["DNS A"] == 1 && f["DNS AAAA"] == 1 && len(f) == 2 {
			whole++
		}
	}
	t.Logf("%d of %d requests have their look-ups", whole, sampled)
	if whole != sampled || len(found) != sampled {
		t.Errorf("%d of %d requests (%d spans) have their look-ups\n%v", whole, sampled, len(found), m)
	}
}
