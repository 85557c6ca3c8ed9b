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
 *
 * A START that follows on the same socket stands for the END of the span before it.
 *
 * Only sampled requests produce records.
 */
#ifndef TARE_EVENT_H
#define TARE_EVENT_H

enum record_type {
	TARE_START = 1,
	TARE_DATA = 2,
	TARE_END = 3,
};

enum control_type {
	TARE_EXEC = 1,	 /* a process runs a new executable */
	TARE_EXIT = 2,	 /* a traced process is gone */
	TARE_LISTEN = 3, /* a process that is not traced listens */
};

enum role {
	TARE_SERVER = 1, /* accepted socket */
	TARE_CLIENT = 2, /* connected socket */
};

enum direction {
	TARE_RECEIVED = 1,
	TARE_SENT = 2,
};

/* How a service's receives are linked to its sends. The numbers are part of the loader's API. */
enum linking {
	TARE_LINK_AUTO = 0,   /* thread where the accepted socket blocks, else none */
	TARE_LINK_THREAD = 1, /* one request at a time per thread, run to completion */
	TARE_LINK_LOOP = 2,   /* event loop: a receive is followed by what it causes */
	TARE_LINK_NONE = 3,   /* cannot be linked: server spans only */
	TARE_LINK_QUEUE =
	    4, /* event loop: several receives, then what they cause, see queue.bpf.h */
};

enum start_flags {
	TARE_F_ROOT = 1 << 0,	   /* sampled here: no parent */
	TARE_F_TAG = 1 << 1,	   /* the parent came in a TCP option */
	TARE_F_ADOPTED = 1 << 2,   /* the parent came in a traceparent header */
	TARE_F_UNTAGGED = 1 << 3,  /* client: the peer is not trusted, nothing leaves */
	TARE_F_PIPELINED = 1 << 4, /* began before the response to the one before it */
	TARE_F_UNLINKED = 1 << 5,  /* server: this service's sends cannot be linked */
};

enum end_reason {
	TARE_END_NEXT = 1,	/* the next request on the socket began */
	TARE_END_CLOSED = 2,	/* the socket was closed */
	TARE_END_PIPELINED = 3, /* another request was sent before the response */
};

#define TARE_PAYLOAD_START 192 /* bytes of a request's beginning */
#define TARE_PAYLOAD_DATA  48  /* bytes of a response's beginning */

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
	__u32 bytes; /* of this message so far */
	__u16 local_port;
	__u16 remote_port;
	__u8 local[16]; /* IPv4: the first 4 bytes */
	__u8 remote[16];
	__u8 payload[TARE_PAYLOAD_START];
};

struct data_record {
	__u8 type; /* TARE_DATA */
	__u8 direction;
	__u8 first; /* 1: the response begins here */
	__u8 payload_len;
	__u32 bytes;
	__u64 ts;
	__u64 span_id;
	__u8 payload[TARE_PAYLOAD_DATA];
};

/* A TARE_DATA record without the payload, to keep long bodies cheap. */
#define TARE_DATA_SHORT 24

struct end_record {
	__u8 type; /* TARE_END */
	__u8 reason;
	__u16 error; /* errno of the socket, 0: none */
	__u32 pad;
	__u64 ts;
	__u64 span_id;
};

struct control_record {
	__u32 type;
	__u32 tgid;
	__u32 netns; /* inode number, TARE_LISTEN */
	__u16 port;  /* TARE_LISTEN */
	__u16 pad;
};

/* Why something was lost or not done. Each is a label of tare_lost_total or of its kin. */
enum counter {
	TARE_C_ROOTS_SAMPLED = 0,
	TARE_C_ROOTS_UNSAMPLED,
	TARE_C_ADOPTED,	       /* traceparent taken over */
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
	TARE_C_LINK_STALE,     /* sends after the response, not linked */
	TARE_C_LINK_OVERFLOW,  /* requests of a thread that waited behind too many others */
	TARE_C_LINK_NONE, /* sends of services that cannot be linked, while requests are sampled */
	TARE_C_UNARMED,	  /* connections that could not be armed */
	TARE_C_ARMED,	  /* connections that were open before */
	TARE_C_TLS_HANDSHAKE, /* messages that are TLS handshakes, not requests */
	TARE_C_PIPELINED,     /* requests that began before the response to the one before */
	TARE_C_NOT_REQUEST,   /* sampled bytes on an HTTP connection that begin no request */
	TARE_C_MAX,
};

#endif
