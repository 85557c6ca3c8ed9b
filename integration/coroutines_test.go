package integration

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
)

// Coroutines in C++ with a stack each (workloads/polyglot/cpp/service.cpp). Those whose stacks are mappings of
// their own are linked, whichever threads run them, and nothing that they ask after their answers is; those that share
// a mapping are refused. No call is ever below another request.
//
// The first drive has as many connections as the largest, so that the service has made all of its stacks.
func TestCoroutines(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "redis-server", "g++")
	dir, err := filepath.Abs("../workloads/polyglot/cpp")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "service")
	sh(t, "g++", "-O2", "-std=c++17", "-pthread", "-o", program, filepath.Join(dir, "service.cpp"))
	for _, service := range []struct {
		name, mode   string
		linked, long bool
	}{
		{name: "stacks of malloc", mode: "coroutines malloc", long: true},
		{name: "stacks side by side", mode: "coroutines side", long: true},
		{name: "stacks side by side, late calls", mode: "coroutines side late"},
		{name: "a loop on such a stack that asks late", mode: "loop"},
		{name: "stacks that are mappings", mode: "coroutines mapped", linked: true},
		{name: "stacks that are mappings, more above the first", mode: "coroutines merged", linked: true},
		{name: "stacks that are mappings, late calls", mode: "coroutines mapped late", linked: true, long: true},
		{name: "stacks that are mappings, four threads", mode: "coroutines mapped threads", linked: true, long: true},
		{name: "stacks that are mappings, four threads, late calls", mode: "coroutines mapped threads late", linked: true},
	} {
		if service.long && !*long {
			continue
		}
		t.Run(service.name, func(t *testing.T) {
			t.Parallel()
			c, s := newServers(t, bothAsk...), newSink(t)
			env := append(c.env, "PORT="+itoa(c.entry))
			c.answers(c.service("service", "", env, append([]string{program}, strings.Fields(service.mode)...)...))
			a := traceWith(t, ratioSampler, 1, s, nil, c.ports...)
			learn := drive{connections: 256, requests: 600}
			if service.linked {
				a.proven(t, func() { learn.run(t, loopback(c.entry)) })
			} else {
				learn.run(t, loopback(c.entry)) // it is refused
			}
			at := []int{1, 64}
			if *long {
				at = []int{1, 4, 64, 256}
			}
			for _, rate := range []float64{1, 0.1} {
				a.sample(t, ratioSampler, rate)
				for _, connections := range at {
					t.Logf("a share of %v is sampled", rate)
					(&coroutines{s, a.tracer, loopback(c.entry)}).drive(t, connections, service.linked)
				}
			}
		})
	}
}

type coroutines struct {
	s     *sink
	a     *tracer
	entry string
}

func (c *coroutines) drive(t *testing.T, connections int, linked bool) {
	t.Helper()
	const atOnce = 2000 // whose records fit into the ring
	requests := atOnce
	if *long {
		requests = 10000
	}
	truth := server{asks: bothAsk}.shape().Always()
	ask := func(n uint64) {
		send(t, load.Options{Addr: c.entry, Connections: connections, Requests: n, AppendPath: numbered})
	}
	c.s.take()
	before := c.a.mustMetrics().unlinked()
	var links fidelity.Links
	late := 0
	for range requests / atOnce {
		ask(atOnce)
		c.a.settle()
		spans := c.s.take()
		l := fidelity.CountLinks(spans, truth)
		links.Calls, links.Linked, links.Wrong = links.Calls+l.Calls, links.Linked+l.Linked, links.Wrong+l.Wrong
		late += len(linkedLate(spans))
	}
	m := c.a.mustMetrics()
	unlinked := m.unlinked() - before
	t.Logf("%d connections: %d of %d calls are linked, %d wrongly, %d late; %d are counted as unlinked",
		connections, links.Linked, links.Calls, links.Wrong, late, unlinked)
	if links.Calls == 0 || links.Wrong > 0 || late > 0 || links.Linked+unlinked < links.Calls {
		t.Errorf("of %d calls at %d connections, %d are linked, %d wrongly, and %d late ones\n%v", links.Calls, connections, links.Linked, links.Wrong, late, m)
	}
	if linked && links.Linked < links.Calls-links.Calls/100 || // mappings that change cannot be looked at: stack
		!linked && links.Linked > 0 {
		t.Errorf("%d of %d calls are linked at %d connections\n%v", links.Linked, links.Calls, connections, m)
	}
}

// linkedLate are calls that were made after the answer, and are below a request nevertheless: they may only begin traces.
func linkedLate(spans []span.Span) (late []span.Span) {
	isLate := func(sp *span.Span) bool {
		path, _ := sp.Attr("url.path")
		return strings.HasPrefix(path.Str, "/late/")
	}
	own := map[span.TraceID]bool{}
	for i := range spans {
		own[spans[i].TraceID] = own[spans[i].TraceID] || spans[i].Parent.IsZero() && isLate(&spans[i])
	}
	for i := range spans {
		if isLate(&spans[i]) && !own[spans[i].TraceID] {
			late = append(late, spans[i])
		}
	}
	return late
}
