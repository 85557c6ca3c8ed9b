package leanhttp

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/felixge/httpsnoop"
	"go.opentelemetry.io/otel/trace"
)

// writer notes status and size of a response. It is no http.ResponseWriter for
// a handler by itself: a handler asks its writer for http.Flusher,
// http.Hijacker and the like, and must find what the inner one has, no more
// and no less. See as.
type writer struct {
	inner  http.ResponseWriter
	status atomic.Int32 // 0: no header yet
	size   atomic.Int64 // bytes of the body, as far as they went through Write
	events trace.Span   // if not nil: takes an event for each write
}

// code is the status that the client gets, or got: 200 if the handler chose none.
func (w *writer) code() int {
	if s := w.status.Load(); s != 0 {
		return int(s)
	}
	return http.StatusOK
}

func (w *writer) header(status int) {
	// Informational responses precede the one that counts; 101 is one that
	// counts.
	if status >= 100 && status <= 199 && status != http.StatusSwitchingProtocols {
		return
	}
	w.status.CompareAndSwap(0, int32(status))
}

func (w *writer) wrote(n int) {
	w.size.Add(int64(n))
	if w.events != nil {
		w.events.AddEvent("write")
	}
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.inner }

func (w *writer) Header() http.Header { return w.inner.Header() }

func (w *writer) WriteHeader(status int) {
	w.header(status)
	w.inner.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.header(http.StatusOK)
	n, err := w.inner.Write(p)
	w.wrote(n)
	return n, err
}

// The optional methods; which of them a handler sees is up to the types below.

func (w *writer) writeString(s string) (int, error) {
	w.header(http.StatusOK)
	n, err := w.inner.(io.StringWriter).WriteString(s)
	w.wrote(n)
	return n, err
}

func (w *writer) flush() {
	w.header(http.StatusOK)
	w.inner.(http.Flusher).Flush()
}

func (w *writer) flushError() error {
	w.header(http.StatusOK)
	return w.inner.(flushErrorer).FlushError()
}

type (
	flushErrorer  interface{ FlushError() error }
	closeNotifier interface{ CloseNotify() <-chan bool } // http.CloseNotifier is deprecated
	deadliner     interface {
		SetReadDeadline(time.Time) error
		SetWriteDeadline(time.Time) error
	}
	duplexer interface{ EnableFullDuplex() error }
	// common is what the writers of net/http's HTTP/1 and HTTP/2 servers both have.
	common interface {
		http.ResponseWriter
		http.Flusher
		flushErrorer
		closeNotifier
		deadliner
		duplexer
		io.StringWriter
	}
)

// inCommon is writer with the methods of common.
type inCommon struct{ writer }

func (w *inCommon) WriteString(s string) (int, error) { return w.writeString(s) }
func (w *inCommon) Flush()                            { w.flush() }
func (w *inCommon) FlushError() error                 { return w.flushError() }
func (w *inCommon) CloseNotify() <-chan bool          { return w.inner.(closeNotifier).CloseNotify() }
func (w *inCommon) SetReadDeadline(t time.Time) error { return w.inner.(deadliner).SetReadDeadline(t) }
func (w *inCommon) SetWriteDeadline(t time.Time) error {
	return w.inner.(deadliner).SetWriteDeadline(t)
}
func (w *inCommon) EnableFullDuplex() error { return w.inner.(duplexer).EnableFullDuplex() }

// http1 has what the writer of net/http's HTTP/1 server has. ReadFrom leads
// past the counting of bytes, as otelhttp's does, so that sendfile stays
// possible.
type http1 struct{ inCommon }

func (w *http1) ReadFrom(r io.Reader) (int64, error) { return w.inner.(io.ReaderFrom).ReadFrom(r) }
func (w *http1) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.inner.(http.Hijacker).Hijack()
}

// http2 has what the writer of net/http's HTTP/2 server has.
type http2 struct{ inCommon }

func (w *http2) Push(target string, o *http.PushOptions) error {
	return w.inner.(http.Pusher).Push(target, o)
}

// wrapper is the memory for a writer of any kind.
type wrapper struct{ inCommon }

// as returns a writer with the optional methods that inner has.
func (w *wrapper) as(inner http.ResponseWriter, events trace.Span) http.ResponseWriter {
	w.inner, w.events = inner, events
	switch kindOf(inner) {
	case kindHTTP1:
		return (*http1)(w)
	case kindHTTP2:
		return (*http2)(w)
	}
	return w.snoop()
}

// snoop serves the writers of other servers and middlewares.
func (w *wrapper) snoop() http.ResponseWriter {
	return httpsnoop.Wrap(w.inner, httpsnoop.Hooks{
		WriteHeader: func(httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc { return w.WriteHeader },
		Write:       func(httpsnoop.WriteFunc) httpsnoop.WriteFunc { return w.Write },
		WriteString: func(httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc { return w.writeString },
		Flush:       func(httpsnoop.FlushFunc) httpsnoop.FlushFunc { return w.flush },
		FlushError:  func(httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc { return w.flushError },
	})
}

type kind int

const (
	kindOther kind = iota
	kindHTTP1
	kindHTTP2
)

// kinds remembers the kind of every type of writer seen: asking a writer for
// its ten interfaces costs more than all the rest.
var kinds sync.Map // reflect.Type → kind

func kindOf(w http.ResponseWriter) kind {
	t := reflect.TypeOf(w)
	if k, ok := kinds.Load(t); ok {
		return k.(kind)
	}
	k := kindOther
	if _, ok := w.(common); ok {
		_, readerFrom := w.(io.ReaderFrom)
		_, hijacker := w.(http.Hijacker)
		_, pusher := w.(http.Pusher)
		switch {
		case readerFrom && hijacker && !pusher:
			k = kindHTTP1
		case pusher && !readerFrom && !hijacker:
			k = kindHTTP2
		}
	}
	kinds.Store(t, k)
	return k
}
