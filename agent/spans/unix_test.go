package spans

import (
	"testing"

	"github.com/tare-trace/tare/bpf"
)

func overUnix(s *bpf.Start) { s.Transport = uint32(bpf.TareTransportTARE_OVER_UNIX) }

// Spans over a unix socket name it, at both ends, and have no ports.
func TestUnixSpans(t *testing.T) {
	for name, c := range map[string]struct{ path, address, url string }{
		"path":     {"/run/a b.sock\x00", "/run/a b.sock", "http+unix://%2Frun%2Fa%20b.sock/n/1"},
		"abstract": {"\x00name\x01", "@name.", "http+unix://@name./n/1"},
		"unknown":  {"", "", "http+unix:///n/1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(Config{Sequence: true})
			for id, role := range map[uint64]bpf.TareRole{2: client, 3: server} {
				f.start(id, role, 1000, "GET /n/1 HTTP/1.1\r\n\r\n", overUnix)
				p := bpf.Path{Type: uint8(bpf.TareRecordTypeTARE_PATH), Len: uint8(len(c.path)), SpanId: id}
				copy(p.Path[:], c.path)
				f.Handle(raw(p))
				f.end(id, bpf.TareEndReasonTARE_END_CLOSED, 0)
				s := f.spans[len(f.spans)-1]
				a := attrs(s)
				want := map[string]string{"network.transport": "unix", "server.address": c.address, "url.path": "/n/1"}
				if role == client {
					want["network.peer.address"], want["url.full"] = c.address, c.url
				} else {
					want["network.peer.address"], want["url.full"] = "", ""
				}
				for _, absent := range []string{"server.port", "network.peer.port", "network.local.port", "tare.tcp.offset"} {
					want[absent] = ""
				}
				for k, v := range want {
					if a[k] != v {
						t.Errorf("%s of role %d is %q, want %q", k, role, a[k], v)
					}
				}
			}
		})
	}
}
