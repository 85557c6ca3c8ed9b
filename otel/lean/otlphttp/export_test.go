package otlphttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

// respond answers with the message in protobuf.
func respond(w http.ResponseWriter, status int, m proto.Message) {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

func partial(rejected int64, message string) proto.Message {
	return &coltracepb.ExportTraceServiceResponse{PartialSuccess: &coltracepb.ExportTracePartialSuccess{RejectedSpans: rejected, ErrorMessage: message}}
}

func TestPartialSuccess(t *testing.T) {
	for name, test := range map[string]struct {
		answer   http.HandlerFunc
		rejected int
		handled  string
	}{
		"full": {func(w http.ResponseWriter, _ *http.Request) {
			respond(w, 200, &coltracepb.ExportTraceServiceResponse{})
		}, 0, ""},
		"some":    {func(w http.ResponseWriter, _ *http.Request) { respond(w, 200, partial(2, "too old")) }, 2, "2 spans rejected: too old"},
		"all":     {func(w http.ResponseWriter, _ *http.Request) { respond(w, 202, partial(999, "")) }, 5, "5 spans rejected"},
		"warning": {func(w http.ResponseWriter, _ *http.Request) { respond(w, 200, partial(0, "old version")) }, 0, "warns: old version"},
		"JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = io.WriteString(w, `{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}`)
		}, 3, "3 spans rejected: no"},
		"text": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "OK") }, 0, ""},
		"garbage": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = io.WriteString(w, "<html>")
		}, 0, "accepted a request (200 OK), but: the response is not an ExportTraceServiceResponse"},
		"giant": {func(w http.ResponseWriter, _ *http.Request) { giant(w, 200) }, 0, "larger than 4 MiB"},
		"truncated": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "x")
		}, 0, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			said := handled(t)
			c := newCollector(t, func(_ int, w http.ResponseWriter, r *http.Request) { test.answer(w, r) })
			rejected, err := newExporter(t, otlphttp.WithEndpointURL(c.URL)).Export(t.Context(), otlptest.Request(t, 5), 5)
			if err != nil || rejected != test.rejected {
				t.Errorf("rejected %d, error %v; want %d", rejected, err, test.rejected)
			}
			if got := said(); !strings.Contains(got, test.handled) || (got == "") != (test.handled == "") {
				t.Errorf("the error handler got %q, want %q", got, test.handled)
			}
			assert.Equal(t, 1, len(c.requests()), "accepted spans were sent again")
		})
	}
}

// giant answers with more than anybody should read, as compressed data would be.
func giant(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(status)
	chunk := bytes.Repeat([]byte{0x1a}, 1<<20)
	for range 64 {
		if _, err := w.Write(chunk); err != nil {
			return // the client has hung up: well done
		}
	}
}

func TestRetries(t *testing.T) {
	for _, status := range []int{429, 502, 503, 504} {
		for _, after := range []string{"", "0", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), "nonsense"} {
			for _, compression := range []otlphttp.Compression{otlphttp.NoCompression, otlphttp.GzipCompression} {
				c := newCollector(t, func(n int, w http.ResponseWriter, _ *http.Request) {
					if n < 3 {
						if after != "" {
							w.Header().Set("Retry-After", after)
						}
						w.WriteHeader(status)
						return
					}
					respond(w, 200, partial(1, ""))
				})
				_ = handled(t)
				e := newExporter(t, otlphttp.WithEndpointURL(c.URL), otlphttp.WithRetry(quick), otlphttp.WithCompression(compression))
				rejected, err := e.Export(t.Context(), otlptest.Request(t, 7), 7)
				got := c.requests()
				if err != nil || rejected != 1 || len(got) != 3 {
					t.Fatalf("%d, Retry-After %q: rejected %d, error %v after %d requests", status, after, rejected, err, len(got))
				}
				for _, r := range got {
					if !proto.Equal(r.request, got[0].request) || otlptest.Spans(r.request) != 7 {
						t.Fatal("a repeated request is not the same")
					}
				}
			}
		}
	}
}

// The server's delay counts: with one beyond the limit there is no second try.
func TestRetryAfterBeyondTheLimit(t *testing.T) {
	for _, after := range []string{"3600", "99999999999999999999", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)} {
		c := newCollector(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", after)
			respond(w, http.StatusTooManyRequests, &statuspb.Status{Message: "come back later"})
		})
		e := newExporter(t, otlphttp.WithEndpointURL(c.URL), otlphttp.WithRetry(quick))
		_, err := e.Export(t.Context(), otlptest.Request(t, 1), 1)
		if n := len(c.requests()); n != 1 || err == nil || !strings.Contains(err.Error(), "429 Too Many Requests: come back later") {
			t.Errorf("Retry-After %s: %d requests, error %v", after, n, err)
		}
	}
}

