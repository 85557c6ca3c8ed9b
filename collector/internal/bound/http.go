package bound

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/config/confighttp"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/collector/internal/limit"
	"github.com/tare-trace/tare/internal/browser"
)

// check reads a body, and returns what decoding it takes.
type check func(body []byte, limit int64) (cost int64, err error)

// chooser returns the check for a request by path and media type; nil for those that the
// receiver does not decode.
type chooser func(path, media string) check

func byShape(s *shape) check {
	return func(body []byte, limit int64) (cost int64, err error) {
		err = s.walk(body, 0, &cost, limit)
		return cost, err
	}
}

func byNames(s *shape) check {
	return func(body []byte, limit int64) (int64, error) { return walkJSON(body, s, limit) }
}

func byThrift(kind byte) check {
	return func(body []byte, limit int64) (int64, error) { return walkThrift(body, kind, limit) }
}

// httpServer is the middleware of one HTTP server.
type httpServer struct {
	next      http.Handler
	choose    chooser
	refusals  *refusals
	budget    *budget
	most      int64    // bytes of a body after decompression
	encodings []string // that the server accepts
	origins   []string // that CORS allows
	local     bool     // only this machine can reach it
	traces    string   // path to which OTLP sends spans; "" of others
}

const defaultBody = 20 << 20 // the framework's

// newHTTP takes over decompression from the framework, which bounds neither its ratio nor
// the memory of its decoders.
func newHTTP(c *confighttp.ServerConfig, choose chooser) httpServer {
	s := httpServer{choose: choose, budget: shared, most: c.MaxRequestBodySize, encodings: c.CompressionAlgorithms}
	if s.most <= 0 {
		s.most = defaultBody
	}
	if s.encodings == nil {
		s.encodings = []string{"", "gzip", "zstd", "zlib", "snappy", "deflate", "lz4", "x-snappy-framed"}
	}
	c.CompressionAlgorithms = []string{}
	if c.CORS.HasValue() {
		s.origins = c.CORS.Get().AllowedOrigins
	}
	if a, err := netip.ParseAddrPort(c.NetAddr.Endpoint); err == nil {
		s.local = a.Addr().Unmap().IsLoopback()
	} else {
		s.local = strings.HasPrefix(c.NetAddr.Endpoint, "localhost:")
	}
	return s
}

func (s *httpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, taken, err := s.admit(r)
	defer func() {
		r.Body = http.NoBody // the receiver has its own copy
		keepBuffer(body)
		s.budget.give(taken)
	}()
	if err != nil {
		s.refusals.add(r.Context(), r.RemoteAddr, err)
		answer(w, r, err)
		return
	}
	ctx, rejected := limit.Watch(r.Context())
	s.next.ServeHTTP(&rejecting{
		ResponseWriter: w, rejected: rejected, media: r.Header.Get("Content-Type"), otlp: s.traces != "" && s.traces == r.URL.Path,
		refuse: func(err *refusal) { s.refusals.add(r.Context(), r.RemoteAddr, err) },
	}, r.WithContext(ctx))
}

