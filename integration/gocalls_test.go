package integration

import (
	"encoding/json"
	"flag"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
)

var (
	recordCalls = flag.String("record-calls", "", "file that gets what TestGoCalls counts, as docs/results/go-calls.json")
	callsCommit = flag.String("calls-commit", "", "the commit that it says")
)

// goCalls are the calls of services in Go that were made in one way from requests that
// came over a number of connections.
type goCalls struct {
	Way         string `json:"way"`
	Connections int    `json:"connections"`
	Requests    int    `json:"requests"`
	Calls       int    `json:"calls"`
	Linked      int    `json:"linked"`
	Wrong       int    `json:"wrong_traces"`
}

// callsOf is the least number of calls in each way over each number of connections: a
// million in all.
const callsOf = 34000

// A million calls of services in Go (make go-calls, ten minutes): of each, whether it is
// linked, and to its request.
func TestGoCalls(t *testing.T) {
	t.Parallel()
	if *recordCalls == "" {
		t.Skip("takes ten minutes: make go-calls")
	}
	need(t, "redis-server", "memcached", "postgres", "go")
	room := []string{"TARE_QUEUE=262144", "TARE_MAX_SPANS=262144"}
	var all []goCalls

	// count sends requests in one way until there are enough calls; judged tells of spans how
	// many traces are wrong.
	count := func(way string, addr string, calls int, path func([]byte, uint64) []byte, s *sink, a *tracer, judged func([]span.Span) int) {
		for _, connections := range []int{1, 64, 1000} {
			c := goCalls{Way: way, Connections: connections}
			counted := a.mustMetrics().unlinked()
			for c.Calls < callsOf {
				requests := min(8000, (callsOf-c.Calls+calls-1)/calls)
				send(t, load.Options{Addr: addr, Connections: min(connections, requests), First: uint64(c.Requests), Requests: uint64(requests),
					Timeout: 30 * time.Second, AppendPath: path})
				a.settle()
				spans := s.take()
				c.Requests += requests
				c.Calls += requests * calls
				c.Wrong += judged(spans)
				for i := range spans {
					if spans[i].Kind == span.Client && !spans[i].Parent.IsZero() {
						c.Linked++
					}
				}
			}
			t.Logf("%s, %d connections: %d requests, %d of %d calls linked, %d wrong traces", way, connections, c.Requests, c.Linked, c.Calls, c.Wrong)
			m := a.mustMetrics()
			if n := m.unlinked() - counted; c.Wrong > 0 || c.Linked > c.Calls || c.Linked+n < c.Calls {
				t.Errorf("%+v: %d are counted as unlinked\n%v", c, n, m)
			}
			all = append(all, c)
		}
	}
	wrongOf := func(shape fidelity.Shape) func([]span.Span) int {
		return func(spans []span.Span) int { return judge(t, spans, shape).Wrong }
	}

	t.Run("HTTP/1", func(t *testing.T) {
		c, s := newGoServers(t, append(slices.Clone(storages), "postgres")...), newSink(t)
		a := trace(t, s, room, c.ports...)
		for _, w := range []struct {
			what string
			goWay
		}{
			{"HTTP/1 to HTTP/1", goWay{"client", []fidelity.Shape{toNext("/client/")}}},
			{"HTTP/1 to HTTP/1, ReverseProxy", goWay{"proxy", []fidelity.Shape{toNext("/proxy/")}}},
			{"HTTP/1 to redis", goWay{"redis", []fidelity.Shape{toRedis("n:")}}},
			{"HTTP/1 to memcached", goWay{"memcached", []fidelity.Shape{toMemcached("n:")}}},
			{"HTTP/1, errgroup: redis twice, HTTP/1", goWay{"errgroup", []fidelity.Shape{toRedis("a:"), toRedis("b:"), toNext("/errgroup/")}}},
			{"HTTP/1, workers: redis", goWay{"pool", []fidelity.Shape{toRedis("n:")}}},
		} {
			count(w.what, loopback(c.entry), len(w.calls), way(w.name), s, a, wrongOf(w.served()))
		}
		lengths := func(dst []byte, n uint64) []byte { return strconv.AppendUint(append(dst, "/sql/"...), 1+n%997, 10) }
		count("HTTP/1 to PostgreSQL, database/sql", loopback(c.entry), 1, lengths, s, a, func(spans []span.Span) (wrong int) {
			for _, l := range lengthsOf(spans, pathNumber(t)) {
				wrong += l.all - l.most
			}
			return wrong
		})
	})
	for _, pkg := range []string{"net/http", "x/net"} {
		t.Run("HTTP/2 of "+pkg, func(t *testing.T) {
			c, s, front := newGoHTTP2Servers(t, pkg)
			a := trace(t, s, room, c.ports...)
			w := goWay{"n", allAsked.Children}
			count("HTTP/2 of "+pkg+": HTTP/1, redis, memcached", loopback(front), 1+len(w.calls), way(w.name), s, a,
				wrongOf(serve("front", "/n/", call("front", "/n/", w.served()))))
		})
	}
	t.Run("gRPC", func(t *testing.T) {
		c, s := newMesh(t, "unary"), newSink(t)
		a := trace(t, s, append(room, grpcNumber), c.ports...)
		count("HTTP/1 to gRPC to redis and gRPC", loopback(c.entry), 3, numbered, s, a, wrongOf(grpcShape("Get")))
	})

	var calls, linked int
	for _, c := range all {
		calls += c.Calls
		linked += c.Linked
	}
	if !t.Failed() && (calls < 1_000_000 || float64(linked) < 0.999*float64(calls)) {
		t.Errorf("%d of %d calls are linked", linked, calls)
	}
	text, err := json.MarshalIndent(struct {
		Commit string    `json:"commit"`
		Date   string    `json:"date"`
		Go     string    `json:"go"`
		CPUs   int       `json:"cpus"`
		Ways   []goCalls `json:"ways"`
	}{*callsCommit, time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), all}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*recordCalls, append(text, '\n'), 0o644); err != nil { //nolint:gosec // a document
		t.Fatal(err)
	}
	t.Logf("%d of %d calls are linked: %s", linked, calls, *recordCalls)
}
