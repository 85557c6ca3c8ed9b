/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The records that the kernel side hands to the agent, and every constant that both sides know.
 * Types and constants only. C owns the layout; Go's types are generated from it (bpf2go), and a
 * test compares the sizes.
 *
 * A span's life in records, all keyed by the span id that the kernel drew:
 *
 *	START  request received (server) or sent (client), with its context and its socket
 *	DATA   more bytes of the request, or bytes of the response (its first are marked)
 *	END    nothing more will come: next request on the socket, socket closed
 *	PATH   where its connection leads, if that is over a unix socket
 *	PUBLISHED  which span of an SDK in the process is current: published.bpf.h
 *
 * A START that follows on the same socket stands for the END of the span before it.
 *
 * Only sampled requests produce records.
 */
#ifndef TARE_EVENT_H
#define TARE_EVENT_H

#include "bucket.h"

enum record_type {
	TARE_START = 1,
	TARE_DATA = 2,
	TARE_END = 3,
	TARE_PUBLISHED = 4,
	TARE_PATH = 5,
};

enum control_type {
	TARE_EXEC = 1,	 /* a process runs a new executable */
	TARE_EXIT = 2,	 /* a traced process is gone */
	TARE_LISTEN = 3, /* a process that is not traced listens */
	TARE_LINKS = 4,	 /* what a service sends is linked; for TARE_LINK_AUTO, at the first link */
	TARE_REFUSED = 5,  /* it will not be linked any more, with the reason */
	TARE_UNREAD = 7,   /* a process's runtime is to be read; of Go, tables of code (reason) */
	TARE_UNPROVEN = 6, /* the hook where threads are switched is wanted; proof.bpf.h */
	TARE_LOOKS_UP = 8, /* a traced process looks names up: the hooks for that are wanted */
	TARE_UNIX = 9,	   /* one connects to a unix socket, or asks over one: likewise */
	TARE_DISARMED =
	    10, /* connections of netns have lost their sock_ops flags to another program */
	TARE_TURNS =
	    11, /* an event loop may receive what is not TCP's: the hooks for that are wanted */
	TARE_MPTCP = 12, /* a service has a connection over MPTCP; once for each service */
};

enum role {
	TARE_SERVER = 1, /* accepted socket */
	TARE_CLIENT = 2, /* connected socket */
};

enum direction {
	TARE_RECEIVED = 1,
	TARE_SENT = 2,
	TARE_NO_LAST_CHUNK =
	    4, /* with one of them: the bytes do not end as a body in chunks does */
};

/* How a service's receives are linked to its sends. The numbers are part of the loader's API. */
enum linking {
	TARE_LINK_AUTO = 0,   /* thread, under the guard (guard.bpf.h): none once it has evidence */
	TARE_LINK_THREAD = 1, /* one request at a time per thread, run to completion */
	TARE_LINK_LOOP = 2,   /* event loop: a receive is followed by what it causes */
	TARE_LINK_NONE = 3,   /* cannot be linked: server spans only */
	TARE_LINK_QUEUE =
	    4, /* event loop: several receives, then what they cause, see queue.bpf.h */
	TARE_LINK_GOROUTINE = 5, /* Go: golang.bpf.h */
	TARE_LINK_TASK = 6,	 /* Java, Python: task.bpf.h; what runs no task, as auto */
};

/* What carries the context of a request between hosts. */
enum tag_carrier {
	TARE_TAG_TCP = 0,  /* a TCP option */
	TARE_TAG_NONE = 1, /* nothing: a collector finds out which spans belong together */
	TARE_TAG_IP = 2,   /* an option of the IP header */
};

/*
 * Why something that a service sent was not linked to the request that caused it. The numbers
 * stand in records: DATA carries the reason for its request.
 */
