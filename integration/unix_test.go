package integration

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/fidelity"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

// behind is a service that nginx asks over a unix socket, and that asks the backend over TCP.
type behind struct {
	name  string
	needs []string
	start func(c *servers, socket string) *workloads.Process
	pass  string // nginx's directives: %s is the upstream
	keeps bool   // of connections, by nginx

	idle string // how long nginx keeps them; by default those from before the agent are gone when it traces
}

var unixServices = []behind{
	{name: "gunicorn sync", needs: []string{"gunicorn"}, start: unixGunicorn("-k", "sync", "-w", "8")},
	{name: "gunicorn gthread, kept", needs: []string{"gunicorn"}, keeps: true,
		start: unixGunicorn("-k", "gthread", "-w", "2", "--threads", "40", "--keep-alive", "600")},
	{name: "php-fpm", needs: []string{"php-fpm*"}, start: unixFPM, pass: fastCGI},
	{name: "php-fpm, kept", needs: []string{"php-fpm*"}, start: unixFPM, pass: fastCGI + "fastcgi_keep_conn on;", keeps: true},
}

const fastCGI = `fastcgi_pass %[1]s;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param SCRIPT_FILENAME ` + "%[2]s;\n"

func unixGunicorn(args ...string) func(*servers, string) *workloads.Process {
	return func(c *servers, socket string) *workloads.Process {
		return gunicorn(append([]string{"-b", "unix:" + socket}, args...)...)(c)
	}
}

func unixFPM(c *servers, socket string) *workloads.Process {
	own := filepath.Join(c.g.Dir, filepath.Base(program("php-fpm*"))) // no other test runs it
	sh(c.t, "cp", program("php-fpm*"), own)
	c.ports = append(c.ports, "--exe", "service="+own)
	return fpm(c, own, socket)
}

// start runs the service and nginx before it; it returns nginx's address.
func (b behind) run(c *servers) (addr string) {
	c.t.Helper()
	socket, proxy := filepath.Join(c.g.Dir, "service.socket"), testkit.FreePort(c.t)
	c.selects("proxy", proxy)
	b.start(c, socket)
	pass := cmp.Or(b.pass, "proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_pass http://%[1]s;")
	if strings.Contains(pass, "%[2]s") {
		pass = fmt.Sprintf(pass, "service", testdata("app.php"))
	} else {
		pass = fmt.Sprintf(pass, "service")
	}
	c.nginx("proxy", "", fmt.Sprintf(`
    upstream service { server unix:%s; %s }
    server {
        listen %s backlog=8192;
        location / { %s }
    }`, socket, map[bool]string{true: "keepalive 64; keepalive_timeout " + cmp.Or(b.idle, "300ms") + ";"}[b.keeps], loopback(proxy), pass), loopback(proxy))
	testkit.Until(c.t, time.Minute, "the service answers", func() bool {
		return asked(noProxy.Get("http://"+loopback(proxy)+"/n/0")) == nil
	})
	return loopback(proxy)
}

// shape is that of a trace, from nginx to the backend.
func (b behind) shape() fidelity.Shape {
	return serve("proxy", "/n/", call("proxy", "/n/", serve("service", "/n/", call("service", "/n/", serve("backend", "/n/")))))
}

// branches is the same by names.
func (b behind) branches() branch {
	return branch{service: "proxy", kind: span.Server, name: "GET", below: []branch{{service: "proxy", kind: span.Client, name: "GET", below: []branch{
		{service: "service", kind: span.Server, name: "fastcgi", below: []branch{
			{service: "service", kind: span.Client, name: "GET", below: []branch{{service: "backend", kind: span.Server, name: "GET"}}},
		}}}}}}
}

// From nginx over a unix socket to a service, and from there over TCP: each hop has the
// number of its request.
func TestUnix(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	for _, b := range unixServices {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			need(t, b.needs...)
			c, s := newServers(t, "backend"), newSink(t)
			addr := b.run(c)
			a := traceWith(t, ratioSampler, 1, s, nil, c.ports...)
			drive := func(connections, requests int) {
				send(t, load.Options{Addr: addr, Connections: connections, Requests: uint64(requests), AppendPath: numbered})
			}
			for _, rate := range []float64{1, 0.1} {
				t.Run(fmt.Sprint(rate), func(t *testing.T) {
					a.sample(t, ratioSampler, rate)
					a.proven(t, func() { drive(8, 200) })
					for _, connections := range []int{1, 64} {
						began := a.mustMetrics()
						before, roots := s.count(), began.sampled()
						requests := few(1500)
						if rate < 1 && b.pass != "" {
							requests = few(4500) // one receive that comes too early is 1% of 100 that are sampled
						}
						drive(connections, requests)
						m := a.settle()
						spans := s.since(before)
						sampled := m.sampled() - roots
						// On a busy machine more receives come before their tags, and the kernel refuses memory: each is counted.
						share := max(0.9, 0.98-float64(m.lostAll()-began.lostAll())/float64(sampled))
						if b.pass != "" { // FastCGI says no path in its first bytes
							judge(t, spans, shapeOf(t, "nginx"))
							wantBranches(t, spans, b.branches(), m, sampled, share)
						} else {
							wantComplete(t, judge(t, spans, b.shape()), m, sampled, share)
						}
						wantRate(t, sampled, requests, rate)
						wantNoErrors(t, spans)
						wantUnixSpans(t, spans)
					}
				})
			}
		})
	}
}

