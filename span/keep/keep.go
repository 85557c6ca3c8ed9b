// Package keep is the protocol between agents and a coordinator of retroactive sampling: agents say which traces they
// keep, and hear which traces others keep. It holds no state and sends nothing.
//
// A request is a POST of JSON to [Path] (of [KeepPath]: [DecodeKeep]):
//
//	{
//	  "instance": "node-1/5f3a91c2",                   who asks; it does not hear its own keeps
//	  "after": {"epoch": 1764523613000000, "n": 4711}, the position of the last answer, {} at first;
//	                                                   without it the request only sends keeps
//	  "wait": 10000,                                   milliseconds to wait for a keep of others, at most 10,000
//	  "keeps": [{
//	    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
//	    "service": "shop",                             optional
//	    "reason": "error",                             error, slow, no_response, reset, open, outside or capture
//	    "ago": 1500,                                   optional, milliseconds: how long before that its request began
//	    "time": "2026-11-30T12:00:00.5Z"               optional, RFC 3339: when the agent decided, by its own clock
//	  }]
//	}
//
// The answer has the keeps of others behind the position, without their times:
//
//	{"after": {"epoch": 1764523613000000, "n": 4712}, "keeps": [{"trace_id": "…", "reason": "slow"}], "limited": 0}
//
// "limited" is how many of the request's keeps were dropped, because there are more than the coordinator passes on. An
// epoch is one run of a coordinator: to a position of another epoch it answers with all that it still has.
package keep

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/text"
)

// Paths of a coordinator.
const (
	Path     = "/v1/retro"
	KeepPath = "/v1/retro/keep" // for who is no agent: a log pipeline, an SDK, an alert
)

// Bounds that both sides keep.
const (
	MaxBody     = 64 << 10 // bytes of a request
	MaxKeeps    = 1000     // of a request, and of an answer
	MaxInstance = 128      // bytes
	MaxService  = 128      // bytes; longer names are cut by [text.Name]
	MaxWait     = 10 * time.Second
	MaxAge      = time.Minute // how long a keep is passed on
)

const maxAgo = 1 << 32 // ms

// Reason is why a trace is kept.
type Reason string

// The reasons.
const (
	Error      Reason = "error"       // a server answered with an error
	Slow       Reason = "slow"        // a request took longer than its operation usually does
	NoResponse Reason = "no_response" // a connection ended with a request in flight
	Reset      Reason = "reset"       // so did a stream, or a peer reset the connection
	Open       Reason = "open"        // a request is in flight for longer than the limit
	Outside    Reason = "outside"     // somebody outside asked for it by its trace id
	Capture    Reason = "capture"     // somebody asked for all that a service did lately
)

// Reasons returns all of them.
func Reasons() []Reason { return []Reason{Error, Slow, NoResponse, Reset, Open, Outside, Capture} }

// Valid reports whether it is one of these.
func (r Reason) Valid() bool { return slices.Contains(Reasons(), r) }

// Keep says that a trace is to be kept.
type Keep struct {
	TraceID span.TraceID
	Service string // that asked; may be empty
	Reason  Reason
	Ago     time.Duration // how long before the decision the request began that showed why; 0: unknown
	Time    time.Time     // when, by the clock of who asked: it is not compared with other clocks; zero: unknown
}

// encoded is a Keep in JSON.
type encoded struct {
	TraceID string    `json:"trace_id"`
	Service string    `json:"service,omitempty"`
	Reason  Reason    `json:"reason,omitempty"`
	Ago     int64     `json:"ago,omitempty"` // ms
	Time    time.Time `json:"time,omitzero"`
}

// MarshalJSON encodes a keep.
func (k Keep) MarshalJSON() ([]byte, error) {
	return json.Marshal(encoded{k.TraceID.String(), k.Service, k.Reason, k.Ago.Milliseconds(), k.Time})
}

// UnmarshalJSON decodes a keep. It accepts unknown reasons, which a newer coordinator may pass on.
func (k *Keep) UnmarshalJSON(b []byte) error {
	var e encoded
	if err := json.Unmarshal(b, &e); err != nil {
		return err
	}
	id, err := hex.DecodeString(e.TraceID)
	if err != nil || len(id) != len(k.TraceID) || span.TraceID(id).IsZero() {
		return fmt.Errorf("trace_id %.64q is not 32 hexadecimal digits that are not all 0", e.TraceID)
	}
	*k = Keep{span.TraceID(id), text.Name(e.Service, MaxService), e.Reason, time.Duration(min(max(e.Ago, 0), maxAgo)) * time.Millisecond, e.Time}
	return nil
}

// Position is how far an agent has heard: N keeps of an epoch.
type Position struct {
	Epoch uint64 `json:"epoch"` // when the coordinator started, in microseconds since 1970
	N     uint64 `json:"n"`
}

// Request of an agent.
type Request struct {
	Instance string    `json:"instance"`
	After    *Position `json:"after,omitempty"` // nil: only sends
	Wait     int       `json:"wait,omitempty"`  // milliseconds
	Keeps    []Keep    `json:"keeps,omitempty"`
}

// Answer of a coordinator.
type Answer struct {
	After   Position `json:"after,omitzero"` // zero: the request had none
	Keeps   []Keep   `json:"keeps,omitempty"`
	Limited int      `json:"limited"` // of the request's keeps
}

// Decode reads the body of a request to [Path]. An error says what is wrong with it.
func Decode(body []byte) (Request, error) {
	var r Request
	if err := json.Unmarshal(body, &r); err != nil {
		return Request{}, fmt.Errorf("the body is not a request in JSON: %w", err)
	}
	switch {
	case r.Instance == "" || len(r.Instance) > MaxInstance:
		return Request{}, fmt.Errorf("instance has %d bytes: allowed are 1 to %d", len(r.Instance), MaxInstance)
	case r.Wait < 0:
		return Request{}, fmt.Errorf("wait is %d: it is a number of milliseconds, 0 for none", r.Wait)
	case len(r.Keeps) > MaxKeeps:
		return Request{}, fmt.Errorf("there are %d keeps: at most %d fit in a request", len(r.Keeps), MaxKeeps)
	}
	for i, k := range r.Keeps {
		if !k.Reason.Valid() {
			return Request{}, fmt.Errorf("keep %d: reason %.64q is not one of error, slow, no_response, reset, open, outside, capture", i+1, k.Reason)
		}
	}
	r.Wait = min(r.Wait, int(MaxWait.Milliseconds()))
	return r, nil
}

// DecodeKeep reads the body of a request to [KeepPath]: trace_id, and perhaps service. The reason is Outside.
func DecodeKeep(body []byte) (Keep, error) {
	var k Keep
	if err := json.Unmarshal(body, &k); err != nil {
		return Keep{}, fmt.Errorf("the body is not JSON with a trace_id: %w", err)
	}
	k.Reason = Outside
	return k, nil
}
