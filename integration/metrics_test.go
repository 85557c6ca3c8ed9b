package integration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// measured is a series of histograms; zero fields of it are not asked for.
type measured struct {
	service         string // of its own requests
	client, peer    string // of an edge, whose peer is traced
	class, protocol string
	failed          bool
	peerIsNotOurs   bool
}

func (w measured) key(suffix string) string {
	if w.protocol == "" {
		w.protocol = "http"
	}
	if w.client == "" {
		return fmt.Sprintf(`tare_service_request_duration_seconds_%s{error="%v",protocol="%s",service="%s",status_class="%s"}`,
			suffix, w.failed, w.protocol, w.service, w.class)
	}
	return fmt.Sprintf(`tare_edge_request_duration_seconds_%s{client="%s",error="%v",peer="%s",peer_traced="%v",protocol="%s",status_class="%s"}`,
		suffix, w.client, w.failed, w.peer, !w.peerIsNotOurs, w.protocol, w.class)
}

// wantMeasured requires the counts of all series, and no other series.
func wantMeasured(t *testing.T, m metrics, want map[measured]int) {
	t.Helper()
	known := map[string]bool{}
	for w, n := range want {
		known[w.key("count")] = true
		if got := m.int(w.key("count")); got != n {
			t.Errorf("%s is %d, want %d", w.key("count"), got, n)
		}
	}
	for key, n := range m {
		if strings.Contains(key, "_request_duration_seconds_count{") && !known[key] {
			t.Errorf("%s is %v, want none", key, n)
		}
	}
	if n := m.int("tare_measured_other_total"); n != 0 {
		t.Errorf("%d requests found no room", n)
	}
}

// sumOf adds up what all requests of a service or an edge took, in seconds.
func sumOf(m metrics, name, label string) (sum float64) {
	for key, v := range m {
		if strings.HasPrefix(key, name+"_sum{") && strings.Contains(key, label) {
			sum += v
		}
	}
	return sum
}

// byNumber is an nginx that answers what the last digit of a request's number
// says: 5 with 404, 7 with 502, 9 with 500, the others with 200.
func byNumber(listen string) string {
	return fmt.Sprintf(`server { listen %s backlog=8192;
        location ~ 5$ { return 404 "none\n"; }
        location ~ 7$ { return 502 "bad\n"; }
        location ~ 9$ { return 500 "broken\n"; }
        location / { return 200 "hello world!\n"; }
    }`, listen)
}

var shares = map[string][]string{
	"none sampled": {"--sampler", "always_off"},
	"1%":           ratio("0.01"),
	"all":          nil,
}

// Every request is measured, sampled or not: exactly as many as were sent, by
// status; and what lies within another takes less time.
func TestEveryRequestIsMeasured(t *testing.T) {
	t.Parallel()
	need(t)
	for name, args := range shares {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, s := newStack(t), newSink(t)
			proxy, backend := testkit.FreePort(t), testkit.FreePort(t)
			st.nginx("backend", "", byNumber(loopback(backend)), loopback(backend))
			st.nginx("proxy", "", proxyTo(loopback(proxy), loopback(backend)), loopback(proxy))
			a := trace(t, s, nil, append([]string{"--metrics", "requests", "--port", "proxy=" + itoa(proxy), "--port", "backend=" + itoa(backend)}, args...)...)
			const requests = 5000
			began := time.Now()
			r, err := load.Run(t.Context(), load.Options{Addr: loopback(proxy), Connections: 16, Requests: requests, AppendPath: numbered})
			if err != nil || r.OK != requests*7/10 || r.Failed != requests*3/10 {
				t.Fatalf("%d answers with 2xx, %d others, %v: %v", r.OK, r.Failed, err, r.Errors)
			}
			took := time.Since(began)
			m := a.settle()
			want := map[measured]int{}
			for _, w := range []measured{{service: "proxy"}, {service: "backend"}, {client: "proxy", peer: "backend"}} {
				for class, n := range map[string]int{"2xx": 7, "4xx": 1, "5xx": 2} {
					w.class = class
					w.failed = class == "5xx" || class == "4xx" && w.client != ""
					want[w] = n * requests / 10
				}
			}
			wantMeasured(t, m, want)
			inner := sumOf(m, "tare_service_request_duration_seconds", `service="backend"`)
			edge := sumOf(m, "tare_edge_request_duration_seconds", `client="proxy"`)
			outer := sumOf(m, "tare_service_request_duration_seconds", `service="proxy"`)
			client := took.Seconds() * 16 // 16 connections, one request on each
			if !(0 < inner && inner < edge && edge < outer && outer < client) {
				t.Errorf("seconds in the backend %v, seen by the proxy %v, in the proxy %v, at the client %v", inner, edge, outer, client)
			}
		})
	}
}

