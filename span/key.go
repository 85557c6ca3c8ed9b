package span

// Attribute keys of Tare's own, wherever a span carries them. Those of the
// semantic conventions stand where they are used.
const (
	// What the agent says of a request; docs/agent.md.
	KeyBytesReceived = "tare.bytes.received"
	KeyBytesSent     = "tare.bytes.sent"
	KeyLinking       = "tare.linking"        // "none": what this service sends cannot be linked
	KeyLinkingReason = "tare.linking.reason" // why a call was not linked, as in tare_unlinked_total
	KeyBehind        = "tare.behind"         // server spans: the service that asked, which cannot link what it sends
	KeyUnfinished    = "tare.unfinished"     // bool: exported before the request was over
	KeyPipelined     = "tare.pipelined"      // bool
	KeyPeerTraced    = "tare.peer.traced"    // bool, client spans: the peer showed the mark of a traced one
	// Server spans: how many calls were begun for the request, each of which has
	// a client span below it. With KeyPeerTraced it tells whether a trace is
	// whole, without waiting for more.
	KeyCalls = "tare.calls" // int

	// Where in its connection's stream a request begins: bytes sent by the
	// client before it. Equal at both ends, so that a client span and its
	// server span find each other where no tag passed (ChainScope, 3.3).
	KeyStreamOffset = "tare.tcp.offset" // int; with network.local.* and network.peer.*

	// Message events: spans of no length, kind internal, named MessageReceived
	// and MessageSent, whose parent is the span of the request that the message
	// belongs to.
	KeyMessageBytes = "tare.message.bytes" // int

	// Where the collector makes span events of them, it takes the consecutive
	// ones of one direction together: as many pieces, the first at the event's
	// time and the last so much later.
	KeyMessagePieces   = "tare.message.pieces"      // int
	KeyMessageDuration = "tare.message.duration_ns" // int; of more than one piece

	// Where the agent sends message events only (events: only), that span never
	// comes: its id is known as the events' parent, and all else is pieced
	// together. The first event of a request carries kind and parent, and as its
	// tracestate the span's. When the request is over, one more event of no
	// length follows, named RequestEnded, also a child of the absent span: its
	// time is the span's end, its status the span's status, its attributes are
	// the span's besides the two keys here. The span begins with its first
	// message; its OTLP flags follow from kind and parent as in span/otlp. Order
	// holds as far as the way to the reader keeps it; the number of messages
	// tells whether all are there.
	KeyRequestParent   = "tare.request.parent"   // hex span id, "" at a root; first event
	KeyRequestKind     = "tare.request.kind"     // "server", "client"; first event
	KeyRequestName     = "tare.request.name"     // the span's name; RequestEnded
	KeyRequestMessages = "tare.request.messages" // int: message events sent of it; RequestEnded

	// What the collector found out about a trace. On the top span: the root, or
	// the earliest span where there is none.
	KeyTraceState  = "tare.trace.state"  // StateComplete, StateIncomplete
	KeyTraceReason = "tare.trace.reason" // why it is incomplete; several with commas between
	KeyKeepReason  = "tare.keep.reason"  // why a tail decision kept it

	// On single spans.
	KeyLate        = "tare.trace.late"      // bool: came after its trace was given out
	KeyClockOffset = "tare.clock.offset_ns" // int: what was added to its times
	KeyLinkedBy    = "tare.linked.by"       // "sequence": the parent was found by stream offsets
)

// States of a trace, KeyTraceState.
const (
	StateComplete   = "complete"
	StateIncomplete = "incomplete"
)

// Names of message events, and of what closes a request that has no span.
const (
	MessageReceived = "received"
	MessageSent     = "sent"
	RequestEnded    = "ended"
)