enum unlinked {
	TARE_UNLINKED_NOT = 0,
	TARE_UNLINKED_RUNTIME,	   /* the service's runtime is not linked, or the user said so */
	TARE_UNLINKED_OVERLAP,	   /* its threads receive requests while they work for others */
	TARE_UNLINKED_HANDED_OVER, /* its threads answer requests that other threads received */
	TARE_UNLINKED_STACK,	  /* its threads run on stacks that are not their own: coroutines */
	TARE_UNLINKED_EPOLL,	  /* sent on a socket that an event loop watches */
	TARE_UNLINKED_NO_REQUEST, /* sent by a thread that works for no request */
	TARE_UNLINKED_CHILD,	  /* by a thread that a request started, and that may be a pool's */
	TARE_UNLINKED_STALE,	  /* after the response, or after the event loop slept */
	TARE_UNLINKED_OVERFLOW,	  /* too many requests waited on the thread */
	TARE_UNLINKED_AMBIGUOUS,  /* several waiting requests look the same */
	TARE_UNLINKED_NO_MATCH,	  /* no waiting request looks like it */
	TARE_UNLINKED_HTTP2,	  /* on an HTTP/2 connection: streams are not told apart */
	TARE_UNLINKED_LOOP,	  /* its threads wait for connections while they work */
	TARE_UNLINKED_TASK,	  /* which task runs cannot be read, or not yet */
	TARE_UNLINKED_SHARED,	  /* on a connection whose previous request is not answered */
	TARE_UNLINKED_UNPROVEN,	  /* no thread of the service was seen to wait for an answer yet */
	TARE_UNLINKED_UNWATCHED, /* a look-up of a name, or what a loop goes on with, before the hooks
				     for that were attached */
	TARE_UNLINKED_QUIC,	 /* a connection of QUIC was begun */
	TARE_UNLINKED_HEADER,	 /* several requests have, or may have, the value of its header */
	TARE_UNLINKED_MAX,
};

enum start_flags {
	TARE_F_ROOT = 1 << 0,	   /* sampled here: no parent */
	TARE_F_TAG = 1 << 1,	   /* the parent came in a TCP option */
	TARE_F_ADOPTED = 1 << 2,   /* the parent came in a traceparent header */
	TARE_F_UNTAGGED = 1 << 3,  /* client: nothing leaves: no trust, no carrier */
	TARE_F_PIPELINED = 1 << 4, /* began before the response to the one before it */
	TARE_F_UNLINKED = 1 << 5,  /* server: this service's sends cannot be linked */
	TARE_F_HEADER = 1 << 5,	   /* client: linked by a correlation header */
	TARE_F_BEHIND = 1 << 6,	   /* server: asked by a service whose sends cannot be linked */
	TARE_F_HTTP2 = 1 << 7,	   /* a stream: the payload is its HEADERS frame */
};

enum transport {
	TARE_OVER_TCP = 0,
	TARE_OVER_UDP = 1,  /* a look-up of a name; dns.bpf.h */
	TARE_OVER_UNIX = 2, /* unix.bpf.h; PATH follows */
};

/* What is believed of a network, in the table of trusted ones. */
enum trust {
	TARE_TRUSTED = 1,
	TARE_NEAR = 2, /* it may be of this host: trusted where both ends are found to be */
};

/* How long a look-up waits for its answer; then it has none. */
enum lookup_limit {
	TARE_LOOKUP_SECONDS = 30,
};

enum data_flags {
	TARE_D_FIRST = 1 << 0,	     /* the response begins here */
	TARE_D_PEER_TRACED = 1 << 1, /* client: the peer's mark has come */
	TARE_D_HEADERS = 1 << 2,     /* the payload is a HEADERS frame */
};

/*
 * A HEADERS frame (RFC 9113 6.2) comes with a number in the place of its stream: how many have come
 * before it on the connection in the same direction, those without a record included. Only who has
 * seen all can decode the next. One that comes in pieces is several records, each with the frame's
 * header; from the second on its type is TARE_FRAME_REST. Those of a stream without a span come with
 * TARE_START and span id 0, of TARE_SERVER if a request's, else of TARE_CLIENT.
 */
#define TARE_FRAME_REST 0xff
#define TARE_FRAME_PATH 0xfe /* no frame: behind the header is the path of a gRPC call */

