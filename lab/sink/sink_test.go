package sink

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"

	"github.com/tare-trace/tare/span"
)

func TestKeepsWhatItIsToldTo(t *testing.T) {
	s := open(t, Options{File: filepath.Join(t.TempDir(), "spans.bin")})
	accepted(t, s, body(chain(1)...)) // only counted
	s.Keep(true)
	accepted(t, s, body(chain(2)...))
	accepted(t, s, zip(body(chain(3)...)), "Content-Encoding", "gzip")
	s.Keep(false)
	accepted(t, s, body(chain(4)...))
	spans, err := s.Spans([]string{"url.path"})
	require.NoError(t, err)
	var paths []string
	for _, sp := range spans {
		assert.Len(t, sp.Attrs, 1, "attributes that were not asked for")
		paths = append(paths, sp.Attrs[0].Text())
	}
	if want := []string{"/n/2", "/n/2", "/n/2", "/n/3", "/n/3", "/n/3"}; !slices.Equal(paths, want) {
		t.Errorf("%v", paths)
	}
	// More can come after a look.
	s.Keep(true)
	accepted(t, s, body(chain(5)...))
	if spans, err = s.Spans(nil); err != nil || len(spans) != 9 {
		t.Errorf("%d spans, %v", len(spans), err)
	}
}

// One message has the spans of all requests, whether they were compressed or not.
func TestWriteIsOneMessage(t *testing.T) {
	s := keeping(t)
	accepted(t, s, body(chain(2)...))
	accepted(t, s, zip(body(chain(3)...)), "Content-Encoding", "gzip")
	var out bytes.Buffer
	require.NoError(t, s.Write(&out))
	again := keeping(t)
	accepted(t, again, out.Bytes())
	for _, of := range []*Sink{s, again} {
		if tally, err := of.Count(); err != nil || tally.Spans != 6 {
			t.Errorf("%+v, %v", tally, err)
		}
	}
}

func TestCountsWhatCameOverTheWire(t *testing.T) {
	s := open(t, Options{})
	plain := body(chain(1)...)
	zipped := zip(bytes.Repeat(plain, 10))
	accepted(t, s, plain)
	accepted(t, s, zipped, "Content-Encoding", "gzip")
	accepted(t, s, nil) // the empty message
	want := Counts{Requests: 3, Bytes: uint64(len(plain) + len(zipped)), Plain: uint64(11 * len(plain))}
	assert.Equal(t, want, s.Mark())
	assert.Equal(t, (Counts{}), s.Mark(), "after a mark")
	accepted(t, s, plain, "Content-Type", "application/x-protobuf; charset=utf-8")
	assert.Equal(t, (Counts{Requests: 1, Bytes: uint64(len(plain)), Plain: uint64(len(plain))}), s.Mark())
	if got := s.counters.load(); got.Requests != 4 {
		t.Errorf("in all: %+v", got)
	}
}

