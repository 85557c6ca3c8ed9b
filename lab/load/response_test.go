package load

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func read(src io.Reader) (head, string, error) {
	r := newResponseReader(true)
	r.reset(src)
	h, body, err := r.next()
	return h, string(body), err
}

// stutter has nothing to read before every byte, as a socket that does not wait.
type stutter struct {
	src   io.Reader
	ready bool
}

func (s *stutter) Read(p []byte) (int, error) {
	if s.ready = !s.ready; s.ready {
		return 0, errAgain
	}
	return s.src.Read(p[:1])
}

func readStuttering(in []byte) (head, string, error) {
	r := newResponseReader(true)
	r.reset(&stutter{src: bytes.NewReader(in)})
	for {
		if h, body, err := r.next(); err != errAgain {
			return h, string(body), err
		}
	}
}

func TestResponses(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		in     string
		status int
		body   string
		close  bool
		err    error
	}{
		"length":          {in: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
		"no reason":       {in: "HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", status: 200},
		"close":           {in: "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx", status: 200, body: "x", close: true},
		"1.0":             {in: "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", status: 200, body: "x", close: true},
		"1.0 keep-alive":  {in: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", status: 200, body: "x"},
		"until EOF":       {in: "HTTP/1.1 200 OK\r\n\r\nall of it", status: 200, body: "all of it", close: true},
		"chunked":         {in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\nA \r\n0123456789\r\n0\r\nT: 1\r\n\r\n", status: 200, body: "hello0123456789"},
		"chunked wins":    {in: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", status: 200, body: "x"},
		"interim":         {in: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", status: 200, body: "x"},
		"no content":      {in: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		"not modified":    {in: "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", status: 304},
		"long":            {in: "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + long, status: 200, body: long},
		"empty":           {in: "", err: errEarlyEOF},
		"half a head":     {in: "HTTP/1.1 200 OK\r\nConte", err: io.ErrUnexpectedEOF},
		"half a body":     {in: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", status: 200, err: io.ErrUnexpectedEOF},
		"half a chunk":    {in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", status: 200, err: io.ErrUnexpectedEOF},
		"chunk too long":  {in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n", status: 200, err: errMalformed},
		"no chunk size":   {in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", status: 200, err: errMalformed},
		"not HTTP":        {in: "SSH-2.0-OpenSSH\r\n", err: errMalformed},
		"HTTP/2":          {in: "HTTP/2.0 200 OK\r\n\r\n", err: errMalformed},
		"bad status":      {in: "HTTP/1.1 2x0 OK\r\n\r\n", err: errMalformed},
		"long status":     {in: "HTTP/1.1 2000 OK\r\n\r\n", err: errMalformed},
		"negative length": {in: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", err: errMalformed},
		"two lengths":     {in: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", err: errMalformed},
		"gzip coding":     {in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", err: errMalformed},
		"no colon":        {in: "HTTP/1.1 200 OK\r\nfield\r\n\r\n", err: errMalformed},
		"upgrade":         {in: "HTTP/1.1 101 Switching Protocols\r\n\r\n", status: 101, err: errMalformed},
		"endless head":    {in: "HTTP/1.1 200 OK\r\nA: " + long, err: errHeadSize},
	} {
		t.Run(name, func(t *testing.T) {
			for _, read := range []func() (head, string, error){
				func() (head, string, error) { return read(strings.NewReader(c.in)) },
				func() (head, string, error) { return read(iotest.OneByteReader(strings.NewReader(c.in))) },
				func() (head, string, error) { return readStuttering([]byte(c.in)) },
			} {
				h, body, err := read()
				require.ErrorIs(t, err, c.err)
				assert.Equal(t, c.status, h.status, "status")
				if err == nil && (body != c.body || h.close != c.close) {
					t.Errorf("body %.40q close %v, want %.40q %v", body, h.close, c.body, c.close)
				}
			}
		})
	}
}

func TestResponsesInARow(t *testing.T) {
	r := newResponseReader(false)
	r.reset(strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none" +
		"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n" +
		"HTTP/1.1 204 No Content\r\n\r\n"))
	for _, want := range []int{200, 500, 204} {
		if h, _, err := r.next(); err != nil || h.status != want {
			t.Fatalf("status %d, error %v; want %d", h.status, err, want)
		}
	}
	if _, _, err := r.next(); !errors.Is(err, errEarlyEOF) {
		t.Errorf("at the end: %v", err)
	}
}

// The parser must give the same answer however the bytes arrive, and where
// net/http accepts the same response, it must have understood the same.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nT: 1\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.0 404 Not Found\r\n\r\nrest",
		"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		h, body, err := read(bytes.NewReader(in))
		h1, body1, err1 := read(iotest.OneByteReader(bytes.NewReader(in)))
		if h != h1 || body != body1 || (err == nil) != (err1 == nil) {
			t.Fatalf("at once: %+v %q %v\nby byte: %+v %q %v", h, body, err, h1, body1, err1)
		}
		h2, body2, err2 := readStuttering(in)
		if h != h2 || body != body2 || (err == nil) != (err2 == nil) {
			t.Fatalf("at once: %+v %q %v\nstuttering: %+v %q %v", h, body, err, h2, body2, err2)
		}
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(body), len(in))
		if bytes.Count(in, []byte("\n")) != bytes.Count(in, []byte("\r\n")) {
			return // net/http takes a bare LF for the end of a line
		}
		std := bufio.NewReader(bytes.NewReader(in))
		resp, err := http.ReadResponse(std, nil)
		for err == nil && resp.StatusCode < 200 {
			resp, err = http.ReadResponse(std, nil)
		}
		if err != nil {
			return
		}
		want, err := io.ReadAll(resp.Body)
		if err != nil {
			return
		}
		if resp.StatusCode != h.status || string(want) != body {
			t.Fatalf("%d %q, net/http has %d %q", h.status, body, resp.StatusCode, want)
		}
	})
}
