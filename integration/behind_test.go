package integration

import (
	"os"
	"testing"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// What a service asks that cannot be linked begins a trace where it is selected,
// and says behind whom it is.
func TestBehindUnlinked(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "redis-server")
	c, s := newServers(t, "backend", "redis"), newSink(t)
	c.answers(c.service("service", "", append(c.env, goProxyEnv+"="+loopback(c.entry)+","+loopback(c.backend)), os.Args[0]))
	a := trace(t, s, nil, append(c.ports, "--linking", "service=none")...)
	const requests = 2000
	send(t, load.Options{Addr: loopback(c.entry), Connections: 16, Requests: requests, AppendPath: numbered})
	m := a.settle()
	spans := s.all()
	judge(t, spans, serve("backend", "/n/"))
	wantUnlinked(t, spans, m, requests, m.unlinked())
	wantNoErrors(t, spans)
	seen, behind, example := map[string]int{}, map[string]int{}, ""
	for i := range spans {
		sp := &spans[i]
		if sp.Kind != span.Server || !sp.Parent.IsZero() {
			t.Fatalf("not a server span of its own trace: %s", describe(sp))
		}
		seen[sp.Resource.Service]++
		if of, ok := sp.Attr(semconv.Behind); ok {
			behind[sp.Resource.Service+" behind "+of.Str]++
		} else if sp.Resource.Service != "service" {
			example = describe(sp)
		}
	}
	t.Logf("%v, %v", seen, behind)
	for _, name := range []string{"backend", "redis"} {
		if seen[name] != requests || behind[name+" behind service"] != requests {
			t.Errorf("%s: %d spans of %d requests, %d say that they are behind the service\n%s", name, seen[name], requests, behind[name+" behind service"], example)
		}
	}
	if behind["service behind service"] > 0 || len(behind) > 2 {
		t.Errorf("%v", behind)
	}
}
