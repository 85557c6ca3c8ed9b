package integration

import (
	"os"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
)

// newGoHTTP2Servers starts a service that is asked over HTTP/2 of a package, by one that
// passes on, at a port, what comes over HTTP/1.
func newGoHTTP2Servers(t *testing.T, pkg string) (*servers, *sink, int) {
	t.Helper()
	c, s := newServers(t, storages...), newSink(t)
	next, front := testkit.FreePort(t), testkit.FreePort(t)
	c.selects("next", next)
	c.selects("front", front)
	c.ready(c.service("next", "", []string{goServiceEnv + "=" + loopback(next)}, os.Args[0]), loopback(next))
	c.answers(c.service("service", "", append(c.env, goServiceEnv+"="+loopback(c.entry), "NEXT="+loopback(next), "HTTP2="+pkg), os.Args[0]))
	c.ready(c.service("front", "", []string{goServiceEnv + "=" + loopback(front), "NEXT=" + loopback(c.entry), "FORWARD=" + pkg}, os.Args[0]), loopback(front))
	return c, s, front
}

// Requests that come over HTTP/2, many streams to a connection: each has a goroutine of
// its own.
func TestGoHTTP2(t *testing.T) {
	t.Parallel()
	need(t, "redis-server", "memcached")
	for _, pkg := range []string{"net/http", "x/net"} {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			c, s, front := newGoHTTP2Servers(t, pkg)
			a := trace(t, s, nil, c.ports...)
			// What comes with a connection's preface is read before the goroutine that
			// reads its frames has begun.
			send(t, load.Options{Addr: loopback(front), Connections: 1, Requests: 2, AppendPath: way("n")})
			a.settle()
			for _, w := range []goWay{
				{"n", allAsked.Children},
				{"timeout", []fidelity.Shape{toNext("/timeout/")}},
				{"queued", []fidelity.Shape{toNext("/queued/")}},
				{"proxy", []fidelity.Shape{toNext("/proxy/")}},
				{"errgroup", []fidelity.Shape{toRedis("a:"), toRedis("b:"), toNext("/errgroup/")}},
				{"go", []fidelity.Shape{toRedis("n:"), toNext("/go/")}},
				{"pool", []fidelity.Shape{toRedis("n:")}},
				{"begun", []fidelity.Shape{toRedis("n:")}},
				{"early", []fidelity.Shape{toNext("/early/"), toRedis("n:"), toMemcached("n:")}},
				{"nocontext", nil},
				{"background", nil},
				{"grown", nil},
				{"lazy", nil},
			} {
				path := "/" + w.name + "/"
				w.run(t, s, a, loopback(front), w.name, serve("front", path, call("front", path, w.served())))
			}
			// New connections, each with so many requests that they are received in pieces before
			// anybody reads frames: what comes later is linked.
			t.Run("thousand at once", func(t *testing.T) {
				whole := serve("front", "/n/", call("front", "/n/", goWay{"n", allAsked.Children}.served()))
				before := s.count()
				send(t, load.Options{Addr: loopback(front), Connections: 1000, Requests: uint64(few(2000)), Timeout: 30 * time.Second, AppendPath: way("n")})
				a.settle()
				judge(t, s.since(before), whole)
				before = s.count()
				requests := few(2000)
				send(t, load.Options{Addr: loopback(front), Connections: 200, First: 1 << 32, Requests: uint64(requests), Timeout: 30 * time.Second, AppendPath: way("n")})
				m := a.settle()
				wantComplete(t, judge(t, s.since(before), whole), m, requests, 0.99)
			})
		})
	}
}
