package integration

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/workloads"
)

// uring starts the server of testdata/uring.c.
func uring(env ...string) func(*servers) *workloads.Process {
	return func(c *servers) *workloads.Process {
		c.t.Helper()
		server := filepath.Join(c.g.Dir, "uring")
		sh(c.t, "cc", "-D_GNU_SOURCE", "-O1", "-o", server, testdata("uring.c"), "-luring", "-lpthread")
		return c.service("service", "", append(slices.Clone(c.env), env...), server, itoa(c.entry), itoa(c.backend))
	}
}

// What is sent by io_uring is linked where the thread that submits it sends it; what a
// thread of the kernel sends is unlinked, and counted.
func TestURing(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "cc", "/usr/include/liburing.h")
	c, s := newServers(t, "backend"), newSink(t)
	c.answers(uring()(c))
	a := trace(t, s, nil, c.ports...)
	a.proven(t, func() {
		send(t, load.Options{Addr: loopback(c.entry), Connections: 4, Requests: 100, AppendPath: way("blocking")})
	})
	for _, w := range []struct {
		way    string
		linked bool
	}{{"blocking", true}, {"plain", true}, {"async", false}, {"polled", false}, {"plain", true}} {
		t.Run(w.way, func(t *testing.T) {
			for _, connections := range []int{1, 64} {
				before, counted, requests := s.count(), a.mustMetrics().unlinked(), few(1500)
				send(t, load.Options{Addr: loopback(c.entry), Connections: connections, Requests: uint64(requests), AppendPath: way(w.way)})
				m := a.settle()
				spans := s.since(before)
				wantNoErrors(t, spans)
				path := "/" + w.way + "/"
				r := judge(t, spans, serve("service", path, call("service", path, serve("backend", path))))
				if w.linked {
					wantComplete(t, r, m, requests, accounted)
				} else {
					wantUnlinked(t, spans, m, requests, m.unlinked()-counted)
				}
			}
		})
	}
}

// A loop that does everything by one ring is never linked to another request.
func TestURingLoop(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "cc", "/usr/include/liburing.h")
	for _, way := range []string{"plain", "polled"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			c, s := newServers(t, "backend"), newSink(t)
			c.answers(uring("LOOP=" + way)(c))
			a := trace(t, s, nil, c.ports...)
			for _, connections := range []int{1, 4, 64} {
				before, counted, requests := s.count(), a.mustMetrics().unlinked(), few(1500)
				send(t, load.Options{Addr: loopback(c.entry), Connections: connections, Requests: uint64(requests), AppendPath: numbered})
				m := a.settle()
				spans := s.since(before)
				judge(t, spans, serve("service", "/n/", call("service", "/n/", serve("backend", "/n/"))))
				wantUnlinked(t, spans, m, requests, m.unlinked()-counted)
			}
		})
	}
}
