package integration

import (
	"crypto/tls"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

// TLS at the entry and towards an upstream. What is in plain text behind it tells the
// request by its path, what is not by its length.
func TestGoTLS(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	c, s := newServers(t, "backend"), newSink(t)
	cert, key := certificate(t, c.stack)
	plain, encrypted, entry := testkit.FreePort(t), testkit.FreePort(t), testkit.FreePort(t)
	c.ports = append(c.ports, "--port", "middle="+itoa(plain), "--port", "middle="+itoa(encrypted), "--port", "service="+itoa(entry))
	start := func(name, listen string, env ...string) *workloads.Process {
		return c.service(name, "", append(env, goServiceEnv+"="+listen, "CERTIFICATE="+cert, "KEY="+key), os.Args[0])
	}
	c.ready(start("middle", loopback(plain)+","+loopback(encrypted), "NEXT="+loopback(c.backend)), loopback(plain))
	c.answers(start("service", loopback(c.entry)+","+loopback(entry), "NEXT="+loopback(plain), "NEXT_TLS="+loopback(encrypted)))
	a := trace(t, s, nil, c.ports...)

	encryptedCall := branch{service: "service", kind: span.Client, name: "tls", below: []branch{{service: "middle", kind: span.Server, name: "tls",
		below: []branch{{service: "middle", kind: span.Client, name: "GET", below: []branch{{service: "backend", kind: span.Server, name: "GET"}}}}}}}
	t.Run("upstream", func(t *testing.T) {
		requests := inTurnAndAtOnce(t, loopback(c.entry), "tls")
		m := a.settle()
		judge(t, s.all(), serve("service", "/tls/"))
		wantBranches(t, s.all(), branch{service: "service", kind: span.Server, name: "GET", below: []branch{encryptedCall}}, m, requests, 1)
		wantNoErrors(t, s.all())
		wantLinked(t, m, 0)
	})
	for _, keep := range []bool{true, false} {
		t.Run("entry, connections kept "+onOff(keep), func(t *testing.T) {
			before, counted := s.count(), a.mustMetrics().unlinked()
			transport := &http.Transport{MaxIdleConnsPerHost: 32, DisableKeepAlives: !keep,
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true, DynamicRecordSizingDisabled: true}} //nolint:gosec // made for this test
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: testkit.Patient(30 * time.Second)}
			requests := inParallel(t, 32, few(600), func(n int) error {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+loopback(entry)+"/padded/"+itoa(1000+n), nil)
				if err != nil {
					return err
				}
				req.Header.Set("Padding", strings.Repeat("x", n))
				return asked(client.Do(req))
			})
			m := a.settle()
			spans := s.since(before)
			judge(t, spans, serve("service", "/padded/"))
			wantBranches(t, spans, branch{service: "service", kind: span.Server, name: "tls", below: []branch{{service: "service", kind: span.Client, name: "GET",
				below: []branch{{service: "middle", kind: span.Server, name: "GET", below: []branch{{service: "middle", kind: span.Client, name: "GET",
					below: []branch{{service: "backend", kind: span.Server, name: "GET"}}}}}}}}}, m, requests, 1)
			shortest := math.MaxInt
			for i := range spans {
				if spans[i].Parent.IsZero() {
					shortest = min(shortest, length(&spans[i]))
				}
			}
			ofService := slices.DeleteFunc(slices.Clone(spans), func(sp span.Span) bool { return sp.Resource.Service != "service" })
			wantLengths(t, ofService, func(root *span.Span) int { return length(root) - shortest })
			wantNoErrors(t, spans)
			wantLinked(t, m, counted)
		})
	}
}

// Programs that are built in other ways, and several of them at once.
func TestGoBuilds(t *testing.T) {
	t.Parallel()
	needLong(t)
	need(t, "nginx", "go")
	c, s := newServers(t, "backend"), newSink(t)
	entries := map[string]int{}
	for name, args := range map[string][]string{"pie": {"-buildmode=pie"}, "stripped": {"-ldflags=-s -w"}} {
		entries[name] = testkit.FreePort(t)
		c.selects(name, entries[name])
		p := c.service(name, "", nil, goBuild(t, "goproxy", args...), loopback(entries[name]), loopback(c.backend))
		c.ready(p, loopback(entries[name]))
	}
	a := trace(t, s, nil, c.ports...)
	requests := few(1000)
	for _, entry := range entries {
		send(t, load.Options{Addr: loopback(entry), Connections: 64, Requests: uint64(requests), AppendPath: numbered})
	}
	m := a.settle()
	wantLinked(t, m, 0)
	for name := range entries {
		wantComplete(t, judge(t, below(s.all(), name), serve(name, "/n/", call(name, "/n/", serve("backend", "/n/")))), m, requests, accounted)
	}
	wantNoErrors(t, s.all())
}