/*
 * With TARE_D_FIRST of a server span, in the upper bits of its flags: enum unlinked, if the
 * service sent something while the request was in flight that was not linked.
 */
#define TARE_D_UNLINKED_SHIFT 3

enum end_reason {
	TARE_END_NEXT = 1,	/* the next request on the socket began */
	TARE_END_CLOSED = 2,	/* the socket was closed */
	TARE_END_PIPELINED = 3, /* another request was sent before the response */
	TARE_END_STREAM = 4,	/* the response is whole: HTTP/2 says so */
	TARE_END_LOST = 5,	/* what goes on is not seen any more */
	TARE_END_SWITCHED = 6,	/* what goes on is another protocol: status 101 */
};

#define TARE_PAYLOAD_START 192 /* bytes of a request's beginning */
#define TARE_PAYLOAD_DATA  48  /* bytes of a response's beginning */
#define TARE_PAYLOAD_HEAD  248 /* the same of HTTP/1: its header says where it ends */
#define TARE_UNIX_PATH	   108
#define TARE_NAME	   24 /* bytes of a service's name that a peer is told */

struct start_record {
	__u8 type; /* TARE_START */
	__u8 role;
	__u8 flags;
	__u8 family; /* AF_INET or AF_INET6 */
	__u16 payload_len;
	__u16 service; /* index that the agent gave */
	__u64 ts;      /* ns, CLOCK_MONOTONIC */
	__u64 span_id; /* wire order, as are the other ids */
	__u64 trace_hi;
	__u64 trace_lo;
	__u64 parent_id; /* 0: none */
	__u64 ends;	 /* span that ends with this, 0: none */
	__u64 threshold; /* at the root decision, TARE_F_ROOT */
	__u32 tgid;
	__u32 tid;
	__u64 connection; /* TARE_F_HTTP2: random, never another's */
	__u64 offset;	  /* bytes that the client had sent before; 0 unless cfg_sequence */
	__u32 sequence;	  /* number of the first byte; 0 likewise */
	__u32 transport;  /* enum transport */
	__u32 bytes;	  /* of this message so far */
	__u16 local_port;
	__u16 remote_port;
	__u8 local[16]; /* IPv4: the first 4 bytes */
	__u8 remote[16];
	__u8 behind[TARE_NAME]; /* TARE_F_BEHIND: the peer's name, zeroes behind it */
	__u8 payload[TARE_PAYLOAD_START];
};

struct data_record {
	__u8 type; /* TARE_DATA */
	__u8 direction;
	__u8 flags; /* enum data_flags */
	__u8 payload_len;
	__u32 bytes;
	__u64 ts;
	__u64 span_id;
	__u8 payload[TARE_PAYLOAD_HEAD];
};

/* TARE_DATA records without the payload, to keep long bodies cheap, and with most responses' beginning. */
#define TARE_DATA_SHORT 24
#define TARE_DATA_USUAL (TARE_DATA_SHORT + TARE_PAYLOAD_DATA)

struct end_record {
	__u8 type; /* TARE_END */
	__u8 reason;
	__u16 error; /* errno of the socket, 0: none */
	__u32 pad;
	__u64 ts;
	__u64 span_id;
};

/* After a client span's START, and before the response of a server span. */
struct published_record {
	__u8 type;  /* TARE_PUBLISHED */
	__u8 flags; /* of the SDK's trace, as in traceparent */
	__u8 pad[6];
	__u64 span_id; /* of Tare's span */
	__u8 sdk_trace[16];
	__u8 sdk_span[8];
};

/* After the START of a span whose transport is TARE_OVER_UNIX. */
struct path_record {
	__u8 type; /* TARE_PATH */
	__u8 len;
	__u8 pad[6];
	__u64 span_id;
	__u8 path[TARE_UNIX_PATH]; /* of an abstract one, with a zero before its name */
	__u8 rest[4];
};

/* ---- retroactive sampling; retro.bpf.h ---- */

enum retro_layout {
	TARE_RETRO_SEGMENT = 1 << 18, /* bytes of its memory that a CPU takes at once */
	TARE_RETRO_SHIFT =
	    20, /* a place: number of a segment, and in so many bits below it what is used of that */
	TARE_RETRO_WORDS =
	    4, /* a stamp: where the record lies, and in 3 bits more than so many its length in words */
};