// admit replaces the request's body by one that was read and checked. The memory that it
// has taken is to be given back, also after a refusal, and the body's buffer kept.
func (s *httpServer) admit(r *http.Request) (body []byte, taken int64, refusal *refusal) {
	if refusal := s.sender(r); refusal != nil {
		return nil, 0, refusal
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	if s.choose == nil || r.Method != http.MethodPost {
		return nil, 0, nil // no receiver reads the body of others
	}
	check := s.choose(r.URL.Path, media)
	if check == nil {
		if s.choose(r.URL.Path, "application/json") == nil {
			return nil, 0, nil // an unknown path, which the receiver answers
		}
		refusal := bad("content_type", "the Content-Type %.80q is not one that this receiver reads", r.Header.Get("Content-Type"))
		refusal.http = http.StatusUnsupportedMediaType
		return nil, 0, refusal
	}
	// As it was understood here, so that the receiver chooses the same decoder.
	r.Header.Set("Content-Type", media)

	body, taken, refusal = s.read(r)
	if refusal != nil {
		return body, taken, refusal
	}
	cost, err := check(body, s.budget.message())
	if err != nil {
		return body, taken, refused(err)
	}
	cost += 2 * int64(len(body)) // the receiver's copy, and the texts
	if !s.budget.take(cost) {
		return body, taken, busy
	}
	_ = r.Body.Close()
	r.Header.Del("Content-Encoding")
	r.Header.Del("Content-Length")
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return body, taken + cost, nil
}

// sender refuses what the page of another site made a browser send.
func (s *httpServer) sender(r *http.Request) *refusal {
	if browser.Foreign(r) && !s.allowed(r.Header.Get("Origin")) {
		return &refusal{"origin", "pages of other sites may not send here: see cors::allowed_origins", http.StatusForbidden, 0}
	}
	if s.local && !browser.Loopback(r.Host, nil) {
		return &refusal{"host", "the name in the Host header is not this machine's: use localhost or 127.0.0.1", http.StatusForbidden, 0}
	}
	return nil
}

// allowed compares with patterns of one *, as the framework's CORS does.
func (s *httpServer) allowed(origin string) bool {
	origin = strings.ToLower(origin)
	return slices.ContainsFunc(s.origins, func(pattern string) bool {
		before, after, wild := strings.Cut(strings.ToLower(pattern), "*")
		if !wild {
			return origin == before
		}
		return len(origin) >= len(before)+len(after) && strings.HasPrefix(origin, before) && strings.HasSuffix(origin, after)
	})
}

// read reads and decompresses the body into memory of the budget.
func (s *httpServer) read(r *http.Request) (body []byte, taken int64, refusal *refusal) {
	from, err := decompress(r.Header.Get("Content-Encoding"), s.encodings, r.Body, s.most)
	if err != nil {
		return nil, 0, unreadable(err)
	}
	if c, ok := from.(io.Closer); ok && from != r.Body {
		defer func() { _ = c.Close() }()
	}
	size := int64(32 << 10)
	if r.Header.Get("Content-Encoding") == "" && r.ContentLength > 0 {
		size = min(r.ContentLength+1, pooled)
	}
	for {
		size = bufferSize(size)
		if !s.budget.take(size) {
			return body, taken, busy
		}
		grown := append(newBuffer(size), body...)
		keepBuffer(body)
		s.budget.give(taken)
		body, taken = grown, size
		for len(body) < cap(body) {
			n, err := from.Read(body[len(body):cap(body)])
			body = body[:len(body)+n]
			if int64(len(body)) > s.most {
				return body, taken, tooLong(s.most)
			}
			if errors.Is(err, io.EOF) {
				return body, taken, nil
			}
			if err != nil {
				return body, taken, unreadable(err)
			}
		}
		size = min(2*size, s.most+1)
	}
}

func unreadable(err error) *refusal {
	var r *refusal
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &long):
		return tooLong(long.Limit)
	case errors.Is(err, context.DeadlineExceeded) || timeout(err):
		return &refusal{"timeout", "the request came too slowly", http.StatusRequestTimeout, 0}
	}
	return bad("malformed", "the request cannot be read: %.200s", err.Error())
}

func timeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// answer writes a refusal as OTLP wants it (a google.rpc.Status) where the request was
// JSON or protobuf, else as text.
func answer(w http.ResponseWriter, r *http.Request, refusal *refusal) {
	if refusal == busy {
		w.Header().Set("Retry-After", "1")
	}
	var body []byte
	var err error
	st := &status.Status{Code: int32(refusal.grpc), Message: refusal.text} //nolint:gosec // a small number
	media := r.Header.Get("Content-Type")
	switch media {
	case "application/x-protobuf":
		body, err = proto.Marshal(st)
	case "application/json":
		body, err = protojson.Marshal(st)
	default:
		http.Error(w, refusal.text, refusal.http)
		return
	}
	if err != nil {
		http.Error(w, refusal.text, refusal.http)
		return
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(refusal.http)
	_, _ = w.Write(body) // the peer may be gone
}
