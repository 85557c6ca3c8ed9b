package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
)

// An event loop that goes on with a request when something has come that is not TCP's: with
// the answer over a unix socket, its next call is linked to that request; with a name, it
// is not known whose it is, so it is linked to none.
func TestLoopTurnsUnseen(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "dnsmasq", "unshare")
	for name, conf := range map[string]string{
		"unix socket": `
    server {
        listen %[1]s backlog=8192;
        location / {
            auth_request /auth;
            proxy_pass http://%[2]s;
        }
        location = /auth { internal; proxy_pass http://unix:%[3]s:$request_uri; }
    }`,
		"unix socket, kept": `
    upstream auth { server unix:%[3]s; keepalive 64; keepalive_timeout 300ms; }
    upstream next { server %[2]s; keepalive 64; }
    server {
        listen %[1]s backlog=8192;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        location / {
            auth_request /auth;
            proxy_pass http://next;
        }
        location = /auth { internal; proxy_pass http://auth$request_uri; }
    }`,
		"names": `
    resolver %[4]s;
    server {
        listen %[1]s backlog=8192;
        location ~ ^/n/(.*)$ {
            proxy_pass http://n$1.example.test:%[5]d/n/$1;
        }
    }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s := newServers(t, "backend"), newSink(t)
			c.resolver()
			socket := filepath.Join(c.g.Dir, "auth.socket")
			c.nginxUnready("auth", "", fmt.Sprintf(`server { listen unix:%s; location / { return 204; } }`, socket))
			names := strings.TrimPrefix(c.env[len(c.env)-1], "NAMES=")
			c.answers(c.nginxUnready("service", "", fmt.Sprintf(conf, loopback(c.entry), loopback(c.backend), socket, names, c.backend)))
			a := trace(t, s, nil, c.ports...)
			switch name {
			case "unix socket, kept": // the first connection over one asks for the hooks
				send(t, load.Options{Addr: loopback(c.entry), Connections: 1, Requests: 1, AppendPath: numbered})
				testkit.Until(t, 10*time.Second, "the hooks are attached", func() bool { return a.hooksFor("unix") })
				testkit.Until(t, 10*time.Second, "no connection is older than the hooks", func() bool { return connectedTo(t, socket) == 0 })
				a.settle()
			case "names": // so does the first look-up
				if m := a.mustMetrics(); m[`tare_capability{name="lookups"}`] == 1 {
					send(t, load.Options{Addr: loopback(c.entry), Connections: 1, Requests: 1, AppendPath: numbered})
					testkit.Until(t, 10*time.Second, "the hooks are attached", func() bool { return a.hooksFor("lookups") })
					a.settle()
				}
			}
			for _, connections := range []int{1, 64} {
				before, asked, counted := s.count(), few(3000), a.mustMetrics().unlinked()
				send(t, load.Options{Addr: loopback(c.entry), Connections: connections, First: uint64(connections) * 10000, Requests: uint64(asked), AppendPath: numbered})
				m := a.settle()
				spans := s.since(before)
				wantNoErrors(t, spans)
				judge(t, spans, serve("service", "/n/", call("service", "/n/", serve("backend", "/n/"))))
				if name != "names" {
					wantBranches(t, spans, branch{service: "service", kind: span.Server, name: "GET", below: []branch{
						{service: "service", kind: span.Client, name: "GET"},
						{service: "service", kind: span.Client, name: "GET", below: []branch{{service: "backend", kind: span.Server, name: "GET"}}},
					}}, m, asked, 0.98) // beside others, a loop sleeps, or is overtaken: counted
					continue
				}
				wantUnlinked(t, spans, m, asked, m.unlinked()-counted)
				wantLookups(t, spans, m, asked)
			}
		})
	}
}

// connectedTo is how many connections a unix socket has accepted that are open.
func connectedTo(t *testing.T, socket string) (n int) {
	t.Helper()
	list, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		// Num RefCount Protocol Flags Type St Inode Path; proc(5)
		if f := strings.Fields(line); len(f) == 8 && f[5] == "03" && f[7] == socket {
			n++
		}
	}
	return n
}
