package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

// An answer of 25 bytes has the length of "100 Continue", and is none.
func TestShortAnswers(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "python3")
	for _, size := range []int{24, 25, 26} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			t.Parallel()
			c, s := newServers(t), newSink(t)
			c.env = append(c.env, "SIZE="+itoa(size))
			proxy := testkit.FreePort(t)
			c.selects("proxy", proxy)
			c.answers(python("short")(c))
			c.nginx("proxy", "", proxyTo(loopback(proxy), loopback(c.entry)), loopback(proxy))
			a := trace(t, s, nil, c.ports...)
			const requests = 2000
			t.Run("at the entry", func(t *testing.T) {
				send(t, load.Options{Addr: loopback(c.entry), Connections: 8, Requests: requests, AppendPath: numbered})
				m := a.settle()
				wantComplete(t, judge(t, s.all(), serve("service", "/n/")), m, requests, accounted)
				wantNoErrors(t, s.all())
			})
			t.Run("behind nginx", func(t *testing.T) {
				before := s.count()
				send(t, load.Options{Addr: loopback(proxy), Connections: 8, Requests: requests, AppendPath: numbered})
				m := a.settle()
				spans := s.since(before)
				wantComplete(t, judge(t, spans, serve("proxy", "/n/", call("proxy", "/n/", serve("service", "/n/")))), m, requests, 0.999)
				wantNoErrors(t, spans)
			})
		})
	}
}

// php-fpm reads the rest of a request after it has answered.
func TestFastCGI(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "redis-server", "php-fpm*")
	for _, keep := range []string{"off", "on"} {
		t.Run("fastcgi_keep_conn "+keep, func(t *testing.T) {
			t.Parallel()
			c, s := newServers(t, "backend", "redis"), newSink(t)
			proxy := testkit.FreePort(t)
			c.selects("proxy", proxy)
			phpFPM(c)
			c.nginx("proxy", "", fmt.Sprintf(`
    upstream php { server %s; %s }
    server {
        listen %s backlog=8192;
        location / {
            fastcgi_pass php;
            fastcgi_keep_conn %s;
            fastcgi_param SCRIPT_FILENAME %s;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param CONTENT_LENGTH $content_length;
        }
    }`, loopback(c.entry), map[string]string{"on": "keepalive 8;"}[keep], loopback(proxy), keep, testdata("app.php")), loopback(proxy))
			a := trace(t, s, nil, c.ports...)
			const requests = 1000
			a.proven(t, func() {
				send(t, load.Options{Addr: loopback(proxy), Connections: 8, Requests: 200, AppendPath: numbered})
			})
			s.take()
			// Each kept connection holds one of php-fpm's 40 workers.
			send(t, load.Options{Addr: loopback(proxy), Connections: 8, Requests: requests, AppendPath: numbered})
			m := a.settle()
			want := branch{service: "proxy", kind: span.Server, name: "GET", below: []branch{{service: "proxy", kind: span.Client, name: "GET", below: []branch{
				{service: "service", kind: span.Server, name: "fastcgi", below: []branch{
					{service: "service", kind: span.Client, name: "GET", below: []branch{{service: "backend", kind: span.Server, name: "GET"}}},
					{service: "service", kind: span.Client, name: "GET", below: []branch{{service: "redis", kind: span.Server, name: "GET"}}},
				}}}}}}
			judge(t, s.all(), shapeOf(t, "nginx")) // for "none is wrong"
			wantBranches(t, s.all(), want, m, requests, 0.999)
			wantNoErrors(t, s.all())
		})
	}
}

func phpFPM(c *servers) *workloads.Process {
	p := fpm(c, program("php-fpm*"), loopback(c.entry))
	c.ready(p, loopback(c.entry))
	return p
}

// fpm is PHP-FPM, which listens on an address or a path.
func fpm(c *servers, program, listen string) *workloads.Process {
	var env strings.Builder
	for _, e := range c.env {
		fmt.Fprintf(&env, "env[%s\n", strings.Replace(e, "=", "] = ", 1))
	}
	conf := c.file("php-fpm.conf", fmt.Sprintf(`
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
%[3]s`, c.g.Dir, listen, env.String()))
	return c.service("service", "", nil, program, "-F", "-n", "-y", conf)
}

// A request counts although its bytes cannot be read where it is received.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	c, s := newServers(t), newSink(t)
	c.ready(python("unmapping")(c), loopback(c.entry))
	a := trace(t, s, nil, c.ports...)
	requests := few(4000)
	send(t, load.Options{Addr: loopback(c.entry), Connections: 2, Requests: uint64(requests), AppendPath: numbered}) //nolint:gosec // a few thousand
	m := a.settle()
	spans, unread := s.all(), 0
	for i := range spans {
		if path, _ := spans[i].Attr("url.path"); path.Str == "" {
			unread++
		}
	}
	t.Logf("%d of %d spans have no path", unread, len(spans))
	if len(spans) != requests {
		t.Errorf("%d requests have %d spans\n%v", requests, len(spans), m)
	}
}