// wantUnixSpans requires that spans over a unix socket say so.
func wantUnixSpans(t *testing.T, spans []span.Span) {
	t.Helper()
	for i := range spans {
		sp := &spans[i]
		over := sp.Resource.Service == "proxy" && sp.Kind == span.Client || sp.Resource.Service == "service" && sp.Kind == span.Server
		transport, _ := sp.Attr("network.transport")
		address, _ := sp.Attr("server.address")
		_, port := sp.Attr("server.port")
		if is := transport.Str == "unix"; is != over || over && (!strings.HasSuffix(address.Str, "/service.socket") || port) {
			t.Fatalf("the transport of this span is %q, its address %q: %s", transport.Str, address.Str, describe(sp))
		}
	}
}

// A service asks redis over a unix socket, and another over TCP: both calls are below its request.
func TestUnixCalls(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "redis-server", "gunicorn")
	c, s := newServers(t, "backend"), newSink(t)
	socket, port := filepath.Join(c.g.Dir, "redis.socket"), testkit.FreePort(t)
	c.selects("redis", port)
	c.env = append(c.env, "REDIS="+socket)
	c.ready(c.service("redis", "", nil, "redis-server", "--port", itoa(port), "--bind", "127.0.0.1", "--unixsocket", socket, "--unixsocketperm", "777",
		"--save", "", "--appendonly", "no", "--dir", c.g.Dir), loopback(port))
	a := trace(t, s, nil, c.ports...) // connections are kept, and are to be younger than the agent
	p := gunicorn("-k", "gthread", "-w", "2", "--threads", "8", "--keep-alive", "60")(c)
	testkit.Until(t, time.Minute, "the service is traced", func() bool { return a.mustMetrics()["tare_services"] == 3 })
	c.answers(p)
	drive := func(connections, requests int) {
		send(t, load.Options{Addr: loopback(c.entry), Connections: connections, Requests: uint64(requests), AppendPath: numbered})
	}
	testkit.Until(t, time.Minute, "calls over unix sockets have spans", func() bool {
		before := s.count()
		drive(8, 200)
		a.settle()
		return strings.Contains(fmt.Sprint(s.since(before)), "redis.socket")
	})
	a.proven(t, func() { drive(8, 200) })
	for _, connections := range []int{1, 64} {
		before, requests := s.count(), few(1500)
		drive(connections, requests)
		m := a.settle()
		wantComplete(t, judge(t, s.since(before), serve("service", "/n/",
			call("service", "/n/", serve("backend", "/n/")), call("service", "GET n:", serve("redis", "GET n:")))), m, requests, 0.98)
		wantNoErrors(t, s.since(before))
	}
}

// Clients leave, workers are killed and the agent begins anew, all under load: no trace
// holds two requests, no request stays in flight, and connections that are older than the
// agent are counted and not guessed at.
func TestUnixChurn(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "gunicorn")
	for _, b := range unixServices[:2] {
		b.idle = "600s" // some connections are older than the second agent
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c, s := newServers(t, "backend"), newSink(t)
			addr := b.run(c)
			a := trace(t, s, nil, c.ports...)
			drive := func(first, requests uint64) {
				if _, err := load.Run(t.Context(), load.Options{Addr: addr, Connections: 32, First: first, Requests: requests, Timeout: testkit.Patient(10 * time.Second), AppendPath: numbered}); err != nil {
					t.Fatal(err)
				}
			}
			a.proven(t, func() { drive(1, 200) })
			stop := leaving.leave(t, addr)
			leave := abort(t, addr)
			for round := range uint64(3) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					drive(1000+1000*round, 600)
				}()
				killWorker(t, c.g.Dir)
				<-done
			}
			leave()
			stop()
			drive(5000, 200) // nginx closes the connections of clients that leave, and keeps these
			a.settle()       // nothing is in flight
			judge(t, s.all(), b.shape())
			a.Stop()
			a = trace(t, s, nil, c.ports...)
			a.proven(t, func() { drive(10000, 200) })
			before := s.count()
			drive(20000, 600)
			m := a.settle()
			judge(t, s.since(before), b.shape())
			if b.keeps && m.int(`tare_connections_total{state="unix_unknown"}`) == 0 {
				t.Errorf("no connection is older than the agent\n%v", m)
			}
		})
	}
}

// abort has clients send whole requests and leave without the answer.
func abort(t *testing.T, addr string) (stop func()) {
	t.Helper()
	var wait sync.WaitGroup
	done := make(chan struct{})
	for i := range 4 {
		wait.Go(func() {
			for n := 100000 * (i + 1); ; n++ {
				select {
				case <-done:
					return
				default:
				}
				if conn, err := net.Dial("tcp", addr); err == nil {
					_, _ = fmt.Fprintf(conn, "GET /n/%d HTTP/1.1\r\nHost: a\r\n\r\n", n)
					_ = conn.Close()
				}
				time.Sleep(2 * time.Millisecond) // others are to be served, too
			}
		})
	}
	return func() {
		close(done)
		wait.Wait()
	}
}

// killWorker ends a worker of the gunicorn that runs in this test.
func killWorker(t *testing.T, dir string) {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(entries) {
		line, _ := os.ReadFile(e) // it may be gone
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(e))); err == nil && bytes.Contains(line, []byte("unix:"+dir+"/")) {
			status, _ := os.ReadFile(filepath.Join(filepath.Dir(e), "status"))
			if !bytes.Contains(status, []byte("\nPPid:\t"+itoa(os.Getpid())+"\n")) { // not the master
				if err := syscall.Kill(pid, syscall.SIGKILL); err == nil {
					return
				}
			}
		}
	}
	t.Error("there is no worker to kill")
}
