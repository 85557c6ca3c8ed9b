package spans

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/bpf"
)

// A span has the same attributes whether it is the first of its kind or has its first attributes from one before; and
// spans that differ in any of them share none.
func TestPrefixes(t *testing.T) {
	requests := []struct {
		role     bpf.TareRole
		request  string
		response string
		change   func(*bpf.Start)
	}{
		{server, "GET /a HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n", nil},
		{server, "POST /a HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n", nil},
		{server, "GET /a HTTP/1.0\r\n", "HTTP/1.1 200 OK\r\n", nil},
		{server, "GET /a HTTP/1.1\r\n", "HTTP/1.1 503 Busy\r\n", nil},
		{server, "BREW /a HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n", nil},
		{server, "GET /a HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n", func(s *bpf.Start) { s.LocalPort++ }},
		{server, "GET /a HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n", func(s *bpf.Start) { s.Local[3]++ }},
		{server, "GET /a HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n", func(s *bpf.Start) { s.Remote[3]++ }},
		{server, "GET /a HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n", func(s *bpf.Start) { s.RemotePort++ }},
		{server, "GET /a HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n", func(s *bpf.Start) { s.Family = 10 }},
		{client, "GET /a HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n", nil},
		{client, "GET /a HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n", func(s *bpf.Start) { s.RemotePort++ }},
		{client, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n", nil},
	}
	f := newFixture(Config{})
	for round := range 4 {
		for i, q := range requests {
			f.start(uint64(i+1), q.role, 1000, q.request, q.change)
			f.data(uint64(i+1), map[bpf.TareRole]bpf.TareDirection{server: sent, client: received}[q.role], 2000, q.response)
			f.end(uint64(i+1), next, 0)
			require.Len(t, f.spans, len(requests)*round+i+1)
			first, now := f.spans[i], f.spans[len(f.spans)-1]
			assert.Equal(t, first.Attrs, now.Attrs, "request %d, round %d", i, round)
			assert.Len(t, attrs(now), len(now.Attrs), "an attribute stands twice: %v", now.Attrs)
			for j, other := range f.spans[:i] {
				assert.NotEqual(t, attrs(other), attrs(first), "requests %d and %d", i, j)
			}
		}
	}
	with := map[string]bool{}
	for _, s := range f.spans[2*len(requests):] {
		if s.Prefix != nil {
			with[fmt.Sprint(s.Prefix.Attrs)] = true
		}
	}
	assert.Greater(t, len(with), len(requests)/2, "first attributes that were kept")
}

// What is taken as it stands is what the whole rules make of it.
func FuzzPlainTarget(f *testing.F) {
	for _, line := range []string{"/ HTTP/1.1\r\n", "/a?b HTTP/1.1\r\n", "http://host/ HTTP/1.0\r\n", "/a b HTTP/1.1\r\n", "/\x7f HTTP/1.1\r\n", "/ HTTP/1.1\n", "/ HTTP/1.1\r"} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		target, digit := plainTarget(line)
		if target == nil {
			return
		}
		whole, _, ends := bytes.Cut(line, crlf)
		path, version, _ := bytes.Cut(whole, []byte(" "))
		if !ends || string(path) != string(target) || httpPath(path, nil) != string(target) || string(version) != "HTTP/1."+string(digit) {
			t.Errorf("%q: %q and %c, want %q and %q", line, target, digit, httpPath(path, nil), version)
		}
	})
}
