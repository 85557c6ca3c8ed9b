// Package semconv names the attributes of Tare's own, wherever a span carries them,
// their values, and what of OpenTelemetry's semantic conventions is needed in more
// than one place. Other keys of the conventions stand where they are used.
package semconv

// Attribute keys.
const (
	// On the agent's spans, one per request; docs/agent.md.
	BytesReceived = "tare.bytes.received"
	BytesSent     = "tare.bytes.sent"
	Linking       = "tare.linking"        // LinkingNone, LinkingUncertain, LinkingHeader
	LinkingReason = "tare.linking.reason" // why a call was not linked, as in tare_unlinked_total
	Behind        = "tare.behind"         // roots: the service that asked, which cannot link what it sends
	Unfinished    = "tare.unfinished"     // bool: exported before the request was over
	Pipelined     = "tare.pipelined"      // bool
	PeerTraced    = "tare.peer.traced"    // bool, client spans: the peer showed the mark of a traced one
	// Server spans: how many calls were begun for the request, each of which has
	// a client span below it. With PeerTraced it tells whether a trace is
	// whole, without waiting for more.
	Calls = "tare.calls" // int

	// What an SDK in the service had as its current span: the span's own, of the same
	// request or call, or one around it. It is also the span's link.
	SDKTrace = "tare.sdk.trace_id" // hex
	SDKSpan  = "tare.sdk.span_id"  // hex
	// Which of the two is to be kept, by a rule for the service; only where the SDK has
	// sampled its span and it is of the same trace. For the collector, which takes it away.
	SDKKeep = "tare.sdk.keep" // KeepSDK, KeepTare

	// url.path, and the path in url.full, end where the bytes end that the agent saw of
	// the request: the path is longer.
	PathCut = "tare.url.path.cut" // bool

	// Where in its connection's stream a request begins: bytes sent by the
	// client before it. Equal at both ends, so that a client span and its
	// server span find each other where no tag passed (ChainScope, 3.3).
	StreamOffset = "tare.tcp.offset" // int; with network.local.* and network.peer.*
	// The request's first byte's sequence number, equal at both ends too unless a
	// device between them changes it. It tells a connection from an earlier one
	// between the same ports.
	StreamSequence = "tare.tcp.sequence" // int

	// Message events: spans of no length, kind internal, named MessageReceived
	// and MessageSent, whose parent is the span of the request that the message
	// belongs to.
	MessageBytes = "tare.message.bytes" // int

	// Where the collector makes span events of them, it joins consecutive ones of
	// one direction to one event: how many there were, and how long after the
	// event's time the last of them was.
	MessagePieces   = "tare.message.pieces"      // int
	MessageDuration = "tare.message.duration_ns" // int; of more than one piece

	// Where the agent sends message events only (events: only), there is no such
	// span. A reader can assemble it: its id is the events' parent. The first event
	// of a request carries the span's kind, parent and tracestate. When the request
	// is over, one more event of no length follows, named RequestEnded, also a child
	// of the absent span: its time is the span's end, its status the span's status,
	// its attributes are the span's besides the two keys here. The span begins with its first
	// message; its OTLP flags follow from kind and parent as in span/otlp. Events
	// may arrive in another order; the number of messages tells whether all have
	// arrived.
	RequestParent   = "tare.request.parent"   // hex span id, "" at a root; first event
	RequestKind     = "tare.request.kind"     // "server", "client"; first event
	RequestName     = "tare.request.name"     // the span's name; RequestEnded
	RequestMessages = "tare.request.messages" // int: message events sent of it; RequestEnded

	// What the collector found out about a trace. On the top span: the root, or
	// the earliest span where there is none.
	TraceState  = "tare.trace.state"  // StateComplete, StateUnlinked, StateIncomplete
	TraceReason = "tare.trace.reason" // why it is not complete; several with commas between
	KeepReason  = "tare.keep.reason"  // why a tail decision kept it

	// On single spans.
	Late        = "tare.trace.late"      // bool: arrived after its trace had been sent on
	ClockOffset = "tare.clock.offset_ns" // int: what was added to its times
	LinkedBy    = "tare.linked.by"       // "sequence": the parent was found by stream offsets

	// On spans, resources, scopes and log records of which a receiver cut something that was too long or too many:
	// name, key, value, attributes, events, links, tracestate, with commas between.
	Cut = "tare.cut"
)

// Values of Linking, on server spans; LinkingHeader also on client spans.
const (
	LinkingNone      = "none"      // what the service sent for this request is not linked to it, or may not be
	LinkingHeader    = "header"    // calls of it are linked by a header that the service forwards; the client span: it is
	LinkingUncertain = "uncertain" // calls of it are linked, and others that the service made meanwhile are not
)

// Values of SDKKeep.
const (
	KeepSDK  = "sdk"
	KeepTare = "tare"
)

// States of a trace, TraceState.
const (
	StateComplete   = "complete"
	StateUnlinked   = "unlinked" // nothing is missing that could be linked; it may be a part of what its request caused
	StateIncomplete = "incomplete"
)

// Reasons of StateUnlinked. Each is followed by "=" and the name of a service.
const (
	EndsAt       = "ends_at"       // the service sent something for the request that was not linked to it
	MayEndAt     = "may_end_at"    // the same, where it may as well have been for another request
	BeginsBehind = "begins_behind" // the service asked, and cannot link what it sends
)

// Names of message events, and of what closes a request that has no span.
const (
	MessageReceived = "received"
	MessageSent     = "sent"
	RequestEnded    = "ended"
)
