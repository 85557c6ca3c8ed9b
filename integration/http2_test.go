package integration

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// goHTTP2Env makes the test binary a server for HTTP/2 without TLS, as gRPC's are, at an address.
const goHTTP2Env = "TARE_TEST_GO_HTTP2"

func goHTTP2(listen string) {
	srv := &http.Server{Addr: listen, Protocols: http2Only(), ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") })}
	_ = srv.ListenAndServe()
	os.Exit(1)
}

func http2Only() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// Many requests share a connection of HTTP/2. As long as they are not told apart
// there is no span of any of them, rather than one for whatever is read at once,
// and that is counted.
func TestHTTP2(t *testing.T) {
	need(t, "nginx")
	const clients, requests = 32, 2000
	t.Run("entry", func(t *testing.T) {
		c, s := newServers(t, "backend"), newSink(t)
		c.nginx("service", "", proxyTo(loopback(c.entry)+" http2", loopback(c.backend)), loopback(c.entry))
		a := trace(t, s, nil, c.ports...)
		transports := make([]http.RoundTripper, 4) // a connection each
		for i := range transports {
			tr := &http.Transport{Protocols: http2Only()}
			defer tr.CloseIdleConnections()
			transports[i] = tr
		}
		inParallel(t, clients, requests, func(n int) error {
			client := &http.Client{Transport: transports[n%len(transports)], Timeout: 30 * time.Second}
			return asked(client.Get(fmt.Sprintf("http://%s/n/%d", loopback(c.entry), n)))
		})
		m := a.settle()
		spans := s.all()
		// What the service asks for a stream begins a trace behind it.
		wantComplete(t, judge(t, spans, serve("backend", "/n/")), m, requests, 0.999)
		for i := range spans {
			if of, _ := spans[i].Attr(semconv.Behind); of.Str != "service" {
				t.Fatalf("not behind the service: %s", describe(&spans[i]))
			}
		}
		wantNone(t, spans, "service", span.Server)
		wantNone(t, spans, "service", span.Client)
		wantNoErrors(t, spans)
		wantHTTP2Counted(t, m, "tare_http2_connections_total")
	})
	t.Run("upstream", func(t *testing.T) {
		c, s := newServers(t), newSink(t)
		proxy := freePort(t)
		c.selects("proxy", proxy)
		p := c.service("service", "", []string{goHTTP2Env + "=" + loopback(c.entry)}, os.Args[0])
		c.ready(p, loopback(c.entry))
		c.nginx("proxy", "", fmt.Sprintf(`
    upstream next { server %s; keepalive 16; }
    server {
        listen %s backlog=8192;
        location / { grpc_pass grpc://next; }
    }`, loopback(c.entry), loopback(proxy)), loopback(proxy))
		a := trace(t, s, nil, c.ports...)
		send(t, load.Options{Addr: loopback(proxy), Connections: clients, Requests: requests, AppendPath: numbered})
		m := a.settle()
		spans := s.all()
		wantComplete(t, judge(t, spans, serve("proxy", "/n/")), m, requests, 0.999)
		wantNone(t, spans, "proxy", span.Client)
		wantNone(t, spans, "service", span.Server)
		wantNoErrors(t, spans)
		wantHTTP2Counted(t, m, "tare_http2_connections_total", `tare_unlinked_total{reason="http2"}`)
	})
}

func wantHTTP2Counted(t *testing.T, m metrics, counters ...string) {
	t.Helper()
	for _, name := range counters {
		if m[name] == 0 {
			t.Errorf("HTTP/2 is not counted by %s:\n%v", name, m)
		}
	}
}

// wantNone requires that there is no span of a kind of a service.
func wantNone(t *testing.T, spans []span.Span, service string, kind span.Kind) {
	t.Helper()
	n, example := 0, ""
	for i := range spans {
		if spans[i].Resource.Service == service && spans[i].Kind == kind {
			n++
			example = describe(&spans[i])
		}
	}
	if n > 0 {
		t.Errorf("%d %s spans of %s, want none; such as %s", n, kind, service, example)
	}
}
