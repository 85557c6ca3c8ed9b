package sink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"mime"
	"net/http"
	"sync"
	"time"
)

const (
	readHeaderTimeout = 10 * time.Second
	contentType       = "application/x-protobuf"
	// largest buffer that is used again: what exporters send is far smaller.
	pooled = 4 << 20
)

// buffers for bodies: a receiver that allocates each one would add garbage
// collection to what is measured beside it.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (s *Sink) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", s.receive)
	return mux
}

func (s *Sink) receive(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		panic(http.ErrAbortHandler) // ends the connection, which is closing anyway
	}
	defer s.leave()
	b := buffers.Get().(*bytes.Buffer) //nolint:errcheck // the pool holds nothing else
	b.Reset()
	defer func() {
		if b.Cap() <= pooled {
			buffers.Put(b)
		}
	}()
	if r.ContentLength > 0 && r.ContentLength <= MaxBody {
		// ReadFrom wants room after the last byte to see the end.
		b.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, MaxBody))
	zipped, plain := false, b.Len()
	if err == nil {
		zipped, plain, err = inspect(r.Header, b.Bytes())
	}
	s.counters.arrived(b.Len(), plain)
	if err != nil {
		s.counters.bad.Add(1)
		status := http.StatusBadRequest
		if large := new(http.MaxBytesError); errors.As(err, &large) || errors.Is(err, errLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return
	}
	s.answer(w, r, b.Bytes(), zipped)
}

func (s *Sink) answer(w http.ResponseWriter, r *http.Request, body []byte, zipped bool) {
	if !s.wait(r.Context()) {
		s.counters.refused.Add(1)
		panic(http.ErrAbortHandler) // nobody is there to be answered
	}
	if err := s.kept.store(body, zipped); err != nil {
		s.counters.refused.Add(1)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.counters.requests.Add(1)
	// The empty ExportTraceServiceResponse has no bytes: all was accepted.
	w.Header()["Content-Type"] = protobufHeader
	w.WriteHeader(http.StatusOK)
}

var protobufHeader = []string{contentType}

var (
	errType     = errors.New("Content-Type is not application/x-protobuf: this receiver reads OTLP in protobuf only") //nolint:staticcheck // the name of a header
	errEncoding = errors.New("Content-Encoding is neither gzip nor absent")                                           //nolint:staticcheck // the name of a header
	errGzip     = errors.New("body is not gzip, though Content-Encoding says so")
	errLarge    = errors.New("body is larger than 64 MiB after decompression")
)

// inspect checks what can be checked for almost nothing, and tells the size after
// decompression: 0 if it is not known because the body is bad.
func inspect(h http.Header, body []byte) (zipped bool, plain int, err error) {
	if t := h.Get("Content-Type"); t != contentType {
		if media, _, err := mime.ParseMediaType(t); err != nil || media != contentType {
			return false, len(body), errType
		}
	}
	switch h.Get("Content-Encoding") {
	case "", "identity":
		return false, len(body), checkTop(body)
	case "gzip":
	default:
		return false, 0, errEncoding
	}
	// RFC 1952: 10 bytes of header at least, 8 at the end, of which the last
	// 4 are the size; OTLP exporters write one member only.
	if len(body) < 18 || body[0] != 0x1f || body[1] != 0x8b || body[2] != 8 {
		return true, 0, errGzip
	}
	size := binary.LittleEndian.Uint32(body[len(body)-4:])
	if size > MaxBody {
		return true, 0, errLarge
	}
	return true, int(size), nil
}
