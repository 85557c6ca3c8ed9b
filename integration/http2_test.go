package integration

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
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

// Many requests share a connection of HTTP/2, each in a stream of its own.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	const clients, requests = 32, 2000
	// An event loop reads several streams at once: what it then sends may be for
	// any of them. It is not linked, and begins traces behind the service.
	t.Run("entry", func(t *testing.T) {
		t.Parallel()
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
			client := &http.Client{Transport: transports[n%len(transports)], Timeout: testkit.Patient(30 * time.Second)}
			return asked(client.Get(fmt.Sprintf("http://%s/n/%d", loopback(c.entry), n)))
		})
		m := a.settle()
		spans := s.all()
		streams, behind := below(slices.Clone(spans), "service"), below(slices.Clone(spans), "backend")
		wantComplete(t, judge(t, streams, serve("service", "/n/")), m, requests, accounted)
		wantComplete(t, judge(t, behind, serve("backend", "/n/")), m, requests, 0.999)
		for i := range behind {
			if of, _ := behind[i].Attr(semconv.Behind); of.Str != "service" {
				t.Fatalf("not behind the service: %s", describe(&behind[i]))
			}
		}
		for i := range streams {
			wantVersion2(t, &streams[i])
			if why, _ := streams[i].Attr(semconv.LinkingReason); why.Str != "" && why.Str != "http2" {
				t.Fatalf("%s: not linked because of %q", describe(&streams[i]), why.Str)
			}
		}
		wantNoErrors(t, spans)
		wantHTTP2Counted(t, m, "tare_http2_connections_total", `tare_unlinked_total{reason="http2"}`)
	})
	// nginx has one request in flight on each connection to whom it asks.
	t.Run("upstream", func(t *testing.T) {
		t.Parallel()
		c, s := newServers(t), newSink(t)
		proxy := testkit.FreePort(t)
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
		wantComplete(t, judge(t, spans, serve("proxy", "/n/", call("proxy", "/n/", serve("service", "/n/")))), m, requests, 0.998)
		for i := range spans {
			if spans[i].Resource.Service == "service" {
				wantVersion2(t, &spans[i])
			}
		}
		wantNoErrors(t, spans)
		wantHTTP2Counted(t, m, "tare_http2_connections_total")
	})
}

// wantVersion2 requires what a span of a stream has beside its path.
func wantVersion2(t *testing.T, s *span.Span) {
	t.Helper()
	version, _ := s.Attr("network.protocol.version")
	status, _ := s.Attr("http.response.status_code")
	if s.Name != "GET" || version.Str != "2" || status.Text() != "200" {
		t.Fatalf("%s: version %q, status %s", describe(s), version.Str, status.Text())
	}
}

// wantHTTP2Counted requires that HTTP/2 was counted, and that no connection of it was
// given up.
func wantHTTP2Counted(t *testing.T, m metrics, counters ...string) {
	t.Helper()
	for _, name := range counters {
		if m[name] == 0 {
			t.Errorf("HTTP/2 is not counted by %s:\n%v", name, m)
		}
	}
	if n := m.lost("http2_given_up"); n > 0 {
		t.Errorf("%d connections were given up", n)
	}
}