// A threaded service and its databases.
func TestDatabasesAreMeasured(t *testing.T) {
	t.Parallel()
	need(t)
	for name, args := range shares {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s := start(t, "shop"), newSink(t)
			a := trace(t, s, nil, append(append([]string{"--metrics", "requests"}, ports(c)...), args...)...)
			const requests, answers, errs = 2000, 50, 7
			send(t, load.Options{Addr: c.Entry, Connections: 16, Requests: requests, AppendPath: c.AppendPath})
			for _, service := range c.Services {
				if service.Name == "redis" {
					askRedis(t, loopback(service.Port), answers, errs)
				}
			}
			m := a.settle()
			const ok = "answered"
			wantMeasured(t, m, map[measured]int{
				{service: "proxy", class: "2xx"}:                                      requests,
				{service: "shop", class: "2xx"}:                                       requests,
				{service: "stock", class: "2xx"}:                                      requests,
				{service: "redis", class: ok, protocol: "redis"}:                      requests + answers,
				{service: "redis", class: "error", protocol: "redis", failed: true}:   errs,
				{service: "memcached", class: ok, protocol: "memcached"}:              requests,
				{client: "proxy", peer: "shop", class: "2xx"}:                         requests,
				{client: "shop", peer: "redis", class: ok, protocol: "redis"}:         requests,
				{client: "shop", peer: "memcached", class: ok, protocol: "memcached"}: requests,
				{client: "shop", peer: "stock", class: "2xx"}:                         requests,
			})
		})
	}
}

// askRedis asks as often for what is answered in 25 bytes, as many as an
// interim response of HTTP has, and for what is answered with an error.
func askRedis(t *testing.T, address string, answers, errs int) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(testkit.Patient(deadline)))
	in := bufio.NewReader(conn)
	ask := func(command, want string) {
		t.Helper()
		if _, err := io.WriteString(conn, command); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(in, got); err != nil || string(got) != want {
			t.Fatalf("redis answers %q, %v", got, err)
		}
	}
	for range answers {
		ask("*2\r\n$4\r\nECHO\r\n$18\r\n123456789012345678\r\n", "$18\r\n123456789012345678\r\n")
	}
	for range errs {
		ask("*1\r\n$4\r\nNOPE\r\n", "-ERR unknown command 'NOPE'")
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}

// Pipelined requests are read at once, and told apart by their responses.
func TestPipelinedAreMeasured(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, append([]string{"--metrics", "requests", "--sampler", "always_off"}, ports(c)...)...)
	const clients, rounds, depth = 4, 50, 5
	var wait sync.WaitGroup
	errs := make([]error, clients)
	for i := range clients {
		wait.Go(func() {
			errs[i] = pipeline(c.Entry, rounds, depth, func(n int) string { return string(c.AppendPath(nil, uint64(n))) })
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	const all = clients * rounds * depth
	wantMeasured(t, a.settle(), map[measured]int{
		{service: "proxy", class: "2xx"}:                 all,
		{service: "backend", class: "2xx"}:               all,
		{client: "proxy", peer: "backend", class: "2xx"}: all,
	})
}

// A response that says "go on" is none, and the rest of a body is no request.
func TestBodiesAreMeasured(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, append([]string{"--metrics", "requests", "--sampler", "always_off"}, ports(c)...)...)
	const large, expecting = 200, 50
	send(t, load.Options{Addr: c.Entry, Connections: 4, Requests: large, BodySize: 1 << 20, AppendPath: c.AppendPath})
	goOn(t, c.Entry, expecting)
	const all = large + expecting
	wantMeasured(t, a.settle(), map[measured]int{
		{service: "proxy", class: "2xx"}:                 all,
		{service: "backend", class: "2xx"}:               all,
		{client: "proxy", peer: "backend", class: "2xx"}: all,
	})
}

// goOn sends requests on one connection whose bodies wait for an interim
// response.
func goOn(t *testing.T, address string, requests int) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(testkit.Patient(20 * time.Second)))
	in := bufio.NewReader(conn)
	for n := range requests {
		if _, err := fmt.Fprintf(conn, "POST /n/%d HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n", n); err != nil {
			t.Fatal(err)
		}
		const interim = "HTTP/1.1 100 Continue\r\n\r\n"
		got := make([]byte, len(interim))
		if _, err := io.ReadFull(in, got); err != nil || string(got) != interim {
			t.Fatalf("%q, %v", got, err)
		}
		if _, err := io.WriteString(conn, "body"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d, %v", resp.StatusCode, err)
		}
		_ = resp.Body.Close()
	}
}