func TestNotRetried(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 413, 500, 501, 505} {
		for name, test := range map[string]struct {
			answer func(w http.ResponseWriter)
			want   string
		}{
			"protobuf":      {func(w http.ResponseWriter) { respond(w, status, &statuspb.Status{Code: 3, Message: "bad\nspan"}) }, ": bad span"},
			"JSON":          {func(w http.ResponseWriter) { send(w, status, "application/json", `{"message":"bad span"}`) }, ": bad span"},
			"another JSON":  {func(w http.ResponseWriter) { send(w, status, "application/json", `{"error":"bad span"}`) }, `{"error":"bad span"}`},
			"text":          {func(w http.ResponseWriter) { send(w, status, "text/plain", " bad span\r\n") }, ": bad span"},
			"empty":         {func(w http.ResponseWriter) { send(w, status, "", "") }, fmt.Sprint(status)},
			"broken status": {func(w http.ResponseWriter) { send(w, status, "application/x-protobuf", "\xff") }, fmt.Sprint(status)},
			"giant":         {func(w http.ResponseWriter) { giant(w, status) }, fmt.Sprint(status)},
		} {
			c := newCollector(t, func(_ int, w http.ResponseWriter, _ *http.Request) { test.answer(w) })
			e := newExporter(t, otlphttp.WithEndpointURL(c.URL), otlphttp.WithRetry(quick))
			_, err := e.Export(t.Context(), otlptest.Request(t, 1), 1)
			if n := len(c.requests()); n != 1 || err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 4096 {
				t.Errorf("%d, %s: %d requests, error %.200v, want one with %q", status, name, n, err, test.want)
			}
		}
	}
}

func send(w http.ResponseWriter, status int, kind, body string) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// A collector that starts later, on a port that refuses until then.
func TestConnectionRefusedUntilItIsThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	_ = listener.Close()
	refused := make(chan struct{})
	var once sync.Once
	dialer := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			once.Do(func() { close(refused) })
		}
		return conn, err
	}}
	defer dialer.CloseIdleConnections()
	e := newExporter(t, otlphttp.WithEndpointURL("http://"+address), otlphttp.WithRetry(quick), otlphttp.WithHTTPClient(&http.Client{Transport: dialer}))
	done := make(chan error)
	go func() {
		_, err := e.Export(t.Context(), otlptest.Request(t, 1), 1)
		done <- err
	}()
	<-refused
	c := newUnstarted(t, nil)
	_ = c.Listener.Close()
	if c.Listener, err = net.Listen("tcp", address); err != nil {
		t.Skipf("another process took the port: %v", err)
	}
	c.Start()
	assert.NoError(t, <-done)
}

func TestServerHangsUp(t *testing.T) {
	c := newCollector(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			panic(http.ErrAbortHandler)
		}
	})
	e := newExporter(t, otlphttp.WithEndpointURL(c.URL), otlphttp.WithRetry(quick))
	if _, err := e.Export(t.Context(), otlptest.Request(t, 1), 1); err != nil || len(c.requests()) != 2 {
		t.Errorf("error %v after %d requests, want success by the second", err, len(c.requests()))
	}
}

func TestContextEndsASlowExport(t *testing.T) {
	unblock := make(chan struct{})
	c := newCollector(t, func(int, http.ResponseWriter, *http.Request) { <-unblock })
	defer close(unblock)
	e := newExporter(t, otlphttp.WithEndpointURL(c.URL), otlphttp.WithRetry(quick))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := e.Export(ctx, otlptest.Request(t, 1), 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline's", err)
	}
	assert.LessOrEqual(t, len(c.requests()), 1, "requests after the end")
}

// Each attempt has a time limit; after one that was too slow comes the next.
func TestSlowAttemptIsRepeated(t *testing.T) {
	unblock := make(chan struct{})
	c := newCollector(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			<-unblock
		}
	})
	defer close(unblock)
	e := newExporter(t, otlphttp.WithEndpointURL(c.URL), otlphttp.WithRetry(quick), otlphttp.WithTimeout(500*time.Millisecond))
	if _, err := e.Export(t.Context(), otlptest.Request(t, 1), 1); err != nil || len(c.requests()) < 2 {
		t.Errorf("error %v after %d requests", err, len(c.requests()))
	}
}

func TestNothingToSend(t *testing.T) {
	c := newCollector(t, nil)
	if rejected, err := newExporter(t, otlphttp.WithEndpointURL(c.URL)).Export(t.Context(), nil, 0); rejected != 0 || err != nil || len(c.requests()) != 0 {
		t.Errorf("rejected %d, error %v, %d requests", rejected, err, len(c.requests()))
	}
}
