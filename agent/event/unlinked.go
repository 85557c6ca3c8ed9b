package event

import "github.com/tare-trace/tare/bpf"

// unlinked are the names of enum unlinked, as metrics and spans have them, and
// what they say of a service whose sends are not linked any more.
var unlinked = [bpf.TareUnlinkedTARE_UNLINKED_MAX]struct{ name, why string }{
	bpf.TareUnlinkedTARE_UNLINKED_RUNTIME:     {"runtime", "its runtime is not linked"},
	bpf.TareUnlinkedTARE_UNLINKED_OVERLAP:     {"overlap", "a thread received a request while it worked for another"},
	bpf.TareUnlinkedTARE_UNLINKED_HANDED_OVER: {"handed_over", "a thread answered a request that another had received"},
	bpf.TareUnlinkedTARE_UNLINKED_STACK:       {"stack", "a thread runs on stacks that are not its own, and not told apart: coroutines"},
	bpf.TareUnlinkedTARE_UNLINKED_EPOLL:       {"epoll", "sent on a socket that an event loop watches"},
	bpf.TareUnlinkedTARE_UNLINKED_NO_REQUEST:  {"no_request", "sent by a thread that works for no request"},
	bpf.TareUnlinkedTARE_UNLINKED_CHILD:       {"child_thread", "sent by a thread or a process that a request started, and that may be a pool's"},
	bpf.TareUnlinkedTARE_UNLINKED_STALE:       {"stale", "sent after the response, or after the event loop slept"},
	bpf.TareUnlinkedTARE_UNLINKED_OVERFLOW:    {"overflow", "too many requests waited on a thread"},
	bpf.TareUnlinkedTARE_UNLINKED_AMBIGUOUS:   {"ambiguous", "several waiting requests look the same"},
	bpf.TareUnlinkedTARE_UNLINKED_NO_MATCH:    {"no_match", "no waiting request looks like what was sent"},
	bpf.TareUnlinkedTARE_UNLINKED_LOOP:        {"loop", "a thread waits for connections while a request is unanswered: an event loop"},
	bpf.TareUnlinkedTARE_UNLINKED_TASK:        {"task", "which task or virtual thread runs cannot be read, or not yet"},
	bpf.TareUnlinkedTARE_UNLINKED_SHARED:      {"shared", "sent on a connection whose previous request was not answered: who sends may not be who asks"},
	bpf.TareUnlinkedTARE_UNLINKED_UNPROVEN:    {"unproven", "no thread of the service was seen to wait for an answer alone yet, nor to leave a coroutine that waits for one"},
	bpf.TareUnlinkedTARE_UNLINKED_UNWATCHED:   {"unwatched", "a name was looked up, or an event loop began to use UDP or unix sockets, before what sees that was attached"},
	bpf.TareUnlinkedTARE_UNLINKED_QUIC:        {"quic", "a connection of QUIC was begun"},
	bpf.TareUnlinkedTARE_UNLINKED_HEADER:      {"header", "several requests have, had or may have the value of its correlation header"},
	bpf.TareUnlinkedTARE_UNLINKED_HTTP2:       {"http2", "sent over HTTP/2 by a runtime whose streams are not linked, or for a request over HTTP/2 that is not seen"},
}

// UnlinkedName is the name of a reason of enum unlinked; "" of none.
func UnlinkedName(reason uint32) string {
	if reason < uint32(len(unlinked)) {
		return unlinked[reason].name
	}
	return ""
}

// UnlinkedWhy explains a reason of enum unlinked.
func UnlinkedWhy(reason uint32) string {
	if reason < uint32(len(unlinked)) {
		return unlinked[reason].why
	}
	return ""
}
