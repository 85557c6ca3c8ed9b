package integration

import (
	"strings"
	"testing"

	"github.com/tare-trace/tare/span"
)

// A proxy of TCP that splices: what it receives and sends never lies in its memory. Its requests and responses are told by
// their turns, and have no name; its calls are not linked, and say so; the service behind begins a trace for each.
func TestSplice(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "haproxy")
	for name, v := range map[string]struct {
		options string // of both ends of haproxy
		loads   []drive
	}{
		"both ways": {"mode tcp\n    option splice-request\n    option splice-response", []drive{one, kept, closed}},
		"responses": {"mode tcp\n    option splice-response", []drive{kept}},
	} {
		for _, d := range v.loads {
			t.Run(name+", "+d.name, func(t *testing.T) {
				t.Parallel()
				c, s := newServers(t, "backend"), newSink(t)
				c.answers(c.haproxy(v.options, v.options))
				a := trace(t, s, nil, c.ports...)
				d.requests = few(600)
				answered := d.run(t, loopback(c.entry))
				m := a.settle()
				spans := s.all()
				wantNoErrors(t, spans)
				wantUnlinked(t, spans, m, answered, m.unlinked())
				wantCount(t, spans, "service", span.Server, answered)
				paths := map[string]bool{}
				for _, sp := range spans {
					if path, _ := sp.Attr("url.path"); sp.Resource.Service == "backend" && strings.HasPrefix(path.Str, "/n/") {
						paths[path.Str] = true
					}
				}
				wantCount(t, spans, "backend", span.Server, answered)
				if len(paths) != answered {
					t.Errorf("the backend has spans of %d of %d requests\n%v", len(paths), answered, m)
				}
			})
		}
	}
}