#define TARE_RETRO_USED ((1 << TARE_RETRO_SHIFT) - 1)

struct retro_place {
	__u64 at;
	__u64 pad[7]; /* a cache line for each CPU */
};

/* Why a trace is to be kept. */
enum retro_reason {
	TARE_RETRO_ERROR = 1, /* the response tells of an error of the server */
	TARE_RETRO_SLOW = 2,  /* the response to an entry took longer than the service's limit */
	TARE_RETRO_NO_RESPONSE = 3, /* the connection ended without one */
	TARE_RETRO_RESET = 4,	    /* the same, with an error of the socket */
};

struct retro_trigger {
	__u64 trace_hi;
	__u64 trace_lo;
	__u64 span_id;
	__u64 began; /* ns, CLOCK_MONOTONIC */
	__u64 ts;
	__u16 service;
	__u8 role;
	__u8 reason; /* enum retro_reason */
	__u32 pad;
};

/* Of a service. The agent writes slow and floor, and reads the others. */
struct retro_rule {
	__u64 slow;	 /* ns; 0: nothing is slow */
	__u64 floor;	 /* traces whose first half is less do not trigger: too many do */
	__u64 triggered; /* requests that asked for their trace */
	__u64 limited;	 /* of them: below the floor */
};

struct control_record {
	__u32 type;
	__u32 tgid;
	__u32 netns;   /* inode number, TARE_LISTEN, TARE_DISARMED */
	__u16 port;    /* TARE_LISTEN; TARE_LINKS by a header: its index */
	__u16 service; /* of decisions; TARE_EXEC: a request of it may have started that */
	__u32 reason;  /* TARE_REFUSED: enum unlinked; TARE_LINKS: enum worker_kind; TARE_UNREAD */
};

#define TARE_HEADERS	  32 /* names of correlation headers, in all */
#define TARE_HEADER_WORDS 4  /* of 8 bytes, a name with its colon */

#define TARE_HEADER_SPLIT 0x80 /* HTTP/2 has the values of a name otherwise than HTTP/1 */

/* A name in lower case, and which part of its value counts. */
struct header_name {
	__u64 word[TARE_HEADER_WORDS];
	__u64 mask[TARE_HEADER_WORDS]; /* of the bytes that there are */
	__u8 len;		       /* with the colon */
	__u8 skip;		       /* bytes of the value before that part, at most 3 */
	__u8 separator;		       /* ends it; a line end: all of the value counts */
	__u8 pad[5];
};

/* What a message looks like. */
enum protocol {
	TARE_PROTOCOL_TCP = 0, /* unknown, or not read */
	TARE_PROTOCOL_HTTP = 1,
	TARE_PROTOCOL_TLS = 2,
	TARE_PROTOCOL_REDIS = 3,
	TARE_PROTOCOL_MEMCACHED = 4,
};

/* How a measured request ended. */
enum outcome {
	TARE_OUTCOME_ANSWERED = 0, /* nothing more is known */
	TARE_OUTCOME_1XX = 1,	   /* HTTP: the status by hundreds */
	TARE_OUTCOME_2XX = 2,
	TARE_OUTCOME_3XX = 3,
	TARE_OUTCOME_4XX = 4,
	TARE_OUTCOME_5XX = 5,
	TARE_OUTCOME_ERROR = 6,	      /* a database's error answer */
	TARE_OUTCOME_NO_RESPONSE = 7, /* the connection ended before */
	TARE_OUTCOME_RESET = 8,	      /* the same, with an error of the socket */
	TARE_OUTCOMES = 9,
};

/*
 * Who was asked, by whom, and how it ended: what requests are measured by. A service's own
 * requests have no peer.
 */
