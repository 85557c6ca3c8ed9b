// Package load drives an HTTP/1.1 server, with an open loop at a constant rate
// or with a closed one, and tells the server's share in its numbers from its
// own. It also runs ApacheBench (ab), which published results come from.
//
// An open loop (Options.Rate) has request k due at start + k/Rate, whatever the
// server does, and counts latency from then: a server that stalls is charged
// with every request that was due meanwhile, not only with those that happened
// to be under way (coordinated omission). A closed loop sends the next request
// of a connection when the answer to the last one is there; it finds the
// saturated throughput and the CPU per request, and its latencies are those of
// a server that is never overloaded.
//
// It uses little CPU, because it shares the machine with the server: see loop.
//
// It refuses to be an HTTP client: no TLS, no redirects, no pipelining, and it
// never sends one request number twice, so a failed request is not retried.
package load

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Options describe one run. Addr, Connections and AppendPath are required,
// and so is an end: Requests, Duration or both (what comes first).
type Options struct {
	Addr        string        // host:port, TCP; names are looked up once, by Start
	Connections int           // requests in flight, at most
	Requests    uint64        // how many to send; 0: until Duration
	Duration    time.Duration // how long to begin new requests; 0: until Requests
	First       uint64        // the number of the first request
	Close       bool          // one connection per request
	BodySize    int           // bytes of body to send with POST; 0: GET, unless there is AppendBody
	Timeout     time.Duration // of one request, from when it is sent; 0: 10 s

	// Rate in requests/s makes it an open loop: request k is due k/Rate after
	// the start, and latency counts from then. When all connections are busy,
	// due requests wait and are sent in their order as soon as one is free;
	// those that still wait at the end are counted in Result.Unsent. 0: closed
	// loop. At most MaxRate.
	Rate float64

	// LagLimit is the p99 of Result.Lag above which Result.Limits names the
	// generator as late. 0: 1 ms.
	LagLimit time.Duration

	// Header is sent with every request, in the order of the names. Names must
	// be tokens and values without control characters (RFC 9110, 5.5). Host and
	// User-Agent replace the generator's own; Connection, Content-Length and
	// Transfer-Encoding are refused: they are the generator's business.
	Header map[string]string

	// AppendPath appends the path of request n to dst. It may be called by
	// several goroutines, and the load waits for it: it must not block.
	AppendPath func(dst []byte, n uint64) []byte

	// AppendHeader, if set, appends fields of request n to dst, each with the
	// line end behind it. It may be called by several goroutines, and the load
	// waits for it: it must not block.
	AppendHeader func(dst []byte, n uint64) []byte

	// AppendBody, if set, makes every request a POST and appends the body of
	// request n to dst. It may be called by several goroutines, and the load
	// waits for it: it must not block. Header should have its Content-Type.
	AppendBody func(dst []byte, n uint64) []byte

	// Check, if set, sees the body of every 2xx answer; an error makes the
	// request a failed one. body is only valid during the call. It may be
	// called by several goroutines, and the load waits for it: it must not
	// block.
	Check func(n uint64, body []byte) error

	// Progress, if set, is called about every ProgressEvery (0: 500 ms), and
	// never by two goroutines at once.
	Progress      func(ok, failed uint64)
	ProgressEvery time.Duration
}

// MaxRate of an open loop in requests/s: beyond it, due times would be closer
// than the clock's steps are meaningful.
const MaxRate = 1e7

func (o *Options) validate() error {
	switch {
	case o.Addr == "":
		return errors.New("load: no address")
	case o.Connections < 1:
		return errors.New("load: need at least one connection")
	case o.AppendPath == nil:
		return errors.New("load: no AppendPath")
	case o.Requests == 0 && o.Duration == 0:
		return errors.New("load: need an end: Requests or Duration")
	case o.Duration < 0 || o.Timeout < 0 || o.LagLimit < 0:
		return errors.New("load: negative duration")
	case o.BodySize < 0:
		return errors.New("load: negative body size")
	case o.BodySize > 0 && o.AppendBody != nil:
		return errors.New("load: both BodySize and AppendBody: choose one")
	case math.IsNaN(o.Rate) || o.Rate < 0 || o.Rate > MaxRate:
		return fmt.Errorf("load: rate %g: want 0 (closed loop) to %g requests/s", o.Rate, float64(MaxRate))
	}
	if err := validateHeader(o.Header); err != nil {
		return err
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.LagLimit == 0 {
		o.LagLimit = time.Millisecond
	}
	if o.ProgressEvery == 0 {
		o.ProgressEvery = 500 * time.Millisecond
	}
	return nil
}
