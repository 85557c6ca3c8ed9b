package integration

import (
	"crypto/sha256"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/otlp/otlptest"
)

// sink is an OTLP/HTTP receiver that keeps every span. A batch that is sent again, because
// its answer took longer than the sender waits, is kept once.
type sink struct {
	url  string
	away atomic.Bool // it breaks connections off

	mu    sync.Mutex
	spans []span.Span
	seen  map[[sha256.Size]byte]bool // batches
	taken int                        // spans that are not kept any more
	bad   error
}

func newSink(t *testing.T) *sink {
	t.Helper()
	l := testkit.Listen(t, loopback(testkit.FreePort(t)))
	s := &sink{url: "http://" + l.Addr().String(), seen: map[[sha256.Size]byte]bool{}}
	t.Cleanup(func() {
		if s.bad != nil {
			t.Errorf("the sink received what is not OTLP: %v", s.bad)
		}
	})
	testkit.ServeOTLPOverHTTP(t, l, s.keep)
	return s
}

// keep takes what a request holds.
func (s *sink) keep(e testkit.Export) (*testkit.ExportAnswer, error) {
	if s.away.Load() {
		return nil, testkit.ErrBreakOff
	}
	spans, err := otlptest.Decode(e.Raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.bad = err
		return nil, err
	}
	if sum := sha256.Sum256(e.Raw); !s.seen[sum] {
		s.seen[sum] = true
		s.spans = append(s.spans, spans...)
	}
	return nil, nil //nolint:nilnil // no remark is OTLP's answer to a success
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
