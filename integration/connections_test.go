package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
)

// 1 MB in the request and 1 MB in the response: many segments of one message,
// one trace.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	need(t)
	const size = 1 << 20
	st, s := newStack(t), newSink(t)
	proxy, backend, body := testkit.FreePort(t), testkit.FreePort(t), testkit.FreePort(t)
	big := st.file("www/n/big", strings.Repeat("b", size))
	// The answer is a file from a third nginx, behind the backend: return
	// cannot be that long, and a file is not answered to POST.
	st.nginx("files", "", fmt.Sprintf(`server { listen %s; root %s; location / { rewrite ^ /n/big break; } }`,
		loopback(body), filepath.Dir(filepath.Dir(big))), loopback(body))
	st.nginx("backend", "", fmt.Sprintf(`
    upstream files { server %s; keepalive 16; }
    server {
        listen %s;
        location / {
            proxy_pass http://files;
            proxy_method GET;
            proxy_pass_request_body off;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Content-Length "";
        }
    }`, loopback(body), loopback(backend)), loopback(backend))
	st.nginx("proxy", "", proxyTo(loopback(proxy), loopback(backend)), loopback(proxy))
	a := trace(t, s, nil, "--port", "proxy="+itoa(proxy), "--port", "backend="+itoa(backend))
	requests := few(300)
	send(t, load.Options{
		Addr: loopback(proxy), Connections: 8, Requests: uint64(requests), BodySize: size, AppendPath: numbered,
		Check: func(_ uint64, b []byte) error {
			if len(b) != size || b[0] != 'b' || b[size-1] != 'b' {
				return errors.New("another body")
			}
			return nil
		},
	})
	m := a.settle()
	spans := s.all()
	// The backend asks the third one, which is not traced: one more span.
	shape := serve("proxy", "/n/", call("proxy", "/n/", serve("backend", "/n/", call("backend", "/n/"))))
	wantComplete(t, judge(t, spans, shape), m, requests, 0.999)
	short := 0
	tooShort := func(s *span.Span) {
		if short++; short <= 3 {
			t.Logf("short: %s", describe(s))
		}
	}
	for i := range spans {
		sp := &spans[i]
		sent, _ := sp.Attr("tare.bytes.sent")
		received, _ := sp.Attr("tare.bytes.received")
		client := sp.Kind == span.Client
		switch {
		case sp.Resource.Service == "backend" && client: // asks without a body
			if received.Num < size {
				tooShort(sp)
			}
		case sent.Num < size || received.Num < size:
			tooShort(sp)
		}
	}
	// A message that pauses for half a second is taken as whole, and emulated machines pause.
	most := 0
	if testkit.Slowness > 1 {
		most = len(spans) / 10
	}
	if short > most {
		t.Errorf("%d of %d spans count fewer bytes than passed", short, len(spans))
	}
}

// One connection for every request, at the client and between the services.
func TestWithoutKeepAlive(t *testing.T) {
	t.Parallel()
	need(t)
	st, s := newStack(t), newSink(t)
	proxy, backend := testkit.FreePort(t), testkit.FreePort(t)
	st.nginx("backend", "", answer(loopback(backend)), loopback(backend))
	st.nginx("proxy", "", fmt.Sprintf(`server { listen %s backlog=8192; location / { proxy_pass http://%s; } }`,
		loopback(proxy), loopback(backend)), loopback(proxy))
	a := trace(t, s, nil, "--port", "proxy="+itoa(proxy), "--port", "backend="+itoa(backend))
	requests := few(5000)
	send(t, load.Options{Addr: loopback(proxy), Connections: 32, Requests: uint64(requests), Close: true, AppendPath: numbered})
	m := a.settle()
	wantComplete(t, judge(t, s.all(), shapeOf(t, "nginx")), m, requests, 0.999)
}

// 5,000 connections at once, each with several requests.
func TestFiveThousandConnections(t *testing.T) {
	t.Parallel()
	need(t)
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Cur < 12000 {
		refuse(t, "only %d files may be open", l.Cur)
	}
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, []string{"TARE_QUEUE=65536", "TARE_MAX_SPANS=65536"}, ports(c)...)
	requests := few(15000)
	send(t, load.Options{Addr: c.Entry, Connections: 5000, Requests: uint64(requests), Timeout: 30 * time.Second, AppendPath: c.AppendPath})
	m := a.settle()
	wantComplete(t, judge(t, s.all(), shapeOf(t, "nginx")), m, requests, 0.999)
}

// Five requests in one segment. Their order on the connection is that of their
// answers, but nothing says so to the kernel: what cannot be told apart may be
// missing, never wrong.
func TestPipelining(t *testing.T) {
	t.Parallel()
	need(t)
	for _, chain := range []string{"nginx", "shop"} {
		t.Run(chain, func(t *testing.T) {
			t.Parallel()
			c, s := start(t, chain), newSink(t)
			a := trace(t, s, nil, ports(c)...)
			const clients, depth = 8, 5
			rounds := few(40*clients*depth) / (clients * depth)
			var wait sync.WaitGroup
			errs := make([]error, clients)
			for i := range clients {
				wait.Go(func() {
					errs[i] = pipeline(c.Entry, rounds, depth, func(n int) string {
						return string(c.AppendPath(nil, uint64(i*rounds*depth+n)))
					})
				})
			}
			wait.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
			m := a.settle()
			r := judge(t, s.all(), shapeOf(t, chain))
			if r.Complete < clients*rounds/2 {
				t.Errorf("%d complete traces of %d first requests:\n%v", r.Complete, clients*rounds, m)
			}
		})
	}
}

// pipeline sends depth requests at once, reads as many answers, and again.
func pipeline(address string, rounds, depth int, path func(n int) string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(testkit.Patient(20 * time.Second)))
	in := bufio.NewReader(conn)
	for r := range rounds {
		var out strings.Builder
		for i := range depth {
			fmt.Fprintf(&out, "GET %s HTTP/1.1\r\nHost: test\r\n\r\n", path(r*depth+i))
		}
		if _, err := io.WriteString(conn, out.String()); err != nil {
			return err
		}
		for range depth {
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d, %w", resp.StatusCode, err)
			}
		}
	}
	return nil
}
