package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// received is what a client got: how many bytes, and when.
type received struct {
	path     string
	last     time.Time // the end of it
	bytes    int
	messages time.Time // another protocol: when the first message of it was sent
}

// stream asks for a path, and reads the answer part by part.
func stream(addr, path string) (r received, err error) {
	r.path = path
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetDeadline(time.Now().Add(testkit.Patient(time.Minute))); err != nil {
		return r, err
	}
	switches := strings.HasPrefix(path, "/switch/")
	header := ""
	if switches {
		header = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: stream\r\n%s\r\n", path, header); err != nil {
		return r, err
	}
	var got []byte
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		got = append(got, buf[:n]...)
		r.last = time.Now()
		r.bytes += n
		if switches && bytes.HasSuffix(got, []byte("\r\n\r\n")) {
			break
		}
		if bytes.HasSuffix(got, []byte("\r\n0\r\n\r\n")) || err == nil && strings.Contains(path, "/length/") && bytes.Contains(got, []byte("part 4\n\n")) {
			return r, nil
		}
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return r, err
		}
	}
	time.Sleep(time.Second)
	r.messages = time.Now()
	for range 5 {
		if _, err := c.Write([]byte{'.'}); err != nil {
			return r, err
		}
		if _, err := io.ReadFull(c, buf[:7]); err != nil {
			return r, err
		}
	}
	return r, nil
}

// A span ends with the last byte of its response as its framing tells, whatever pauses there
// are; and with the head of a response after which the connection is used for another protocol.
func TestStreamedResponses(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "python3")
	c, s := newServers(t), newSink(t)
	proxy := testkit.FreePort(t)
	c.selects("proxy", proxy)
	c.ready(c.service("service", "", c.env, "/usr/bin/python3", testdata("stream.py"), itoa(c.entry)), loopback(c.entry))
	c.nginx("proxy", "", fmt.Sprintf(`
    upstream next { server %s; keepalive 64; }
    map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
    server {
        listen %s;
        location / {
            proxy_pass http://next;
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
        }
    }`, loopback(c.entry), loopback(proxy)), loopback(proxy))
	a := trace(t, s, nil, c.ports...)

	var wg sync.WaitGroup
	var mu sync.Mutex
	all := map[string]received{}
	for _, by := range []struct {
		name string
		port int
	}{{"direct", c.entry}, {"proxied", proxy}} {
		for _, way := range []string{"chunks", "one-write", "length", "until", "switch"} {
			for i := range 4 {
				wg.Go(func() {
					r, err := stream(loopback(by.port), fmt.Sprintf("/%s/%s-%d", way, by.name, i))
					if err != nil {
						t.Errorf("%s: %v", r.path, err)
					}
					mu.Lock()
					all[r.path] = r
					mu.Unlock()
				})
			}
		}
	}
	wg.Wait()
	m := a.settle()
	if n := m.lostAll(); n > 0 {
		t.Errorf("%d losses are counted\n%v", n, m)
	}
	seen := map[string]int{}
	for _, sp := range s.all() {
		path, _ := sp.Attr("url.path")
		r, ok := all[path.Text()]
		if !ok {
			continue // a probe of the test's
		}
		seen[r.path]++
		if sp.Status == span.Error {
			t.Errorf("an error: %s", describe(&sp))
		}
		if _, unfinished := sp.Attr(semconv.Unfinished); unfinished {
			t.Errorf("unfinished: %s", describe(&sp))
		}
		const (
			slack  = 100 * time.Millisecond     // of the clocks
			pauses = 5 * 700 * time.Millisecond // between the request and the last part, at least: stream.py
		)
		end := time.Unix(0, int64(sp.End))
		status, _ := sp.Attr("http.response.status_code")
		switch {
		case !r.messages.IsZero():
			if end.After(r.messages) || status.Text() != "101" {
				t.Errorf("status %s, and it ends %v after the first message: %s", status.Text(), end.Sub(r.messages), describe(&sp))
			}
		case time.Duration(sp.Duration()) < pauses || end.After(r.last.Add(slack)):
			t.Errorf("it lasts %v, and ends %v before the client has all: %s", time.Duration(sp.Duration()), r.last.Sub(end), describe(&sp))
		}
		asked := strings.Contains(r.path, "direct") || sp.Resource.Service == "proxy" && sp.Kind == span.Server
		if sent, _ := sp.Attr(semconv.BytesSent); asked && sent.Text() != itoa(r.bytes) {
			t.Errorf("%s bytes were sent, and the client received %d: %s", sent.Text(), r.bytes, describe(&sp))
		}
	}
	for path := range all {
		want := 1
		if strings.Contains(path, "proxied") {
			want = 3
		}
		if seen[path] != want {
			t.Errorf("%s: %d spans, want %d", path, seen[path], want)
		}
	}
}

// What redis sends to a subscriber belongs to no request.
func TestSubscriptionEndsWithItsReply(t *testing.T) {
	t.Parallel()
	need(t, "redis-server")
	c, s := newServers(t), newSink(t)
	port := testkit.FreePort(t)
	c.redis(port)
	a := trace(t, s, nil, "--port", "redis="+itoa(port))
	subscriber, publisher := dial(t, port), dial(t, port)
	subscriber("*2\r\n$9\r\nSUBSCRIBE\r\n$4\r\nnews\r\n", ":1\r\n")
	time.Sleep(200 * time.Millisecond) // less than the agent waits for more of a response that shows no end
	published := time.Now()
	publish := func() {
		publisher("*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n$5\r\nhello\r\n", ":1\r\n")
		subscriber("", "hello\r\n")
	}
	publish()
	a.settle() // and what comes after the span was exported
	for range 5 {
		publish()
	}
	m := a.settle()
	if n := m.lostAll(); n > 0 {
		t.Errorf("%d losses are counted\n%v", n, m)
	}
	subscriptions := 0
	for _, sp := range s.all() {
		if sp.Name != "SUBSCRIBE" {
			continue
		}
		subscriptions++
		if end := time.Unix(0, int64(sp.End)); end.After(published) || sp.Status == span.Error {
			t.Errorf("ends %v after the first message: %s", end.Sub(published), describe(&sp))
		}
	}
	if subscriptions != 1 {
		t.Errorf("%d subscriptions", subscriptions)
	}
}

// dial returns what sends a text to a port, and reads until another one.
func dial(t *testing.T, port int) func(request, until string) {
	t.Helper()
	c, err := net.Dial("tcp", loopback(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // read from before
	if err := c.SetDeadline(time.Now().Add(testkit.Patient(time.Minute))); err != nil {
		t.Fatal(err)
	}
	return func(request, until string) {
		t.Helper()
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		for got := ""; !strings.HasSuffix(got, until); {
			n, err := c.Read(buf)
			if err != nil {
				t.Fatalf("%v after %q", err, got)
			}
			got += string(buf[:n])
		}
	}
}
