package browser

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHosts(t *testing.T) {
	names := []string{"tare.example.org"}
	for host, want := range map[string]bool{
		"localhost": true, "localhost:4680": true, "LOCALHOST.:1": true, "tare.localhost:4680": true,
		"127.0.0.1:4680": true, "127.9.9.9": true, "[::1]:4680": true, "[::1]": true, "[::ffff:127.0.0.1]:1": true,
		"tare.example.org": true, "Tare.Example.ORG:443": true,
		"": false, ":4680": false, "evil.example": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false,
		"192.168.1.5:4680": false, "0.0.0.0:4680": false, "[::]:4680": false, "10.0.0.1": false, "example.org": false,
		"2130706433": false, "[fe80::1]": false, "[::1%lo]": false, "::1%.evil.example": false,
	} {
		assert.Equal(t, want, Loopback(host, names), "%q: allowed", host)
	}
}

func FuzzHosts(f *testing.F) {
	for _, s := range []string{"localhost:1", "[::1]:2", "[", "evil.example", "127.0.0.1", "::1%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		// What stands before a foreign name does not make it one of ours.
		assert.False(t, Loopback(host+".evil.example", nil), "%q passes", host)
	})
}
