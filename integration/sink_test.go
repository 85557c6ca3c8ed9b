package integration

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/otlp/otlptest"
)

// sink is an OTLP/HTTP receiver that keeps every span.
type sink struct {
	url  string
	away atomic.Bool // it breaks connections off

	mu    sync.Mutex
	spans []span.Span
	taken int // spans that are not kept any more
	bad   error
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", s.receive)
	srv := httptest.NewServer(mux)
	s.url = srv.URL
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		if s.bad != nil {
			t.Errorf("the sink received what is not OTLP: %v", s.bad)
		}
	})
	return s
}

func (s *sink) receive(w http.ResponseWriter, r *http.Request) {
	if s.away.Load() {
		panic(http.ErrAbortHandler)
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			s.refuse(w, err)
			return
		}
		body = z
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return // the agent was killed while it sent
	}
	spans, err := otlptest.Decode(raw)
	if err != nil {
		s.refuse(w, err)
		return
	}
	s.mu.Lock()
	s.spans = append(s.spans, spans...)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (s *sink) refuse(w http.ResponseWriter, err error) {
	s.mu.Lock()
	s.bad = err
	s.mu.Unlock()
	http.Error(w, err.Error(), http.StatusBadRequest)
}

// all returns what has come so far.
func (s *sink) all() []span.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.spans)
}

// take returns what has come so far, and keeps none of it.
func (s *sink) take() []span.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	spans := s.spans
	s.spans, s.taken = nil, s.taken+len(spans)
	return spans
}

// count is how many have come so far.
func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken + len(s.spans)
}

// since returns what has come after the first n spans, of a sink of which nothing was
// taken.
func (s *sink) since(n int) []span.Span { return s.all()[n:] }
