package integration

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
)

// Connections over MPTCP are counted, with the name of their service in the log, and no peer waits for their tags.
// What the same service is asked over TCP is traced.
func TestMPTCP(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "python3")
	if enabled, err := os.ReadFile("/proc/sys/net/mptcp/enabled"); err != nil || strings.TrimSpace(string(enabled)) != "1" {
		t.Skip("needs MPTCP: sysctl net.mptcp.enabled=1")
	}
	c, s := newServers(t, "backend"), newSink(t)
	c.env = append(c.env, "MPTCP=1")
	c.ready(python("threads")(c), loopback(c.entry))
	a := trace(t, s, nil, c.ports...)

	for _, over := range []struct {
		name    string
		mptcp   bool
		entries int // spans of the service, for each request
		counted int // connections over MPTCP, of each client: it keeps one, for which the service opens another
	}{{"mptcp", true, 0, 2}, {"tcp", false, 1, 1}} {
		t.Run(over.name, func(t *testing.T) {
			dialer := net.Dialer{Timeout: testkit.Patient(time.Minute)}
			dialer.SetMultipathTCP(over.mptcp)
			const clients, each = 4, 50
			before, counted := s.count(), a.mustMetrics().int(`tare_connections_total{state="mptcp"}`)
			inParallel(t, clients, clients, func(client int) error {
				h := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 1}, Timeout: testkit.Patient(time.Minute)}
				defer h.CloseIdleConnections()
				for n := range each {
					if err := asked(h.Get("http://" + loopback(c.entry) + "/n/" + itoa(client*each+n))); err != nil {
						return err
					}
				}
				return nil
			})
			m := a.settle()
			spans := map[string]int{}
			for _, sp := range s.since(before) {
				spans[sp.Resource.Service]++
			}
			if spans["service"] != over.entries*clients*each || spans["backend"] != clients*each {
				t.Errorf("of %d requests, spans by service: %v", clients*each, spans)
			}
			if got, want := m.int(`tare_connections_total{state="mptcp"}`)-counted, over.counted*clients; got != want {
				t.Errorf("%d connections over MPTCP are counted, want %d", got, want)
			}
		})
	}
	if n := strings.Count(a.Log.String(), "over MPTCP"); n != 1 || !strings.Contains(a.Log.String(), "service=service") {
		t.Errorf("it is logged %d times:\n%s", n, a.Log.String())
	}
}
