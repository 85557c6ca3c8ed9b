package servicetest

import (
	"net"
	"sync"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/tare-trace/tare/internal/testkit"
)

// Receiver is an OTLP receiver over HTTP that keeps what it is sent.
type Receiver struct {
	URL string // http://host:port

	t       *testing.T
	mu      sync.Mutex
	spans   []Span
	stall   chan struct{} // exports wait until it is closed; nil: they do not
	stalled chan struct{} // gets one for every export that waits
	reject  int64         // of the spans of every export
}

// Span is a received one.
type Span struct {
	*trace.Span
	Service string // service.name of its resource
	Scope   string // its instrumentation
}

// NewReceiver listens on a free port of host.
func NewReceiver(t *testing.T, host string) *Receiver {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	r := &Receiver{URL: "http://" + l.Addr().String(), t: t, stalled: make(chan struct{}, 1000)}
	testkit.ServeOTLPOverHTTP(t, l, r.take)
	t.Cleanup(r.Resume) // before the server is stopped, which waits for what stalls
	return r
}

func (r *Receiver) take(e testkit.Export) (*testkit.ExportAnswer, error) {
	message, err := e.Message()
	if err != nil {
		r.t.Errorf("received no OTLP: %v", err)
		return nil, err
	}
	r.mu.Lock()
	stall, reject := r.stall, r.reject
	r.mu.Unlock()
	if stall != nil {
		r.stalled <- struct{}{}
		<-stall
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range message.GetResourceSpans() {
		var service string
		for _, a := range rs.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				r.spans = append(r.spans, Span{s, service, ss.GetScope().GetName()})
			}
		}
	}
	if reject > 0 {
		return &testkit.ExportAnswer{RejectedSpans: reject, ErrorMessage: "not wanted"}, nil
	}
	return nil, nil //nolint:nilnil // no remark is OTLP's answer to a success
}

// Stall lets exports wait until Resume.
func (r *Receiver) Stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stall = make(chan struct{})
}

// AwaitStalled returns when an export waits.
func (r *Receiver) AwaitStalled() {
	r.t.Helper()
	select {
	case <-r.stalled:
	case <-time.After(time.Minute):
		r.t.Fatal("nothing was exported")
	}
}

// Resume ends a stall.
func (r *Receiver) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stall != nil {
		close(r.stall)
		r.stall = nil
	}
}

// Reject answers every export with a partial success, as if n of its spans
// were not accepted.
func (r *Receiver) Reject(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reject = n
}

// Spans are all that were received.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...)
}

// Attribute of a span as a string, "" if there is none.
func (s Span) Attribute(key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			if v := a.GetValue().GetStringValue(); v != "" {
				return v
			}
			return a.GetValue().String()
		}
	}
	return ""
}
