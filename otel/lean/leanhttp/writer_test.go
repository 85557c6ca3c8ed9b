package leanhttp_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/lean/leanhttp"
)

// methods lists the optional interfaces of a writer.
func methods(w http.ResponseWriter) string {
	var out string
	is := func(name string, ok bool) {
		if ok {
			out += name + " "
		}
	}
	_, ok := w.(http.Flusher)
	is("Flush", ok)
	_, ok = w.(interface{ FlushError() error })
	is("FlushError", ok)
	_, ok = w.(http.Hijacker)
	is("Hijack", ok)
	_, ok = w.(http.Pusher)
	is("Push", ok)
	_, ok = w.(interface{ CloseNotify() <-chan bool })
	is("CloseNotify", ok)
	_, ok = w.(io.ReaderFrom)
	is("ReadFrom", ok)
	_, ok = w.(io.StringWriter)
	is("WriteString", ok)
	_, ok = w.(interface {
		SetReadDeadline(time.Time) error
		SetWriteDeadline(time.Time) error
	})
	is("deadlines", ok)
	_, ok = w.(interface{ EnableFullDuplex() error })
	is("EnableFullDuplex", ok)
	return out
}

type hijacker struct{ http.ResponseWriter }

func (hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, io.ErrClosedPipe }

// all has the methods of both of net/http's writers, which none of them has.
type all struct {
	*httptest.ResponseRecorder
	hijacker
}

func (all) FlushError() error                    { return io.ErrClosedPipe }
func (all) Push(string, *http.PushOptions) error { return io.ErrClosedPipe }
func (all) CloseNotify() <-chan bool             { return nil }
func (all) ReadFrom(io.Reader) (int64, error)    { return 0, io.ErrClosedPipe }
func (all) SetReadDeadline(time.Time) error      { return nil }
func (all) SetWriteDeadline(time.Time) error     { return nil }
func (all) EnableFullDuplex() error              { return nil }
func (a all) Header() http.Header                { return a.ResponseRecorder.Header() }
func (a all) Write(p []byte) (int, error)        { return a.ResponseRecorder.Write(p) }
func (a all) WriteHeader(code int)               { a.ResponseRecorder.WriteHeader(code) }
func (a all) Unwrap() http.ResponseWriter        { return a.ResponseRecorder }

// A handler's writer has the optional methods of the server's, no more and no
// less, and they reach it.
func TestWriterMethods(t *testing.T) {
	instrument := func(h http.HandlerFunc) http.Handler {
		return leanhttp.NewHandler(h, "", leanhttp.WithTracerProvider(sdktrace.NewTracerProvider()))
	}
	check := func(t *testing.T, w http.ResponseWriter, r *http.Request) {
		t.Helper()
		want := methods(w)
		instrument(func(inner http.ResponseWriter, _ *http.Request) {
			if inner == w {
				t.Error("the writer was not wrapped")
			}
			assert.Equal(t, want, methods(inner), "%T", w)
			if u := inner.(interface{ Unwrap() http.ResponseWriter }).Unwrap(); u != w {
				t.Errorf("Unwrap gives %T", u)
			}
		}).ServeHTTP(w, r)
	}
	serve := func(t *testing.T, want string, change func(*httptest.Server)) {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := methods(w); got != want {
				t.Errorf("net/http's writer %T has %s, this test knows %s: is there a kind for it?", w, got, want)
			}
			check(t, w, r)
		}))
		defer s.Close()
		change(s)
		res, err := s.Client().Get(s.URL)
		require.NoError(t, err)
		res.Body.Close()
	}
	t.Run("HTTP/1", func(t *testing.T) {
		serve(t, "Flush FlushError Hijack CloseNotify ReadFrom WriteString deadlines EnableFullDuplex ", (*httptest.Server).Start)
	})
	t.Run("HTTP/2", func(t *testing.T) {
		serve(t, "Flush FlushError Push CloseNotify WriteString deadlines EnableFullDuplex ", func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() })
	})
	for name, w := range map[string]http.ResponseWriter{
		"recorder": httptest.NewRecorder(),
		"plain":    struct{ http.ResponseWriter }{httptest.NewRecorder()},
		"hijacker": hijacker{httptest.NewRecorder()},
		"all":      all{ResponseRecorder: httptest.NewRecorder()},
		"flusher": struct {
			http.ResponseWriter
			http.Flusher
		}{httptest.NewRecorder(), httptest.NewRecorder()},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // found out once, remembered then
				check(t, w, httptest.NewRequest("GET", "/", nil))
			}
		})
	}
}

// Errors of the server's writer reach the handler.
func TestWriterErrors(t *testing.T) {
	h := leanhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.(io.ReaderFrom).ReadFrom(nil); err != io.ErrClosedPipe {
			t.Errorf("ReadFrom: %v", err)
		}
		if err := http.NewResponseController(w).Flush(); err != io.ErrClosedPipe {
			t.Errorf("Flush: %v", err)
		}
		if _, _, err := http.NewResponseController(w).Hijack(); err != io.ErrClosedPipe {
			t.Errorf("Hijack: %v", err)
		}
		_, _ = fmt.Fprint(w, "x")
	}), "", leanhttp.WithTracerProvider(sdktrace.NewTracerProvider()))
	h.ServeHTTP(all{ResponseRecorder: httptest.NewRecorder()}, httptest.NewRequest("GET", "/", nil))
}
