package integration

import (
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span/semconv"
)

// joining is the collector's default configuration, between agents and a sink.
type joining struct {
	*stored
	sink *sink
}

// joinBefore has what agents send to the sink pass through a collector, with these settings besides.
func joinBefore(t *testing.T, s *sink, sets ...string) joining {
	t.Helper()
	args := []string{
		"--set", "exporters.otlp_http.endpoint=" + s.url,
		"--set", "service.pipelines.traces.exporters=[tare_store, otlp_http]",
	}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	c := storeIn(t, t.TempDir(), args...)
	s.url = "http://" + c.http
	return joining{c, s}
}

// joined waits for all spans of the agents, and requires that each request is one
// complete trace, for the ground truth and in the store, made by so many joins.
func (j joining) joined(t *testing.T, shape fidelity.Shape, requests, joins int, agents ...*tracer) {
	t.Helper()
	j.passed(t, agents...)
	r := judge(t, j.sink.all(), shape)
	var m metrics
	for _, a := range agents {
		m = a.mustMetrics().and(m)
	}
	wantComplete(t, r, m, requests, 0.998)
	if r.Split > 0 || r.Orphaned > 0 {
		t.Errorf("%d requests are in several traces, %d spans have no parent", r.Split, r.Orphaned)
	}
	var stats struct{ Traces int }
	var list struct {
		Traces []listed
		Total  int
	}
	if err := j.get("/api/v1/stats", &stats); err != nil {
		t.Fatal(err)
	}
	if err := j.get("/api/v1/traces?state=incomplete", &list); err != nil {
		t.Fatal(err)
	}
	if stats.Traces != requests || len(list.Traces) > 0 {
		t.Errorf("%d traces are stored of %d requests, these incomplete: %v", stats.Traces, requests, list.Traces)
	}
	if n, all := j.labelled("tare_tracer_joins_total", `outcome="joined"`), j.metric("tare_tracer_joins_total"); int(n) != joins || n != all {
		t.Errorf("%v joins, of %v attempts, want %d", n, all, joins)
	}
}

// passed waits until the agents are quiet, and all that they have built has come out.
func (j joining) passed(t *testing.T, agents ...*tracer) {
	t.Helper()
	spans := 0
	for _, a := range agents {
		m := a.settle()
		t.Logf("%v", m)
		spans += m.int("tare_spans_total")
	}
	testkit.Until(t, time.Minute, itoa(spans)+" spans have passed the collector", func() bool { return j.sink.count() >= spans })
	j.awaitSpans(t, spans)
}

// wantNoMarks requires that no end of a connection was told that the other is traced.
func (j joining) wantNoMarks(t *testing.T) {
	t.Helper()
	for _, sp := range j.sink.all() {
		if _, traced := sp.Attr(semconv.PeerTraced); traced {
			t.Fatal("a peer of which no mark can have come is taken for traced")
		}
	}
}

func (m metrics) tags(direction string) int {
	return m.int(`tare_tags_total{direction="` + direction + `"}`)
}

