/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs remember, and where: state of a socket in the socket, state of a thread in
 * the thread. Every other map is bounded. The socket lock serialises all access to a socket's
 * state (tracepoints here run with the socket owned, sock_ops with it locked); a thread's state
 * is touched by that thread only.
 */
#ifndef TARE_STATE_H
#define TARE_STATE_H

/* ---- switches, frozen at load: dead branches vanish ---- */
const volatile bool cfg_payload = true;	     /* read beginnings of messages */
const volatile bool cfg_traceparent = true;  /* adopt traceparent at entry sockets */
const volatile bool cfg_parent_based = true; /* obey the decision of an adopted parent */
const volatile bool cfg_sequence = false;    /* tell where in its stream a request begins */
const volatile u32 cfg_wakeup_bytes = 1 << 20;

/* ---- switches that change while running ---- */
volatile u64 sampling_threshold = 0; /* a request is sampled iff rv >= threshold; 2^56: never */
volatile bool entry_enabled = false; /* no root before every open connection is armed */

#define RANDOM_BITS 56 /* OpenTelemetry: rv is the low 56 bits of the trace id */
#define RANDOM_MASK ((1ULL << RANDOM_BITS) - 1)

/* Sampled requests that wait for their response, exactly; the first gate of the send path. */
u64 live_requests __attribute__((aligned(64))) SEC(".data.live");

struct context {
	u64 hi, lo; /* trace id, wire order */
	u64 span;   /* span id of the server span, wire order; 0: no context */
	u32 slot;   /* where requests says whether it is alive */
};

enum socket_flags {
	S_LISTENER = 1 << 0,
	S_SERVER = 1 << 1,
	S_CLIENT = 1 << 2,
	S_TRUSTED = 1 << 3, /* the peer's address is in a trusted network */
	S_PEER_TRACED =
	    1 << 4,	  /* the peer left its mark; server: so an untagged request is unsampled */
	S_MARK = 1 << 5,  /* the mark is not acknowledged yet */
	S_BOUND = 1 << 6, /* client: ctx was bound at connect, for the first send */
	S_SENT = 1 << 7,  /* client: something was sent */
	S_HTTP = 1 << 8,  /* a request on this socket was HTTP/1 */
	S_WAITING = 1 << 9,   /* server: its request may be in the queue of a thread */
	S_PLAIN = 1 << 10,    /* client: its messages are not TLS */
	S_ANSWERED = 1 << 11, /* client: the last mark was answered; server: some mark was */
	S_ARMED = 1 << 12,    /* server: WRITE is armed for the answer, and by nobody else */
};

struct rx_tag {
	struct tag_context ctx;
	u32 start; /* sequence number of the request's first byte */
	u32 read;  /* 1: the application has read it, its turn comes later */
};

struct tx_tag {
	struct tag_context ctx;
	u32 start;
	u32 written;
};

#define TAGS 4 /* per socket: pipelined requests beyond this are counted and go untagged */

struct socket_state {
	u32 flags;
	u16 service;
	u8 linking;
	u8 tags;     /* used entries of rx or tx */
	u32 rcv_seq; /* copied_seq at the last receive */
	u32 snd_seq; /* server: write_seq at the last receive; client: copied_seq at the last send
		      */
	u32 msg_end; /* sequence number behind the sendmsg that was reported last */
	u32 mark_seq;
	/*
	 * server: the sampled request in progress, until its response begins
	 * client: the request that runs on this connection (ctx.span: its server span, the parent)
	 */
	struct context ctx;
	u64 span;	/* server: span that is responding; client: span in progress */
	u64 last_tag;	/* server: the tag that began a request last */
	u64 ends;	/* server: span that the next START ends, within one call */
	u64 sent_at;	/* when bytes sent were reported last */
	u32 responding; /* client: the response has begun */
	u32 got; /* server: bytes of the request so far, approximately beyond the first few */
	union {
		struct rx_tag rx[TAGS];
		struct tx_tag tx[TAGS];
	};
	u32 begin_seq; /* server: where the request began that is read now, if cfg_sequence */
	/* measure.bpf.c: requests, sampled or not */
	u64 asked;	/* when the request in progress began, or the last response; 0: never */
	u32 answer_seq; /* server: write_seq when the last response began */
	u8 asking;	/* a request is in progress */
	u8 protocol;	/* of the last request */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct socket_state);
} sockets SEC(".maps");

struct thread_state {
	struct context ctx;
	u64 nvcsw; /* voluntary switches when ctx was set: an event loop that slept moved on */
	u32 loop;  /* ctx was set by loop linking */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads SEC(".maps");

/*
 * Sampled requests without a response yet: the server span's id in a slot that its context names,
 * so that a context held elsewhere can be told to be dead. An array and not a hash table: begin,
 * look-up and end are a load and a store each.
 */
#define SLOTS 65536

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, u64);
} requests SEC(".maps");

/*
 * Tags that began a request lately, by a part of their span id: a second use is a replay. A newer
 * tag takes the place of an older one, so this remembers about the last 65,536.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, u64);
} seen SEC(".maps");

struct service {
	u16 index;
	u8 linking;
	u8 pad;
};

/* Traced processes. The agent fills it; forks inherit, exits leave. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct service);
} processes SEC(".maps");

/* Sockets of traced processes, by inode: filled by the agent before it arms what is open. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct service);
} inodes SEC(".maps");

/* Ports that a traced service listens on: tells accepted sockets from connected ones. */
struct port_key {
	u32 netns;
	u32 port;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct port_key);
	__type(value, struct service);
} listeners SEC(".maps");

struct prefix {
	u32 bits;
	u8 address[16]; /* IPv4 mapped into IPv6 */
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix);
	__type(value, u8);
} trusted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} control SEC(".maps");

struct counters {
	u64 n[TARE_C_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counters);
} counters SEC(".maps");

#define SCRATCH 1024

struct scratch {
	u8 bytes[SCRATCH + 128]; /* room for reads behind the end: they see zeroes or stale bytes */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

#define INLINE static __always_inline

INLINE void count(enum counter which)
{
	u32 zero = 0;
	struct counters *c = bpf_map_lookup_elem(&counters, &zero);
	if (c && which < TARE_C_MAX)
		c->n[which]++; /* this CPU's; an interrupt may lose one */
}

INLINE bool before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

INLINE struct socket_state *socket_state(struct sock *sk)
{
	if (!sk->sk_bpf_storage)
		return 0;
	return bpf_sk_storage_get(&sockets, sk, 0, 0);
}

#endif
