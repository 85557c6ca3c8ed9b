package store

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tare-trace/tare/span/semconv"
)

// Status selects traces by whether something failed in them.
type Status uint8

// The values of Query.Status.
const (
	AnyStatus Status = iota
	Failed           // the matching span has status error
	NotFailed        // it has not
)

// Query selects traces: those with at least one span that meets every
// condition. The zero value of a field is no condition.
type Query struct {
	Service     string
	Operation   string // span name; needs no Service
	Kind        int32  // OTLP's span kind, 0: any
	MinDuration time.Duration
	MaxDuration time.Duration
	Status      Status
	State       string // semconv.StateComplete, semconv.StateUnlinked, semconv.StateIncomplete
	// Retro: only traces that were kept retroactively for one of these reasons; RetroKept is for any.
	Retro      semconv.RetroSet
	Start, End time.Time // of the matching span's start; [Start, End)
	// Attributes of the span or its resource, compared as text.
	Attributes map[string]string
	// Conditions on attributes that compare in other ways.
	Conditions []Condition
	// Roots: only spans without a parent match.
	Roots bool
	// Calls: only calls to this service, or to this peer that is not traced, as
	// Store.Map counts them, match. Service is then the caller; the other
	// conditions apply to the span that measures the call.
	Calls string
	Limit int    // traces, default 20, at most 1000
	After string // Result.Next of the page before
	// Sort is the order of the traces. Only by time there are further pages.
	Sort Order
}

// Order is an order of traces.
type Order uint8

// The values of Query.Sort. A trace that came in several writes is ranked by the
// largest of what they had of it, until they are merged.
const (
	ByTime     Order = iota // the newest first
	ByDuration              // the longest first
	BySpans                 // those with the most spans first
)

// Result is a page of traces, in the order that was asked for.
type Result struct {
	Traces []Summary
	Next   string // for Query.After; "" at the end
	// Truncated: the search stopped at its time limit; it looked at everything
	// that is newer than Reached. Next goes on from there.
	Truncated bool
	Reached   time.Time
	// Damaged is how many chunks and traces could not be read, or not as a whole, and
	// may be missing here.
	Damaged int
}

// StateDamaged is the state of a trace in a list of which nothing more can be read.
const StateDamaged = "damaged"

// Summary is a trace in a list. It counts the spans that are stored.
type Summary struct {
	TraceID  pcommon.TraceID
	Root     string // name of the top span: the root, or the earliest
	Target   string // what it asked for, beside the name; see semconv.Target
	Service  string // its service
	Start    time.Time
	Duration time.Duration // from the first start to the last end
	Spans    int
	Errors   int            // spans with status error
	Services []ServiceCount // at most MaxServices: those with the most spans
	More     int            // services beyond these
	State    string         // semconv.StateComplete, semconv.StateUnlinked, semconv.StateIncomplete, "" if it was not checked
	Reason   string         // of an incomplete one
	Keep     string         // why a tail decision kept it
	Retro    semconv.RetroSet
	Weight   float64 // how many traces it stands for in estimates: 1 / its sampling probability; see package weight
}

// MaxServices is how many services of a trace are in its Summary.
const MaxServices = 50

// ServiceCount is how many spans of a trace are of one service.
type ServiceCount struct {
	Name   string
	Spans  int
	Errors int
}

// Service is a service that has spans stored.
type Service struct {
	Name  string
	Spans uint64
	Last  time.Time // start of its newest span
}

// Operation is a span name of a service.
type Operation struct {
	Name  string
	Kind  int32 // OTLP's span kind
	Spans uint64
}

// Latency is what the spans of one service, or of one of its operations, took
// within a time range. Quantiles are within 2% of the exact ones. Spans of traces
// that were kept retroactively are not among them, nor in a [Map] or [Series].
type Latency struct {
	Service   string
	Operation string // "" for all of the service's server and consumer spans and roots
	Kind      int32
	Count     uint64  // spans
	Weight    float64 // requests that they stand for
	Errors    float64 // of these
	P50, P95  time.Duration
	P99, Max  time.Duration
	Measured  bool // no span shows the service; agents measured its requests. Count is 0
}

// Map is who called whom within a time range.
type Map struct {
	Start, End time.Time
	Nodes      []Latency // one per service: its server and consumer spans and roots
	Edges      []Edge
	// MeasuredSince is when the earliest of what is Measured in it began; zero if nothing is.
	MeasuredSince time.Time
}

// Edge is the calls of one service to another. The callee is a service that
// sent spans itself, or a peer that did not: then Traced is false and To is
// what the client spans call it (peer.service, db.system.name with its
// address, server.address with its port).
type Edge struct {
	From, To string
	Traced   bool
	// Unlinked: none of the caller's calls is linked to its requests. The callee's own spans
	// measure those that are not, by which traces begin; they name the caller with at most 24 bytes.
	Unlinked bool
	// Measured: no span shows the call; agents measured it. Count is 0.
	Measured bool
	Count    uint64
	Weight   float64
	Errors   float64
	P50, P95 time.Duration // as the caller saw it, unless it is Unlinked
	P99      time.Duration
}

// Stats describes the whole store.
type Stats struct {
	Spans, Traces  uint64 // a trace of several writes counts for each until they are merged
	Bytes          uint64 // on disk
	Oldest, Newest time.Time
	Written        uint64 // spans since the store was opened
	Expired        uint64 // spans that retention removed since then
	Overdue        uint64 // spans of services with a retention of their own in chunks of which some of them have expired: at most so many have, and are on the disk
	Refused        uint64 // spans not taken: disk full, closed
	Version        int
}
