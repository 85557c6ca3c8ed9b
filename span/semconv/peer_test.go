package semconv_test

import (
	"testing"

	"github.com/tare-trace/tare/span/semconv"
)

func TestPeer(t *testing.T) {
	for _, c := range []struct {
		want       string
		producer   bool
		attributes []string
	}{
		{"", false, []string{"url.path", "/"}},
		{"rate-db", false, []string{"peer.service", "rate-db", "db.system.name", "redis", "server.address", "h"}},
		{"redis h:6379", false, []string{"db.system", "redis", "server.address", "h", "server.port", "6379"}},
		{"redis", false, []string{"db.system.name", "redis", "server.port", "6379"}},
		{"[::1]:80", false, []string{"server.address", "::1", "server.port", "80"}},
		{"h", false, []string{"server.address", "h", "messaging.destination.name", "orders"}},
		{"orders", true, []string{"server.address", "h", "messaging.destination.name", "orders"}},
		{"orders", false, []string{"messaging.destination.name", "orders"}},
	} {
		var p semconv.Peer
		for i := 0; i < len(c.attributes); i += 2 {
			if f := p.Field(c.attributes[i]); f != nil {
				*f = c.attributes[i+1]
			}
		}
		if got := p.Name(c.producer); got != c.want {
			t.Errorf("%q: %q, want %q", c.attributes, got, c.want)
		}
	}
}
