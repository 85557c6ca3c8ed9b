package integration

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
)

// goProxyEnv makes the test binary a proxy: "listen,upstream".
const goProxyEnv = "TARE_TEST_GO_PROXY"

func goProxy(spec string) {
	listen, upstream, _ := strings.Cut(spec, ",")
	target := &url.URL{Scheme: "http", Host: upstream}
	srv := &http.Server{Addr: listen, Handler: httputil.NewSingleHostReverseProxy(target), ReadHeaderTimeout: 5 * time.Second}
	_ = srv.ListenAndServe()
	os.Exit(1)
}

// haproxy in front of nginx: how complete its traces are is reported; none may
// be wrong.
func TestHAProxy(t *testing.T) {
	need(t, "haproxy")
	for _, reuse := range []string{"never", "safe", "always"} {
		t.Run("reuse "+reuse, func(t *testing.T) {
			st, s := newStack(t), newSink(t)
			proxy, backend := freePort(t), freePort(t)
			st.nginx("backend", "", answer(loopback(backend)), loopback(backend))
			conf := st.file("haproxy.cfg", fmt.Sprintf(`
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    http-reuse %s
frontend in
    bind %s
    default_backend out
backend out
    server next %s
`, reuse, loopback(proxy), loopback(backend)))
			st.ready(st.service("proxy", "", nil, "haproxy", "-db", "-f", conf), loopback(proxy))
			a := trace(t, s, nil, "--port", "proxy="+itoa(proxy), "--port", "backend="+itoa(backend))
			const requests = 4000
			send(t, load.Options{Addr: loopback(proxy), Connections: 32, Requests: requests, AppendPath: numbered})
			m := a.settle()
			r := judge(t, s.all(), shapeOf(t, "nginx"))
			t.Logf("haproxy, reuse %s: %d of %d complete\n%v", reuse, r.Complete, requests, m)
			if m.sampled() < requests {
				t.Errorf("%d root decisions for %d requests", m.sampled(), requests)
			}
		})
	}
}

// A proxy in Go cannot be linked yet: its requests are server spans that say
// so, what it asks begins no trace below another, and it is counted.
func TestGoProxyIsUnlinked(t *testing.T) {
	need(t)
	st, s := newStack(t), newSink(t)
	proxy, backend := freePort(t), freePort(t)
	st.nginx("backend", "", answer(loopback(backend)), loopback(backend))
	p := st.service("proxy", "", []string{goProxyEnv + "=" + loopback(proxy) + "," + loopback(backend)}, os.Args[0])
	st.ready(p, loopback(proxy))
	a := trace(t, s, nil, "--port", "proxy="+itoa(proxy), "--port", "backend="+itoa(backend))
	const requests = 2000
	send(t, load.Options{Addr: loopback(proxy), Connections: 16, Requests: requests, AppendPath: numbered})
	m := a.settle()
	spans := s.all()
	r := judge(t, spans, shapeOf(t, "nginx"))
	servers := 0
	for _, sp := range spans {
		if sp.Resource.Service != "proxy" {
			continue
		}
		linking, _ := sp.Attr("tare.linking")
		if sp.Kind != span.Server || linking.Str != "none" {
			t.Fatalf("not a server span that says that it is unlinked: %s", describe(&sp))
		}
		servers++
	}
	if servers != requests || r.Orphaned > 0 {
		t.Errorf("%d server spans of %d requests (%d root decisions), %d orphaned spans", servers, requests, m.sampled()+m.unsampled(), r.Orphaned)
	}
	if m[`tare_unlinked_total{reason="runtime"}`] == 0 {
		t.Errorf("no unlinked message counted:\n%v", m)
	}
}