func TestRefusesWrongContent(t *testing.T) {
	s := keeping(t)
	good := body(chain(1)...)
	huge := zip(nil)
	copy(huge[len(huge)-4:], []byte{0xff, 0xff, 0xff, 0xff}) // says that it becomes 4 GiB
	for name, c := range map[string]struct {
		body   []byte
		header []string
		status int
	}{
		"not protobuf":     {[]byte("hello"), nil, 400},
		"cut off":          {good[:len(good)-1], nil, 400},
		"not gzip":         {[]byte("hello, this is no gzip"), []string{"Content-Encoding", "gzip"}, 400},
		"short gzip":       {zip(nil)[:15], []string{"Content-Encoding", "gzip"}, 400},
		"unknown encoding": {good, []string{"Content-Encoding", "zstd"}, 400},
		"JSON":             {[]byte("{}"), []string{"Content-Type", "application/json"}, 400},
		"no type":          {good, []string{"Content-Type", ""}, 400},
		"bomb":             {huge, []string{"Content-Encoding", "gzip"}, 413},
		"too large":        {make([]byte, MaxBody+1), nil, 413},
	} {
		assert.Equal(t, c.status, send(t, s, c.body, c.header...).StatusCode, "%s: status", name)
		if got := s.Mark(); got.Bad != 1 || got.Requests != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if spans, err := s.Spans(nil); err != nil || len(spans) != 0 {
		t.Errorf("kept %d spans of bad requests, %v", len(spans), err)
	}
}

func TestLargeBody(t *testing.T) {
	s := keeping(t)
	many := bytes.Repeat(body(one(1, 1, 0)), 10_000) // messages one after the other are one
	accepted(t, s, many)
	accepted(t, s, zip(many), "Content-Encoding", "gzip")
	if tally, err := s.Count(); err != nil || tally.Spans != 20_000 || tally.Traces != 1 {
		t.Errorf("%+v, %v", tally, err)
	}
}

func TestReportsWhatItCannotRead(t *testing.T) {
	bad := []byte{0x0a, 0x02, 0x12, 0x05} // well formed outside, cut off inside
	corrupt := zip(body(chain(1)...))
	corrupt[len(corrupt)/2] ^= 0xff
	corrupt[len(corrupt)-6] ^= 0xff // the checksum
	short := zip(body(chain(1)...))
	short = append(short[:12:12], short[len(short)-8:]...)
	for name, c := range map[string]struct {
		body   []byte
		header []string
	}{
		"inside":       {bad, nil},
		"corrupt gzip": {corrupt, []string{"Content-Encoding", "gzip"}},
		"short gzip":   {short, []string{"Content-Encoding", "gzip"}},
	} {
		s := keeping(t)
		accepted(t, s, c.body, c.header...)
		if _, err := s.Spans(nil); err == nil {
			t.Errorf("%s: spans without an error", name)
		}
		if _, err := s.Count(); err == nil {
			t.Errorf("%s: a count without an error", name)
		}
		if _, err := s.Trees(0); err == nil {
			t.Errorf("%s: trees without an error", name)
		}
	}
}

func TestResetForgets(t *testing.T) {
	s := keeping(t)
	for round := range uint64(3) {
		accepted(t, s, body(chain(round+1)...))
		if tally, err := s.Count(); err != nil || tally.Spans != 3 || tally.Requests != 1 {
			t.Errorf("round %d: %+v, %v", round, tally, err)
		}
		accepted(t, s, body(chain(9)...)) // not yet flushed
		require.NoError(t, s.Reset())
	}
	if tally, err := s.Count(); err != nil || tally.Spans != 0 {
		t.Errorf("%+v, %v", tally, err)
	}
	assert.EqualValues(t, 6, s.counters.load().Requests, "requests in all")
}

func TestEachWhileMoreComes(t *testing.T) {
	s := keeping(t)
	accepted(t, s, body(chain(1)...))
	stop := errors.New("enough")
	err := s.Each(func(*collector.ExportTraceServiceRequest) error {
		accepted(t, s, body(chain(2)...)) // must not wait for us
		return stop
	})
	assert.ErrorIs(t, err, stop)
	if tally, err := s.Count(); err != nil || tally.Requests != 2 {
		t.Errorf("%+v, %v", tally, err)
	}
}

func TestWriteThatFailed(t *testing.T) {
	s := open(t, Options{})
	s.Keep(true)
	s.kept.mu.Lock()
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, s.kept.file.Close())
	s.kept.file = full
	s.kept.out.Reset(full)
	s.kept.mu.Unlock()

	large := bytes.Repeat(body(chain(1)...), 10_000) // more than is buffered
	assert.Equal(t, http.StatusInternalServerError, send(t, s, large).StatusCode, "status")
	if got := s.Mark(); got.Refused != 1 || got.Requests != 0 {
		t.Errorf("%+v", got)
	}
	if _, err := s.Count(); err == nil {
		t.Error("counted what could not be stored")
	}
	assert.Error(t, s.Close(), "closed without an error")
	s.closed = nil // the cleanup closes again
}

