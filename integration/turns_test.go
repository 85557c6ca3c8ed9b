package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// What sees what event loops receive beside TCP is detached where none has a socket for that.
// The first look-up of a name has it attached again, and nothing that is sent until then is
// linked wrongly.
func TestLoopBeginsToTurn(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "dnsmasq", "unshare")
	c, s := newServers(t, "backend"), newSink(t)
	c.resolver()
	names := strings.TrimPrefix(c.env[len(c.env)-1], "NAMES=")
	c.answers(c.nginxUnready("service", "", fmt.Sprintf(`
    resolver %[2]s;
    server {
        listen %[1]s backlog=8192;
        location ~ ^/n/(.*)$ {
            proxy_pass http://n$1.example.test:%[3]d/n/$1;
        }
        location = /n/0 { return 200; } # until it answers
    }`, loopback(c.entry), names, c.backend)))
	a := trace(t, s, nil, c.ports...)
	if a.mustMetrics()[`tare_capability{name="lookups"}`] != 1 || a.mustMetrics()[`tare_capability{name="unix"}`] != 1 {
		t.Skip("the kernel side does not tell of loops that begin to use other sockets")
	}
	testkit.Until(t, 30*time.Second, "the hooks are detached", func() bool { return !a.hooksFor("loops") })
	before, asked := s.count(), few(3000)
	send(t, load.Options{Addr: loopback(c.entry), Connections: 64, First: 10000, Requests: uint64(asked), AppendPath: numbered})
	testkit.Until(t, 10*time.Second, "the hooks are attached", func() bool { return a.hooksFor("loops") })
	m := a.settle()
	spans := s.since(before)
	wantNoErrors(t, spans)
	judge(t, spans, serve("service", "/n/", call("service", "/n/", serve("backend", "/n/"))))
	wantUnlinked(t, spans, m, asked, m.unlinked())
}