// Libraries that ask in ways of their own: drivers of database/sql, and Connect, over
// HTTP/2 and in both of its protocols.
func TestGoDrivers(t *testing.T) {
	t.Parallel()
	need(t, "postgres", "mariadbd", "go")
	c, s := newServers(t, "postgres", "mariadb"), newSink(t)
	binary, next := goBuild(t, "godrivers"), testkit.FreePort(t)
	c.selects("next", next)
	c.ready(c.service("next", "", c.env, binary, loopback(next), loopback(next)), loopback(next))
	c.answers(c.service("service", "", c.env, binary, loopback(c.entry), loopback(next)))
	a := trace(t, s, nil, c.ports...)
	asked := func(service, database string) branch {
		return branch{service: service, kind: span.Client, name: "*", below: []branch{{service: database, kind: span.Server, name: "*"}}}
	}
	procedure := branch{service: "service", kind: span.Client, name: "*", below: []branch{{service: "next", kind: span.Server, name: "*",
		below: []branch{asked("next", "postgres")}}}}
	for _, w := range []struct {
		name  string
		calls branch
	}{{"mysql", asked("service", "mariadb")}, {"mysql-worker", asked("service", "mariadb")}, {"pq", asked("service", "postgres")},
		{"pq-worker", asked("service", "postgres")}, {"connect", procedure}, {"grpc", procedure}} {
		t.Run(w.name, func(t *testing.T) {
			called := len(w.calls.below) > 0 && w.calls.below[0].service == "next"
			share := 1.0
			if strings.HasSuffix(w.name, "-worker") {
				share = untilLinked(t, a, loopback(c.entry), way(w.name))
			}
			before, counted := s.count(), a.mustMetrics().unlinked()
			requests := inTurnAndAtOnce(t, loopback(c.entry), w.name)
			m := a.settle()
			spans := s.since(before)
			wantBranches(t, spans, branch{service: "service", kind: span.Server, name: "GET", below: []branch{w.calls}}, m, requests, share)
			wantNoErrors(t, spans)
			wantLinked(t, m, counted+int((1-share)*float64(requests)))
			begun := map[span.TraceID]bool{} // by requests, and not by calls that are not linked
			for i := range spans {
				if spans[i].Parent.IsZero() && spans[i].Resource.Service == "service" && spans[i].Kind == span.Server {
					begun[spans[i].TraceID] = true
				}
			}
			spans = slices.DeleteFunc(spans, func(sp span.Span) bool { return !begun[sp.TraceID] })
			// Queries are as long as their number, calls of Connect are not.
			wantLengths(t, slices.DeleteFunc(spans, func(sp span.Span) bool {
				of := sp.Resource.Service
				return called && (of == "service" && sp.Kind == span.Client || of == "next" && sp.Kind == span.Server)
			}), pathNumber(t))
		})
	}
}

// What a library in C sends that a handler has called is not linked: it runs on a stack of
// its own.
func TestGoCallsC(t *testing.T) {
	t.Parallel()
	need(t, "redis-server", "go", "gcc")
	c, s := newServers(t, "redis"), newSink(t)
	c.answers(c.service("service", "", c.env, goBuild(t, "gocgo"), loopback(c.entry)))
	a := trace(t, s, nil, c.ports...)
	requests := few(1000)
	send(t, load.Options{Addr: loopback(c.entry), Connections: 16, Requests: uint64(requests), AppendPath: numbered})
	m := a.settle()
	judge(t, s.all(), serve("service", "/n/"))
	wantUnlinked(t, s.all(), m, requests, m.int(`tare_unlinked_total{reason="no_request"}`))
	wantNone(t, s.all(), "service", span.Client)
}

// A program in Go whose server is not net/http's is not linked, and the log says why.
func TestGoWithoutHTTP(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "go")
	c, s := newServers(t, "backend"), newSink(t)
	c.answers(c.service("service", "", nil, goBuild(t, "gotcp", "-ldflags=-s -w"), loopback(c.entry), loopback(c.backend)))
	a := trace(t, s, nil, c.ports...)
	requests := few(1000)
	send(t, load.Options{Addr: loopback(c.entry), Connections: 16, Requests: uint64(requests), AppendPath: numbered})
	m := a.settle()
	judge(t, s.all(), serve("service", "/n/"))
	wantUnlinked(t, s.all(), m, requests, m.int(`tare_unlinked_total{reason="runtime"}`))
	if want := "Go: http1 server: not in the program"; !strings.Contains(a.Log.String(), want) {
		t.Errorf("%q is not in the log:\n%s", want, a.Log)
	}
}

// goBuild builds a program of testdata; it costs seconds, the first time.
func goBuild(t *testing.T, name string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	sh(t, slices.Concat([]string{"go", "-C", "testdata/" + name, "build", "-trimpath", "-buildvcs=false"}, args, []string{"-o", out, "."})...)
	return out
}
