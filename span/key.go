package span

// Attribute keys of Tare's own, wherever a span carries them. Those of the
// semantic conventions stand where they are used.
const (
	// What the agent says of a request; docs/agent.md.
	KeyBytesReceived = "tare.bytes.received"
	KeyBytesSent     = "tare.bytes.sent"
	KeyLinking       = "tare.linking"     // "none": what this service sends cannot be linked
	KeyPipelined     = "tare.pipelined"   // bool
	KeyPeerTraced    = "tare.peer.traced" // bool, client spans: the peer showed the mark of a traced one

	// Where in its connection's stream a request begins: bytes sent by the
	// client before it. Equal at both ends, so that a client span and its
	// server span find each other where no tag passed (ChainScope, 3.3).
	KeyStreamOffset = "tare.tcp.offset" // int; with network.local.* and network.peer.*

	// Message events: spans of no length, named "sent" and "received", whose
	// parent is the span of the request that the message belongs to.
	KeyMessageBytes  = "tare.message.bytes"  // int
	KeyRequestParent = "tare.request.parent" // hex span id, "" at a root; only where the request's own span is not sent
	KeyRequestKind   = "tare.request.kind"   // "server", "client"; likewise

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