// Something between the hosts blanks out TCP options that it does not know, or an agent
// writes none, or reads none: no tag arrives and no mark is answered, each host decides
// for itself, and the collector joins the halves.
func TestJoinedByStreamOffset(t *testing.T) {
	t.Parallel()
	tcp, none := []string{"--sequence"}, []string{"--tag", "none"}
	events := []string{"--tag", "none", "--events=only"}
	for _, v := range []struct {
		name    string
		backend family
		strip   bool
		a, b    []string // flags of both agents
		writes  bool     // a writes tags
		anew    bool     // a connection for each request, everywhere
		before  bool     // agents with tags were there before, on the same connections
	}{
		{name: "stripped", backend: ipv4, strip: true, a: tcp, b: tcp, writes: true},
		{name: "stripped, a connection for each request", backend: ipv6, strip: true, a: tcp, b: tcp, writes: true, anew: true},
		{name: "no tags", backend: ipv6, a: none, b: none},
		{name: "no tags, events of messages", backend: ipv4, a: events, b: events},
		{name: "no tags, events of messages from the backend alone", backend: ipv6, a: none, b: events, anew: true},
		{name: "no tags any more", backend: ipv4, a: none, b: none, before: true},
		{name: "no tags, a connection for each request", backend: ipv4, a: none, b: none, anew: true},
		{name: "no tags at the proxy", backend: ipv4, a: none, b: tcp},
		{name: "no tags at the backend", backend: ipv4, a: tcp, b: none, writes: true},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			proxy := proxyTo
			if v.anew {
				proxy = proxyAnew
			}
			w := wire(t, newHosts(t), v.backend, proxy)
			if v.strip {
				w.hosts.strip(t)
			}
			if v.anew {
				w.hosts.fewPorts(t)
			}
			if v.before {
				a, b := w.agents(t, newSink(t))
				send(t, load.Options{Addr: w.entry, Connections: 16, Requests: 500, AppendPath: numbered})
				a.Stop()
				b.Stop()
			}
			j := joinBefore(t, newSink(t))
			between, client := watch(t, w.hosts.b, cable, w.backend), watch(t, w.hosts.a, "client", w.proxy)
			a, b := w.agent(t, j.sink, "proxy", w.proxy, v.a...), w.agent(t, j.sink, "backend", w.backend, v.b...)
			const requests = 3000
			send(t, load.Options{Addr: w.entry, Connections: 16, Requests: requests, AppendPath: numbered, Close: v.anew})
			j.joined(t, shapeOf(t, "nginx"), requests, requests, a, b)
			j.wantNoMarks(t)

			client.wantOptions(t, 2*requests, false)
			between.wantOptions(t, 2*requests, v.writes && !v.strip)
			m, mb := a.mustMetrics(), b.mustMetrics()
			if m.sampled() != requests || mb.sampled() != requests || mb.tags("received") > 0 {
				t.Errorf("%d root decisions at the proxy and %d at the backend, where %d tags came", m.sampled(), mb.sampled(), mb.tags("received"))
			}
			if sent := m.tags("sent"); v.writes && sent < requests || !v.writes && sent > 0 {
				t.Errorf("%d tags were sent, with %v", sent, v.a)
			}
		})
	}
}

// wantOptions waits for a number of packets, and requires that Tare's options were in
// some of them, or in none.
func (c *capture) wantOptions(t *testing.T, packets int, some bool) {
	t.Helper()
	c.atLeast(t, packets)
	if n, tags, marks := c.seen(); (tags > 0) != some || (marks > 0) != some {
		t.Errorf("%d tags and %d marks in %d packets", tags, marks, n)
	}
}

// Every connection of a chain on one host, databases' included.
func TestJoinedOnOneHost(t *testing.T) {
	t.Parallel()
	need(t)
	c := start(t, "shop")
	j := joinBefore(t, newSink(t))
	var all []int
	for _, s := range c.Services {
		all = append(all, s.Port)
	}
	local := watch(t, "", "lo", all...)
	a := trace(t, j.sink, nil, append([]string{"--tag", "none", "--same-host=false"}, ports(c)...)...)
	const requests = 1000
	send(t, load.Options{Addr: c.Entry, Connections: 8, Requests: requests, AppendPath: c.AppendPath})
	// proxy → shop → redis, memcached, stock
	j.joined(t, shapeOf(t, "shop"), requests, 4*requests, a)
	j.wantNoMarks(t)
	local.wantOptions(t, 5*requests, false)
}

// Below 100% both hosts sample by themselves: a trace is whole if both did, and else one
// of the halves, of which nobody can tell that there is another. None is joined with the
// half of another request whose connection had the same ports.
func TestJoinedWhereBothSample(t *testing.T) {
	t.Parallel()
	w := wire(t, newHosts(t), ipv4, proxyAnew)
	w.hosts.fewPorts(t)
	j := joinBefore(t, newSink(t))
	some := append([]string{"--tag", "none"}, ratio("0.5")...)
	a, b := w.agent(t, j.sink, "proxy", w.proxy, some...), w.agent(t, j.sink, "backend", w.backend, some...)
	const requests = 4000
	send(t, load.Options{Addr: w.entry, Connections: 16, Requests: requests, AppendPath: numbered})
	j.passed(t, a, b)
	j.wantNoMarks(t)
	sampled, behind := a.mustMetrics().sampled(), b.mustMetrics().sampled()
	wantRate(t, sampled, requests, 0.5)
	wantRate(t, behind, requests, 0.5)
	r := judge(t, j.sink.all(), shapeOf(t, "nginx"))
	wantRate(t, r.Complete, requests, 0.25)
	if r.Orphaned > 0 || r.Traces != sampled+behind-r.Complete {
		t.Errorf("%d traces, %d spans without their parent, of %d requests sampled at the proxy and %d at the backend",
			r.Traces, r.Orphaned, sampled, behind)
	}
	if n := int(j.labelled("tare_tracer_joins_total", `outcome="joined"`)); n != r.Complete {
		t.Errorf("%d joins for %d whole traces", n, r.Complete)
	}
}
