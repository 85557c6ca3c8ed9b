// Package coordinator is an agent's connection to the coordinators of retroactive sampling, which are collectors with
// the extension tare_retro: it tells them which traces this agent keeps, and hears which traces others keep. Package
// span/keep has the protocol.
//
// It never blocks its caller. While a coordinator is away, keeps wait for it for 30 s in a bounded queue; what finds no
// room or gets too old is dropped and counted. It does not decide which traces are kept, and it does not remember them:
// with several coordinators it hears of a trace from each.
package coordinator

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-trace/tare/span/keep"
	"github.com/tare-trace/tare/span/text"
)

const maxAnswer = 1 << 20 // bytes: 1,000 keeps take 300 KB at most

// Options of a Client.
type Options struct {
	// Endpoints are URLs of coordinators, such as https://collector:4319; the path /v1/retro is added where there is none.
	Endpoints []string
	Headers   map[string]string // of each request, such as Authorization
	TLS       *tls.Config       // nil: Go's defaults
	// Instance names the agent; New makes it unique, so that an agent hears what its predecessor kept.
	Instance string
	// Kept is called with what other agents keep. It is called from a goroutine for each endpoint, must not block for
	// long, and may get the same trace more than once.
	Kept func([]keep.Keep)
	Log  *slog.Logger // nil: silent
}

// Stats count keeps, of each endpoint.
type Stats struct {
	Endpoints, Reachable int
	Sent                 uint64 // taken by a coordinator
	Limited              uint64 // of those: not passed on, since there were too many
	Dropped              uint64 // not sent: no room, too old, or refused
	Received             uint64
}

// Client talks to all endpoints at once.
type Client struct {
	options   Options
	http      *http.Client
	endpoints []*endpoint

	sent, limited, dropped, received atomic.Uint64
}

// New makes a client, which does nothing until Run. The error says what is wrong with an endpoint.
func New(o Options) (*Client, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Kept == nil {
		o.Kept = func([]keep.Keep) {}
	}
	var unique [8]byte
	_, _ = rand.Read(unique[:]) // never fails
	o.Instance = text.Name(o.Instance, keep.MaxInstance-1-2*len(unique)) + "/" + hex.EncodeToString(unique[:])
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = o.TLS.Clone()
	c := &Client{options: o, http: &http.Client{
		Transport: transport,
		// A redirect would carry the headers to where nobody sent them.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, given := range o.Endpoints {
		u, err := url.Parse(given)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil:
			return nil, errors.New("an endpoint of a coordinator is not a URL such as https://collector:4319 without a user") // it may have a password
		case u.Scheme == "http" && o.TLS != nil:
			return nil, fmt.Errorf("certificates are configured, but the coordinator's endpoint %s is http: use https", u)
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = keep.Path
		}
		c.endpoints = append(c.endpoints, &endpoint{client: c, url: u.String(), wake: make(chan struct{}, 1)})
	}
	return c, nil
}

// Keep tells all coordinators that this agent keeps a trace. It does not block.
func (c *Client) Keep(k keep.Keep) {
	k.Service = text.Name(strings.ToValidUTF8(k.Service, "\ufffd"), keep.MaxService)
	now := time.Now()
	for _, e := range c.endpoints {
		if !e.queue(queued{k, now}) {
			c.dropped.Add(1)
		}
	}
}

// Run sends and receives until ctx ends. Then it sends what is queued once more, for a second at most.
func (c *Client) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, e := range c.endpoints {
		running.Go(func() { e.receive(ctx) })
		running.Go(func() { e.send(ctx) })
	}
	running.Wait()
	c.http.CloseIdleConnections()
}

// Stats returns the counts.
func (c *Client) Stats() Stats {
	s := Stats{
		Endpoints: len(c.endpoints), Sent: c.sent.Load(), Limited: c.limited.Load(),
		Dropped: c.dropped.Load(), Received: c.received.Load(),
	}
	for _, e := range c.endpoints {
		if e.up.Load() {
			s.Reachable++
		}
	}
	return s
}

// statusError is an answer without success.
type statusError struct {
	status int
	reason string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.reason) }

// post sends a request and reads its answer.
func (c *Client) post(ctx context.Context, to string, timeout time.Duration, r keep.Request) (keep.Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	r.Instance = c.options.Instance
	body, err := json.Marshal(r)
	if err != nil {
		return keep.Answer{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return keep.Answer{}, err
	}
	for k, v := range c.options.Headers {
		request.Header.Set(k, v)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return keep.Answer{}, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case response.StatusCode != http.StatusOK:
		return keep.Answer{}, &statusError{response.StatusCode, text.Value(strings.TrimSpace(string(b)), 200)}
	case err != nil:
		return keep.Answer{}, err
	}
	var a keep.Answer
	if err := json.Unmarshal(b, &a); err != nil {
		return keep.Answer{}, fmt.Errorf("the answer is not a coordinator's: %w", err)
	}
	return a, nil
}
