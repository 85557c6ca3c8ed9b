package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
)

// goProxyEnv makes the test binary a proxy: "listen,upstream". With redis' port in
// REDIS, it asks redis first.
const goProxyEnv = "TARE_TEST_GO_PROXY"

func goProxy(spec string) {
	listen, upstream, _ := strings.Cut(spec, ",")
	target := &url.URL{Scheme: "http", Host: upstream}
	var handler http.Handler = httputil.NewSingleHostReverseProxy(target)
	if port := os.Getenv("REDIS"); port != "" {
		handler = redisFirst(net.JoinHostPort("127.0.0.1", port), handler)
	}
	srv := &http.Server{Addr: listen, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	_ = srv.ListenAndServe()
	os.Exit(1)
}

// redisFirst asks for the request's number over pooled connections, then goes on.
func redisFirst(addr string, next http.Handler) http.Handler {
	pool := make(chan *bufio.ReadWriter, 64)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c *bufio.ReadWriter
		select {
		case c = <-pool:
		default:
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			c = bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
		}
		key := "n:" + path.Base(r.URL.Path)
		_, _ = fmt.Fprintf(c, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key)
		_ = c.Flush()
		if _, err := c.ReadString('\n'); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		pool <- c
		next.ServeHTTP(w, r)
	})
}

// haproxy in front of nginx: it is linked where requests that wait at the same
// time have different targets.
func TestHAProxy(t *testing.T) {
	t.Parallel()
	need(t, "haproxy", "nginx")
	for _, reuse := range []string{"never", "safe", "always"} {
		t.Run("reuse "+reuse, func(t *testing.T) {
			t.Parallel()
			c, s := newServers(t, "backend"), newSink(t)
			c.answers(c.haproxy("", "http-reuse "+reuse))
			a := trace(t, s, nil, c.ports...)
			const requests = 2000
			send(t, load.Options{Addr: loopback(c.entry), Connections: 32, Requests: requests, AppendPath: numbered})
			m := a.settle()
			spans := s.all()
			r := judge(t, spans, serve("service", "/n/", call("service", "/n/", serve("backend", "/n/"))))
			wantComplete(t, r, m, requests, 0.999)
			wantUnlinked(t, spans, m, requests, m.unlinked())
			wantNoErrors(t, spans)
		})
	}
}

// Requests with one method and target, as of a popular form: of two that wait in
// haproxy at the same time, the second goes on first if the first one's body is
// slow. They cannot be told apart, and a wrong parent is worse than none. Each
// request's length is its number.
func TestHAProxyEqualTargets(t *testing.T) {
	t.Parallel()
	need(t, "haproxy", "nginx")
	c, s := newServers(t, "backend"), newSink(t)
	c.answers(c.haproxy("option http-buffer-request"))
	a := trace(t, s, nil, c.ports...)
	const clients, requests = 32, 2000
	inParallel(t, clients, requests, func(n int) error {
		conn, err := net.Dial("tcp", loopback(c.entry))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetDeadline(time.Now().Add(testkit.Patient(time.Minute))); err != nil {
			return err
		}
		_, err = fmt.Fprintf(conn, "POST /equal HTTP/1.1\r\nHost: service\r\nConnection: close\r\nContent-Length: 4\r\nPadding: %s\r\n\r\n", strings.Repeat("x", n))
		if n%2 == 1 {
			time.Sleep(3 * time.Millisecond)
		}
		if _, body := io.WriteString(conn, "body"); err != nil || body != nil {
			return errors.Join(err, body)
		}
		return asked(http.ReadResponse(bufio.NewReader(conn), nil))
	})
	m := a.settle()
	spans := s.all()
	shortest := math.MaxInt
	for i := range spans {
		if spans[i].Resource.Service == "service" && spans[i].Kind == span.Server {
			shortest = min(shortest, length(&spans[i]))
		}
	}
	wantLengths(t, spans, func(root *span.Span) int { return length(root) - shortest })
	wantUnlinked(t, spans, m, requests, m.unlinked())
	wantNoErrors(t, spans)
}

// A proxy in Go: net/http serves a connection in one goroutine, and asks the
// upstream in another.
func TestGoProxy(t *testing.T) {
	t.Parallel()
	need(t)
	st, s := newStack(t), newSink(t)
	proxy, backend := testkit.FreePort(t), testkit.FreePort(t)
	st.nginx("backend", "", answer(loopback(backend)), loopback(backend))
	p := st.service("proxy", "", []string{goProxyEnv + "=" + loopback(proxy) + "," + loopback(backend)}, os.Args[0])
	st.ready(p, loopback(proxy))
	a := trace(t, s, nil, "--port", "proxy="+itoa(proxy), "--port", "backend="+itoa(backend))
	const requests = 2000
	send(t, load.Options{Addr: loopback(proxy), Connections: 16, Requests: requests, AppendPath: numbered})
	m := a.settle()
	wantComplete(t, judge(t, s.all(), shapeOf(t, "nginx")), m, requests, 0.998)
	if n := m.unlinked(); n > 0 {
		t.Errorf("%d calls are not linked", n)
	}
	wantNoErrors(t, s.all())
}