func TestFileStaysOrGoes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "spans.bin")
	named, err := New(Options{File: path})
	require.NoError(t, err)
	named.Keep(true)
	accepted(t, named, body(chain(1)...))
	unnamed, err := New(Options{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, errors.Join(named.Close(), unnamed.Close(), named.Close()))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "spans.bin" {
		t.Errorf("%v, %v", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(recordHead+len(body(chain(1)...))) {
		t.Errorf("%v, %v", info, err)
	}
}

func TestNewFailsWithoutLeaks(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for _, o := range []Options{
		{Addr: taken.Addr().String()},
		{Addr: "nowhere"},
		{File: "/nonexistent/spans.bin"},
		{Dir: "/nonexistent"},
	} {
		if s, err := New(o); err == nil {
			t.Errorf("%+v: no error, %v", o, s.Close())
		}
	}
}

// The exporter of the OpenTelemetry SDK, as services use it.
func TestExporter(t *testing.T) {
	s := keeping(t)
	client := otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(s.Endpoint()+"/v1/traces"), otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	err := errors.Join(client.Start(t.Context()), client.UploadTraces(t.Context(), request("shop", chain(1)...).GetResourceSpans()), client.Stop(t.Context()))
	assert.NoError(t, err)
	if spans, err := s.Spans(nil); err != nil || len(spans) != 3 || spans[0].Resource.Service != "shop" {
		t.Errorf("%v, %v", spans, err)
	}
}

// Close must not wait for a connection that has sent nothing, or half a request.
func TestCloseWithSilentConnections(t *testing.T) {
	s := open(t, Options{})
	for _, sent := range []string{"", "P"} {
		c, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		defer c.Close()
		if _, err := c.Write([]byte(sent)); err != nil {
			t.Fatal(err)
		}
	}
	accepted(t, s, body(chain(1)...)) // after them, so that they have been accepted
	assert.NoError(t, s.Close())
	if _, err := http.Get(s.Endpoint()); err == nil {
		t.Error("it still listens")
	}
}

func TestDecodesEveryField(t *testing.T) {
	s := keeping(t)
	accepted(t, s, body(append(chain(5), chain(6)...)...))
	spans, err := s.Trace(span.TraceID{15: 6})
	if err != nil || len(spans) != 3 {
		t.Fatalf("%d spans, %v", len(spans), err)
	}
	got := spans[1]
	if got.ID != (span.ID{7: 2}) || got.Parent != (span.ID{7: 1}) || got.Kind != span.Server || got.Name != "GET" ||
		got.Status != span.Error || got.Start != 1_000_002 || got.End != 1_000_098 || got.Resource.Service != "shop" {
		t.Errorf("%+v", got)
	}
	for key, want := range map[string]string{"url.path": "/n/6", "server.port": "80", "yes": "true", "half": "0.5"} {
		if a, ok := got.Attr(key); !ok || a.Text() != want {
			t.Errorf("%s = %q", key, a.Text())
		}
	}
	if !spans[0].Parent.IsZero() || spans[0].Resource != spans[1].Resource {
		t.Error("the root has a parent, or one service has two resources")
	}
	if spans, err := s.Trace(span.TraceID{}); err != nil || len(spans) != 0 {
		t.Errorf("trace zero: %d spans, %v", len(spans), err)
	}
}

func TestSpansOfWrongIDs(t *testing.T) {
	for name, at := range map[string]int{"trace": 0, "span": 1, "parent": 2} {
		sp := one(1, 2, 1)
		*[]*[]byte{&sp.TraceId, &sp.SpanId, &sp.ParentSpanId}[at] = []byte{1}
		s := keeping(t)
		accepted(t, s, body(sp))
		if spans, err := s.Spans(nil); err == nil {
			t.Errorf("%s: %d spans and no error", name, len(spans))
		}
		if tally, err := s.Count(); err != nil || tally.Invalid != 1 || tally.Spans != 1 || tally.Traces != 0 {
			t.Errorf("%s: %+v, %v", name, tally, err)
		}
		if trees, err := s.Trees(0); err != nil || trees.Invalid != 1 || trees.Traces != 0 {
			t.Errorf("%s: %+v, %v", name, trees, err)
		}
	}
}

func ExampleSink_Count() {
	s, err := New(Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.Close() }()
	s.Keep(true)
	resp, err := poster.Post(s.Endpoint()+"/v1/traces", contentType, bytes.NewReader(body(chain(1)...)))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	tally, err := s.Count()
	fmt.Println(tally.Spans, tally.Roots, tally.Names, err)
	// Output: 3 1 map[GET:3] <nil>
}
