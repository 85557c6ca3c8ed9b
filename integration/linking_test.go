package integration

import (
	"testing"

	"github.com/tare-trace/tare/lab/load"
)

// What is said of all services fills in where the runtime is not recognised:
// nginx stays an event loop under --linking thread. What is said of one service
// wins over what is recognised.
func TestLinkingOfAllFillsIn(t *testing.T) {
	need(t)
	const requests = 4000
	c, s := start(t, "nginx"), newSink(t)
	drive := func(args ...string) (from int, m metrics) {
		t.Helper()
		from = s.count()
		a := trace(t, s, nil, append(ports(c), args...)...)
		send(t, load.Options{Addr: c.Entry, Connections: 32, Requests: requests, AppendPath: c.AppendPath})
		m = a.settle()
		a.stop()
		return from, m
	}
	from, m := drive("--linking", "thread")
	wantComplete(t, judge(t, s.since(from), shapeOf(t, "nginx")), m, requests, 0.999)

	from, m = drive("--linking", "thread", "--linking", "proxy=none")
	for _, sp := range s.since(from) {
		if linking, _ := sp.Attr("tare.linking"); sp.Resource.Service == "proxy" && linking.Str != "none" {
			t.Fatalf("linked, though a rule says none: %s", describe(&sp))
		}
	}
	if m[`tare_unlinked_total{reason="runtime"}`] == 0 {
		t.Errorf("no unlinked message counted:\n%v", m)
	}
}
