package integration

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
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
	// What an event loop received last is a request without a body, and it works for that; or it is of several requests, or
	// a body, on which it works later. What it then sends is not linked, and begins traces behind the service.
	for name, connections := range map[string]int{"one stream on a connection": clients, "many streams on a connection": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s := newServers(t, "backend"), newSink(t)
			c.nginx("service", "", proxyTo(loopback(c.entry)+" http2", loopback(c.backend)), loopback(c.entry))
			a := trace(t, s, nil, c.ports...)
			transports := make([]http.RoundTripper, connections)
			for i := range transports {
				tr := &http.Transport{Protocols: http2Only()}
				defer tr.CloseIdleConnections()
				transports[i] = tr
			}
			inParallel(t, clients, requests, func(n int) error {
				client := &http.Client{Transport: transports[n%clients%connections], Timeout: testkit.Patient(30 * time.Second)}
				url := fmt.Sprintf("http://%s/n/%d", loopback(c.entry), n)
				if n%3 == 0 && connections < clients {
					return asked(client.Post(url, "text/plain", strings.NewReader(strings.Repeat("x", n*17%5000))))
				}
				return asked(client.Get(url))
			})
			m := a.settle()
			spans := s.all()
			wantNoErrors(t, spans)
			whole := judge(t, spans, serve("service", "/n/", call("service", "/n/", serve("backend", "/n/"))))
			if connections == clients {
				wantComplete(t, whole, m, requests, accounted)
				wantHTTP2Counted(t, m, "tare_http2_connections_total")
				return
			}
			wantHTTP2Counted(t, m, "tare_http2_connections_total", `tare_unlinked_total{reason="http2"}`)
			wantAllSaid(t, spans, requests, whole.Complete)
		})
	}
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

// wantAllSaid requires that each request without its call has the reason, and that the call begins a trace.
func wantAllSaid(t *testing.T, spans []span.Span, requests, linked int) {
	t.Helper()
	calls, said, behind := map[span.ID]bool{}, 0, 0
	for i := range spans {
		if spans[i].Kind == span.Client {
			calls[spans[i].Parent] = true
		}
	}
	for i := range spans {
		sp := &spans[i]
		if sp.Kind != span.Server || !sp.Parent.IsZero() {
			continue
		}
		of, _ := sp.Attr(semconv.Behind)
		why, _ := sp.Attr(semconv.LinkingReason)
		switch {
		case sp.Resource.Service == "backend" && of.Str == "service":
			behind++
		case sp.Resource.Service == "service" && !calls[sp.ID] && why.Str != "":
			said++
		case sp.Resource.Service != "service" || !calls[sp.ID]:
			t.Errorf("begins a trace for no reason: %s", describe(sp))
		}
	}
	if linked == 0 || said != behind || linked+said != requests {
		t.Errorf("%d of %d requests are linked, %d say that they are not, %d traces begin behind them", linked, requests, said, behind)
	}
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