struct measure_key {
	__u16 service;
	__u8 role;
	__u8 protocol;
	__u8 outcome;
	__u8 family;	  /* of the peer: AF_INET, AF_INET6; 0: none */
	__u16 port;	  /* of the peer, host order */
	__u32 netns;	  /* inode number, where the peer is a loopback address; else 0 */
	__u8 address[16]; /* of the peer; IPv4: the first 4 bytes */
};

struct measure {
	__u64 sum; /* ns */
	__u64 bucket[BUCKETS];
};

/*
 * Why something was lost or not done. Each is a label of tare_lost_total or of its kin; what was
 * not linked is counted by enum unlinked, beside these.
 */
enum counter {
	TARE_C_ROOTS_SAMPLED = 0,
	TARE_C_ROOTS_UNSAMPLED,
	TARE_C_ADOPTED, /* traceparent taken over */
	TARE_C_PARENT_UNREAD, /* the header was not read at once: it may have a traceparent that is not taken over */
	TARE_C_OWN_CALLS,      /* calls that no request caused: roots of traces, if sampled */
	TARE_C_TAG_SENT,       /* tags written, retransmissions included */
	TARE_C_TAG_RECEIVED,   /* tags that began a request */
	TARE_C_RING_FULL,      /* records that found no room */
	TARE_C_REQUESTS_FULL,  /* requests not traced: too many at once */
	TARE_C_STORAGE_FULL,   /* no memory for a socket's or a thread's state */
	TARE_C_TAG_NO_ROOM,    /* a tag was acknowledged without ever being written */
	TARE_C_TAG_QUEUE_FULL, /* more unacknowledged tags than a socket keeps */
	TARE_C_TAG_UNTRUSTED,  /* tags from outside the trusted networks */
	TARE_C_TAG_MALFORMED,  /* tags of a wrong length or with a zero id */
	TARE_C_TAG_REPLAYED,   /* tags that began a request before */
	TARE_C_TAG_STALE,      /* tags for bytes that were read already */
	TARE_C_TAG_OVERFLOW,   /* more pending tags than a socket keeps */
	TARE_C_CONGESTION,     /* a connection whose congestion control could not be restored */
	TARE_C_UNARMED,	       /* connections that could not be armed */
	TARE_C_ARMED,	       /* connections that were open before */
	TARE_C_TLS_HANDSHAKE,  /* messages that are TLS handshakes, not requests */
	TARE_C_PIPELINED,      /* requests that began before the response to the one before */
	TARE_C_NOT_REQUEST,    /* sampled bytes that begin no request: rests of bodies, goodbyes */
	TARE_C_HTTP2,	       /* HTTP/2 connections */
	TARE_C_HTTP2_LOST,    /* of them: cannot be followed any more, so that they have no spans */
	TARE_C_HEADERS_LOST,  /* or without correlation headers: hpack.bpf.h */
	TARE_C_STREAMS_APART, /* requests that begin traces of their own, for a collector to join */
	TARE_C_METRICS_FULL,  /* requests that were measured as "other": no room for their edge */
	TARE_C_TAG_NO_PATH,   /* tags not sent: no path for IP options, as far as known */
	TARE_C_PATH_PASSES,   /* paths that were found to pass IP options on */
	TARE_C_PATH_DROPS,    /* paths that drop packets with IP options */
	TARE_C_UNIX_OLD,      /* connections over unix sockets that were open before the hooks */
	TARE_C_UNIX_LOST,     /* connections over unix sockets whose positions got lost */
	TARE_C_PATH_SILENT,   /* paths that strip IP options, or lead to no traced service */
	TARE_C_DISARMED,      /* connections whose sock_ops flags another program has cleared */
	TARE_C_RECORDS,	      /* records that found room */
	TARE_C_CONTROL_FULL,  /* control records that found none */
	TARE_C_MPTCP,	      /* subflows of MPTCP connections, which are not followed */
	TARE_C_ROOTS_RETRO, /* requests that begin traces which are kept only if somebody asks for them in time */
	TARE_C_RETRO_RECORDS, /* records of those */
	TARE_C_RETRO_FULL,    /* of them: found no room */
	TARE_C_TRIGGERS_FULL, /* triggers that found no room */
	TARE_C_MAX,
};

#endif
