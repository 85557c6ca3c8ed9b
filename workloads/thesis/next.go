package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/tare-trace/tare/workloads/internal/service"
)

// idleConnections to the next service are kept: as many as requests may be in
// flight, since http.DefaultTransport's two would make most calls connect anew.
const idleConnections = 1024

// next is the service that each request is passed on to before it is answered.
type next struct {
	base   string
	client *http.Client
}

// newNext is nil if there is none. Its calls are instrumented as the service's
// own requests are.
func newNext(s settings, tracing *service.Tracing) *next {
	if s.next == "" {
		return nil
	}
	var transport http.RoundTripper = &http.Transport{MaxIdleConnsPerHost: idleConnections}
	switch {
	case s.tracing:
		transport = tracing.Transport(transport)
	case s.baseline == noop:
		transport = otelhttp.NewTransport(transport)
	}
	return &next{strings.TrimSuffix(s.next, "/"), &http.Client{Transport: transport}}
}

// first asks the next service for what it was asked for itself, then lets h
// answer. It answers 502 where the next one does not answer with 2xx. All
// faults that this service injects come afterwards, so that each trace has the
// spans of all services.
func (n *next) first(h http.Handler) http.Handler {
	if n == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := n.ask(r); err != nil {
			service.WriteError(w, http.StatusBadGateway, err.Error())
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (n *next) ask(r *http.Request) error {
	url := n.base + r.URL.RequestURI()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return fmt.Errorf("NEXT: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("NEXT: %s: %w", url, err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("NEXT: %s: %s", url, resp.Status)
	}
	return nil
}
