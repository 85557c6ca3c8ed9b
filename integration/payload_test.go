package integration

import (
	"strings"
	"testing"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
)

// With --payload off nothing of a message is read, or leaves in a span; the
// traces have the same structure.
func TestPayloadOff(t *testing.T) {
	t.Parallel()
	need(t)
	server := func(service string, below ...branch) branch {
		return branch{service: service, kind: span.Server, name: "tcp", below: below}
	}
	client := func(service string, below ...branch) branch {
		return branch{service: service, kind: span.Client, name: "tcp", below: below}
	}
	for chain, want := range map[string]branch{
		"nginx": server("proxy", client("proxy", server("backend"))),
		"shop": server("proxy", client("proxy", server("shop",
			client("shop", server("redis")), client("shop", server("memcached")), client("shop", server("stock"))))),
	} {
		t.Run(chain, func(t *testing.T) {
			t.Parallel()
			c, s := start(t, chain), newSink(t)
			a := trace(t, s, nil, append(ports(c), "--payload", "off")...)
			requests := few(2000)
			send(t, load.Options{Addr: c.Entry, Connections: 16, Requests: uint64(requests), AppendPath: c.AppendPath})
			m := a.settle()
			spans := s.all()
			for i := range spans {
				for _, attr := range spans[i].Attrs {
					for _, prefix := range []string{"url.", "http.", "db."} {
						if strings.HasPrefix(attr.Key, prefix) {
							t.Fatalf("%s is %q: %s", attr.Key, attr.Text(), describe(&spans[i]))
						}
					}
				}
			}
			wantBranches(t, spans, want, m, requests, 0.999)
		})
	}
}

// A query string never leaves the node.
func TestQueryStringsAreDropped(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, ports(c)...)
	const requests = 50
	for range requests {
		exchange(t, c.Entry, get("/n/1?token=secret", ""))
	}
	m := a.settle()
	spans := s.all()
	wantBranches(t, spans, branch{service: "proxy", kind: span.Server, name: "GET", below: []branch{
		{service: "proxy", kind: span.Client, name: "GET", below: []branch{{service: "backend", kind: span.Server, name: "GET"}}},
	}}, m, requests, 0.9)
	for i := range spans {
		for _, attr := range spans[i].Attrs {
			if strings.Contains(attr.Text(), "secret") {
				t.Errorf("%s is %q", attr.Key, attr.Text())
			}
		}
	}
}
