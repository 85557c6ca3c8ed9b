package integration

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

}

var unixServices = []behind{
	{name: "gunicorn sync", needs: []string{"gunicorn"}, start: unixGunicorn("-k", "sync", "-w", "8")},
	{name: "gunicorn gthread, kept", needs: []string{"gunicorn"}, keeps: true,
		start: unixGunicorn("-k", "gthread", "-w", "2", "--threads", "40", "--keep-alive", "60")},
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
	var env strings.Builder
	for _, e := range c.env {
		fmt.Fprintf(&env, "env[%s\n", strings.Replace(e, "=", "] = ", 1))
	}
	c.ports = append(c.ports, "--exe", "service=*/"+filepath.Base(program("php-fpm*")))
	return c.service("service", "", nil, filepath.Base(program("php-fpm*")), "-F", "-n", "-y", c.file("php-fpm.conf", fmt.Sprintf(`
[global]
pid = %[1]s/php-fpm.pid
error_log = %[1]s/php-fpm.log
daemonize = no
[www]
user = nobody
group = nogroup
listen = %[2]s
listen.mode = 0666
listen.backlog = 4096
pm = static
pm.max_children = 80
%[3]s`, c.g.Dir, socket, env.String())))
}

// start runs the service and nginx before it; it returns nginx's address.
func (b behind) run(c *servers) (addr string) {
	c.t.Helper()
	socket, proxy := filepath.Join(c.g.Dir, "service.socket"), freePort(c.t)
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
    }`, socket, map[bool]string{true: "keepalive 64;"}[b.keeps], loopback(proxy), pass), loopback(proxy))
	until(c.t, time.Minute, "the service answers", func() bool {
		return asked(noProxy.Get("http://"+loopback(proxy)+"/n/0")) == nil
	})
	return loopback(proxy)
}

// shape is that of a trace, from nginx to the backend.
func (b behind) shape() fidelity.Shape {
	return serve("proxy", "/n/", call("proxy", "/n/", serve("service", "/n/", call("service", "/n/", serve("backend", "/n/")))))
}

// From nginx over a unix socket to a service, and from there over TCP: each hop has the
// number of its request.
func TestUnix(t *testing.T) {
	need(t, "nginx")
	for _, b := range unixServices {
		t.Run(b.name, func(t *testing.T) {
			need(t, b.needs...)
			for _, rate := range []float64{1, 0.1} {
				t.Run(fmt.Sprint(rate), func(t *testing.T) {
					c, s := newServers(t, "backend"), newSink(t)
					addr := b.run(c)
					a := trace(t, s, []string{fmt.Sprint("OTEL_TRACES_SAMPLER_ARG=", rate)}, c.ports...)
					drive := func(connections, requests int) {
						send(t, load.Options{Addr: addr, Connections: connections, Requests: uint64(requests), AppendPath: numbered})
					}
					a.proven(t, func() { drive(8, 200) })
					for _, connections := range []int{1, 64} {
						before, roots := s.count(), a.mustMetrics().sampled()
						requests := few(1500)
						drive(connections, requests)
						m := a.settle()
						spans := s.since(before)
						sampled := m.sampled() - roots
						r := judge(t, spans, b.shape())
						wantComplete(t, r, m, sampled, 0.999)
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
