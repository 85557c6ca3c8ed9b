package integration

import (
	"fmt"
	"testing"

	"github.com/tare-trace/tare/internal/testkit"
)

// A proxy may say whose connection it passes on before the first request, by HAProxy's PROXY protocol: as a line, or in
// bytes. The request begins behind it, at both ends, whether both are sent together or apart.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "haproxy")
	for _, version := range []string{"send-proxy", "send-proxy-v2"} {
		for _, d := range []drive{kept, closed} {
			t.Run(version+", "+d.name, func(t *testing.T) {
				t.Parallel()
				c, s := newServers(t, "backend"), newSink(t)
				behind, port := c.backend, testkit.FreePort(t)
				c.selects("proxied", port)
				c.backend = port
				c.nginx("proxied", "", fmt.Sprintf("server { listen %s proxy_protocol; location / { proxy_pass http://%s; } }", loopback(port), loopback(behind)), loopback(port))
				c.answers(c.haproxy("", "", version))
				a := trace(t, s, nil, c.ports...)
				answered := d.run(t, loopback(c.entry))
				m := a.settle()
				chain := serve("service", "/n/", call("service", "/n/", serve("proxied", "/n/", call("proxied", "/n/", serve("backend", "/n/")))))
				wantComplete(t, judge(t, s.all(), chain), m, answered, 1)
				wantNoErrors(t, s.all())
			})
		}
	}
}
