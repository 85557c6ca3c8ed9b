package equality

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver is an OTLP/HTTP receiver on the loopback. Each run has a path of its own, so that one server
// serves them all.
type Receiver struct {
	server *httptest.Server
	client *http.Client

	mu    sync.Mutex
	last  int
	inbox map[string]*Inbox // by path
}

// An Inbox keeps what one run sent.
type Inbox struct {
	// URL is the full address for an exporter, path included.
	URL string

	mu       sync.Mutex
	requests []*collector.ExportTraceServiceRequest
	errs     []error
}

// NewReceiver starts a receiver; the caller closes it.
func NewReceiver() *Receiver {
	r := &Receiver{inbox: map[string]*Inbox{}}
	r.server = httptest.NewServer(r)
	r.client = &http.Client{Transport: &http.Transport{}}
	return r
}

// Client is shared by the exporters, so that they share connections.
func (r *Receiver) Client() *http.Client { return r.client }

// Close ends the server and its connections.
func (r *Receiver) Close() {
	r.client.CloseIdleConnections()
	r.server.Close()
}

// Open makes an inbox. What is sent to it after the function that is returned was called is refused.
func (r *Receiver) Open() (*Inbox, func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	path := fmt.Sprintf("/%d/v1/traces", r.last)
	in := &Inbox{URL: r.server.URL + path}
	r.inbox[path] = in
	return in, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.inbox, path)
	}
}

func (r *Receiver) find(path string) *Inbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inbox[path]
}

// ServeHTTP takes one export request.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	in := r.find(req.URL.Path)
	if in == nil {
		http.Error(w, "no run has this path", http.StatusNotFound)
		return
	}
	request, err := decode(req)
	in.mu.Lock()
	defer in.mu.Unlock()
	if err != nil {
		in.errs = append(in.errs, err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	in.requests = append(in.requests, request)
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty body is an empty response message
}

func decode(req *http.Request) (*collector.ExportTraceServiceRequest, error) {
	if req.Method != http.MethodPost || req.Header.Get("Content-Type") != "application/x-protobuf" {
		return nil, fmt.Errorf("%s with content type %q is not OTLP/HTTP in protobuf", req.Method, req.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if req.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		if body, err = io.ReadAll(z); err != nil {
			return nil, err
		}
	}
	request := &collector.ExportTraceServiceRequest{}
	if err := proto.Unmarshal(body, request); err != nil {
		return nil, fmt.Errorf("%d bytes that are no ExportTraceServiceRequest: %w", len(body), err)
	}
	return request, nil
}

// take returns what has arrived.
func (in *Inbox) take() ([]*collector.ExportTraceServiceRequest, []error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.requests, in.errs
}