// Where nothing may be read, requests are told from responses all the same.
func TestUnreadAreMeasured(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, append([]string{"--metrics", "requests", "--payload", "off", "--sampler", "always_off"}, ports(c)...)...)
	const requests = 1000
	send(t, load.Options{Addr: c.Entry, Connections: 8, Requests: requests, AppendPath: c.AppendPath})
	want := map[measured]int{}
	for _, w := range []measured{{service: "proxy"}, {service: "backend"}, {client: "proxy", peer: "backend"}} {
		w.class, w.protocol = "answered", "tcp"
		want[w] = requests
	}
	wantMeasured(t, a.settle(), want)
}

// What is encrypted is measured without its status. As with spans, the first
// request of a connection may be taken for a part of the handshake; see TestTLS.
func TestEncryptedAreMeasured(t *testing.T) {
	t.Parallel()
	need(t)
	for _, version := range []string{"TLSv1.2", "TLSv1.3"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			st, s := newStack(t), newSink(t)
			cert, key := certificate(t, st)
			proxy, backend := testkit.FreePort(t), testkit.FreePort(t)
			secure := fmt.Sprintf("ssl_certificate %s; ssl_certificate_key %s; ssl_protocols %s;", cert, key, version)
			st.nginx("backend", "", answer(loopback(backend)), loopback(backend))
			st.nginx("proxy", "", secure+strings.Replace(proxyTo(loopback(proxy), loopback(backend)), "listen "+loopback(proxy), "listen "+loopback(proxy)+" ssl", 1), loopback(proxy))
			a := trace(t, s, nil, "--metrics", "requests", "--sampler", "always_off", "--port", "proxy="+itoa(proxy), "--port", "backend="+itoa(backend))
			const clients, each = 8, 250
			ask(t, "https://"+loopback(proxy), clients, clients*each, true, false)
			m := a.settle()
			got := m.int(measured{service: "proxy", class: "answered", protocol: "tls"}.key("count"))
			if got < clients*(each-1) || got > clients*each {
				t.Errorf("%d of %d encrypted requests measured", got, clients*each)
			}
			wantMeasured(t, m, map[measured]int{
				{service: "proxy", class: "answered", protocol: "tls"}: got,
				{service: "backend", class: "2xx"}:                     clients * each,
				{client: "proxy", peer: "backend", class: "2xx"}:       clients * each,
			})
		})
	}
}

// A connection that is closed without a response, and a peer that is not
// traced. The load opens a connection for each request, as does the proxy.
func TestUnansweredAreMeasured(t *testing.T) {
	t.Parallel()
	need(t)
	st, s := newStack(t), newSink(t)
	proxy, backend := testkit.FreePort(t), testkit.FreePort(t)
	st.nginx("backend", "", fmt.Sprintf(`server { listen %s; location / { return 444; } }`, loopback(backend)), loopback(backend))
	st.nginx("proxy", "", fmt.Sprintf(`server { listen %s; location / { proxy_pass http://%s; } }`, loopback(proxy), loopback(backend)), loopback(proxy))
	a := trace(t, s, nil, "--metrics", "requests", "--sampler", "always_off", "--port", "proxy="+itoa(proxy))
	const requests = 300
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient(time.Minute))
	defer cancel()
	r, err := load.Run(ctx, load.Options{Addr: loopback(proxy), Connections: 8, Requests: requests, Close: true, AppendPath: numbered})
	if err != nil || r.Failed != requests {
		t.Fatalf("%d requests failed, %v", r.Failed, err)
	}
	wantMeasured(t, a.settle(), map[measured]int{
		{service: "proxy", class: "5xx", failed: true}:                                                      requests,
		{client: "proxy", peer: loopback(backend), peerIsNotOurs: true, class: "no_response", failed: true}: requests,
	})
}

// Off is the default, and nothing is published then.
func TestMeasuringIsOff(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, ports(c)...)
	send(t, load.Options{Addr: c.Entry, Connections: 4, Requests: 100, AppendPath: c.AppendPath})
	wantMeasured(t, a.settle(), nil)
}
