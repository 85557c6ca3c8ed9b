/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs remember, and where: the state of a connection in its socket (in a hash by the
 * socket's address where a hook cannot reach that), the state of a thread in the thread. Every other
 * map is bounded. The socket lock serialises all access to a connection's state (tracepoints here
 * run with the socket owned, sock_ops with it locked; but see syscalls.bpf.c); a thread's state is
 * touched by that thread only.
 *
 * Each store is reached by one function: stores.bpf.h.
 */
#ifndef TARE_STATE_H
#define TARE_STATE_H

/* ---- switches, frozen at load: dead branches vanish ---- */
const volatile bool cfg_payload = true;	     /* read beginnings of messages */
const volatile bool cfg_traceparent = true;  /* adopt traceparent at entry sockets */
const volatile bool cfg_parent_based = true; /* obey the decision of an adopted parent */
const volatile bool cfg_sequence = false;    /* tell where in its stream a request begins */
const volatile bool cfg_measure = false;     /* measure every request; measure.bpf.h */
const volatile bool cfg_same_host = true;    /* the context stays off the wire; inbox.bpf.h */
const volatile u32 cfg_wakeup_bytes = 1 << 20;
const volatile enum tag_carrier cfg_tag = TARE_TAG_TCP;

const volatile bool cfg_arm_nv = false; /* by the congestion control nv; arm.bpf.c */

/* ---- switches of a tier ---- */
const volatile bool cfg_early =
    false; /* the send hook runs before the size of segments is settled */
const volatile bool cfg_by_address = false; /* it cannot reach sockets' storage: conns_by_address */
const volatile bool cfg_gates = false;	    /* hooks may be passed over: enum gate */

/* ---- switches that change while running ---- */
volatile u64 sampling_threshold = 0; /* a request is sampled iff rv >= threshold; 2^56: never */

#define RANDOM_BITS 56 /* OpenTelemetry: rv is the low 56 bits of the trace id */
#define RANDOM_MASK ((1ULL << RANDOM_BITS) - 1)

/*
 * Retroactive sampling; retro.bpf.h. A *retro* request has a context, tags and records as a sampled one, but its records
 * go to memory that is overwritten. What is said of sampled requests in these files holds for both, where nothing else
 * is said.
 */
const volatile u32 cfg_retro = 0; /* segments of that memory, a power of two; 0: there is none */
volatile u64 retro_threshold = 0; /* what is not sampled is retro iff rv >= retro_threshold */

/* The lowest bit of a span's id, of those that this side drew, says whether its request is retro. */
#define SPAN_RETRO 1

static __always_inline bool is_retro(u64 span)
{
	return cfg_retro && span & SPAN_RETRO;
}

/* A request that begins a trace has records iff rv is at least this. */
static __always_inline u64 traced_from(void)
{
	u64 sampled = sampling_threshold, retro = retro_threshold;
	return cfg_retro && retro < sampled ? retro : sampled;
}

/* Sampled requests that wait for their response; the first gate of the send path. */
u64 live_requests __attribute__((aligned(64))) SEC(".data.live");

/* Until when (CLOCK_MONOTONIC, ns) some request counts as in flight though it seems answered. */
volatile u64 grace_until SEC(".data.live");

/* The hooks for look-ups of names are attached: dns.bpf.h. */
volatile bool lookups_watched = false;

/* Whether what event loops receive beside TCP is seen; the agent says so: thread.bpf.h. */
enum turns_seen {
	TURNS_NOBODYS = 0, /* no loop is traced, or all is always seen */
	TURNS_SEEN = 1,	   /* the hooks are attached */
	TURNS_UNSEEN = 2,  /* until a loop may receive such */
};

volatile enum turns_seen turns = TURNS_NOBODYS;

/* Counts how often the agent has attached them; what a loop received before is of no use then. */
volatile u32 turns_epoch SEC(".data.live");

/* TURNS_UNSEEN, and some loop may have received such: the epoch in which that was. */
volatile u32 turns_missed SEC(".data.live") = ~0U;

/* Some service's requests have their headers' values noted: header.bpf.h. */
volatile bool headers_noted SEC(".data.live");

/* A loop has received HTTP/2: what it sends next is not known to belong to no sampled request. */
volatile bool loops_http2 SEC(".data.live");

/*
 * What hooks may pass over at a socket: at the place of its address, that address and enum gate. Another's there shows that
 * nothing is known of this one. So who changes what this says of a socket clears the place, whosever it is. None is shut without
 * cfg_gates: where requests are measured every message matters, and with cfg_by_address some hooks know addresses as numbers.
 */
enum gate {
	GATE_SENDS = 1,	   /* server: nothing that it sends matters, but in INTERIM_SIZE */
	GATE_RECEIVES = 2, /* client: nor what it receives, while threads_matter() does not hold */
};

#define GATES	  8192
#define SOCK_SIZE 64 /* bytes that a socket takes, at least */
u64 gates[GATES] SEC(".data.gates");

/* An address as a number with which the verifier lets a program reckon: how far from the gates it is. */
static __always_inline u64 gate_owner(u64 sock)
{
	asm volatile("%0 -= %1" : "+r"(sock) : "r"(&gates));
	return sock;
}

static __always_inline volatile u64 *gate_of(u64 owner)
{
	return &gates[owner / SOCK_SIZE & (GATES - 1)];
}

static __always_inline bool gate_is_shut(u64 sock, enum gate kind)
{
	u64 owner = gate_owner(sock);
	return *gate_of(owner) == owner + kind;
}

static __always_inline void gate_open(u64 sock)
{
	if (cfg_gates)
		*gate_of(gate_owner(sock)) = 0;
}

/* Only with the socket locked. */
static __always_inline void gate_set(u64 sock, enum gate kind, bool shut)
{
	if (!cfg_gates)
		return;
	u64 owner = gate_owner(sock), is = *gate_of(owner);
	if (shut != (is == owner + kind))
		*gate_of(owner) = shut ? owner + kind : 0;
}

struct context {
	u64 hi, lo; /* trace id, wire order */
	u64 span;   /* span id of the server span, wire order; 0: no context */
	u32 slot;   /* where requests says whether it is in flight */
	u32 pad;
};

enum conn_flags {
	C_LISTENER = 1 << 0,
	C_SERVER = 1 << 1,	/* accepted */
	C_CLIENT = 1 << 2,	/* connected */
	C_TRUSTED = 1 << 3,	/* the peer's address is in a trusted network */
	C_PEER_TRACED = 1 << 4, /* server: the peer promised tags, so an untagged request is
				   unsampled; client: the peer answered the mark */
	C_MARK = 1 << 5,	/* a mark is to be written, or not acknowledged yet */
	C_BOUND = 1 << 6,	/* client: the caller was bound at connect, for the first send */
	C_SENT = 1 << 7,	/* client: a request was sent */
	C_HTTP = 1 << 8,	/* HTTP/1 */
	C_WAITING = 1 << 9,	/* server: its request may be in the queue of a thread */
	C_TLS = 1 << 10,
	C_ANSWERED = 1 << 11, /* client: the last mark was answered; server: some mark was */
	C_ARMED = 1 << 12,    /* WRITE is armed, and by nobody else; server: for the answer */
	C_HTTP2 = 1 << 13,    /* without TLS; http2.bpf.h */
	C_FASTCGI = 1 << 14,
	C_SILENT = 1 << 15,    /* client: the last mark took the promise of tags back */
	C_BEHIND = 1 << 16,    /* server: the peer took its promise back */
	C_FLIP = 1 << 17,      /* client: the promise is to change when there is room to tell it */
	C_TOLD = 1 << 18,      /* the mark was written */
	C_IGNORED = 1 << 19,   /* of a thread to itself */
	C_LOCAL = 1 << 20,     /* client: it writes to the inbox of the other end */
	C_STANDS = 1 << 21,    /* client: the connection was established */
	C_NV = 1 << 22,	       /* arming by nv was tried, and failed */
	C_NOTED = 1 << 23,     /* server: its request's values are in flight; header.bpf.h */
	C_BLIND = 1 << 24,     /* server: its request may have values that are not */
	C_BY_HEADER = 1 << 25, /* client: its request was linked by one */
	C_DISARMED = 1 << 26,  /* its sock_ops flags are not set, and that was told */
	C_NEAR = 1 << 27,      /* the peer's address may be this host's: C_TRUSTED once an inbox has
				  shown that both ends are here */
	C_ENDED = 1 << 28,     /* no request is left, and none will begin */
	C_UNSEEN =
	    1 << 29, /* server: it may owe the response to a request from before it was armed */
};

/* What of a connection's beginning is still to be looked at; opening.bpf.h. */
enum opening {
	OPENING_NEW = 0,  /* nothing has been sent by the client */
	OPENING_TLS = 1,  /* within a TLS handshake */
	OPENING_OLD = 2,  /* open before the agent, nothing seen of it yet */
	OPENING_DONE = 3, /* requests and responses */
};

struct rx_tag {
	struct tag_context ctx;
	u32 start; /* sequence number of the request's first byte */
	u32 read;  /* 1: the application has read it, its turn comes later */
};

struct tx_tag {
	struct tag_context ctx;
	u32 start;
	u32 written; /* TARE_TAG_IP: how often, up to TX_MOST; then TX_NEVER */
};

#define TX_MOST	 3
#define TX_NEVER 4

#define TAGS 4 /* per connection: pipelined requests beyond this are counted and go untagged */

enum open {
	OPEN_NOT = 0,
	OPEN_HALF = 1, /* received and not answered, sampled or not; known not to be whole */
	OPEN_COMPLETE = 2,
};

/* Where a response of HTTP/1 ends that has begun, by its framing. */
enum answer {
	ANSWERS_NOT = 0,
	ANSWERS_LENGTH = 1, /* at end_seq */
	ANSWERS_CHUNKS = 2, /* with an empty chunk */
	ANSWERS_CLOSE = 3,  /* with the connection, or with END_STREAM of HTTP/2 */
};

/* Who works for a request: a thread, or a task of the runtime of a process; task.bpf.h. */
enum worker_kind {
	WORKER_THREAD = 0,    /* id: of the thread; tgid 0 */
	WORKER_VIRTUAL = 1,   /* of a virtual thread of Java */
	WORKER_GREENLET = 2,  /* its address */
	WORKER_TRANSPORT = 3, /* its address; of a connection as long as it lasts */
	WORKER_TOKEN = 4,     /* what a shim in the process has given out: shim.bpf.h */
	WORKER_HEADER = 5,    /* in TARE_LINKS: nobody, but a header: header.bpf.h */
	WORKER_STACK = 6,     /* where its mapping ends; of a coroutine: stack.bpf.h */
};

struct worker {
	u64 id;
	u32 tgid;
	u32 kind;
};

/*
 * One request and its response. A connection carries one at a time, in its half below; or, with
 * HTTP/2, one in each stream.
 */
struct server_exchange {
	struct context ctx;   /* the sampled request in flight, until its response is over */
	u64 responding;	      /* span whose response is being sent */
	u64 ends;	      /* span that the next START ends, within one call */
	struct worker holder; /* who received it, if open; of a transport also later */
	u32 got;	      /* bytes of the request so far, approximately beyond the first few */
	u32 begin_seq;	      /* where the request began */
	u32 unlinked;	      /* the service's count of unlinked sends when it began */
	u32 rest;	      /* bytes of it that are still to be read, if OPEN_HALF */
	u8 open;	      /* enum open */
	u8 tickets;	      /* sends that may be TLS session tickets and not the response */
	u8 answered;	      /* such a send has been seen */
	u8 answers;	      /* enum answer: its response has begun, and goes on */
	u32 inquirer;	      /* thread that asked how its connection is, if open; handover.bpf.h */
	u32 end_seq;	      /* behind the response, if ANSWERS_LENGTH */
	u8 bodiless;	      /* the response may have no body though its header announces one */
	u8 entry;	      /* cfg_retro: the trace begins here, as far as is known */
	u8 pad[2];
	u64 began; /* cfg_retro: when, ns */
};

struct client_exchange {
	struct context caller; /* the request that runs on this connection: the parent */
	u64 span;
	u32 responding; /* the response has begun */
	u32 pad;
	u64 began; /* cfg_retro: when, ns */
};

/* TARE_LINK_GOROUTINE; golang.bpf.h. */
struct go_conn {
	u64 goroutine; /* that serves the connection; 0: not known */
	u64 context; /* address of the connection's, from which those of its requests are derived; 0:
			it has none yet */
	u32 tgid;
	u32 sampled; /* the goroutine is noted to work for a sampled request */
	u32 looks;   /* HTTP/2: how often it was looked for who reads its frames */
	u32 pad;
};

#define HEADER_VALUES 4 /* of correlation headers, in a request */

struct server_half {
	u32 sent_seq; /* write_seq at the last receive */
	u32 interim;  /* bytes of interim responses (1xx) sent since */
	u64 socket;   /* address of the struct sock */
	struct server_exchange x;
	u64 last_tag;	  /* that began a request */
	u32 finished_seq; /* write_seq when TLS's Finished was read */
	u32 waiting;	  /* C_WAITING: its place in the queue of the thread */
	u64 drawn;	  /* for the request that is received now; 0: not yet */

	struct go_conn go;
	u64 value[HEADER_VALUES]; /* C_NOTED; 0: none */
	u8 behind[TARE_NAME];	  /* C_BEHIND: the peer's name */
	struct rx_tag rx[TAGS];
};

struct client_half {
	u32 read_seq; /* copied_seq at the last send */
	u32 why;      /* C_BOUND: enum unlinked, why no caller was bound */
	struct client_exchange x;
	u64 token;  /* shim.bpf.h: that of the last request */
	u64 own;    /* drawn for what is sent now, should nothing have caused it; 0: not sampled */
	u64 shared; /* when one was sent before the answer to the one before, ns */
	struct tx_tag tx[TAGS];
};

/* measure.bpf.h: requests, sampled or not. */
struct measured {
	u64 asked;	/* when the request in progress began, or the last response; 0: never */
	u32 answer_seq; /* server: write_seq when the last response began */
	u8 asking;	/* a request is in progress */
	u8 protocol;	/* of the last request */
	u16 pad;
};

/* Sequence numbers at which a connection's streams begin; what makes it one for inbox.bpf.h. */
struct streams {
	u32 up; /* of the client */
	u32 down;
};

/* TARE_TAG_IP; path.bpf.h. Bytes, which programs may write that have not locked the socket. */
struct on_path {
	u32 seq;     /* of the segment with the last mark or probe */
	u8 told;     /* it was sent, and is not known to be lost */
	u8 answered; /* a mark came back, noted for whoever locks the socket next */
	u8 carries;  /* enum carries */
	u8 pad;
};

/* Where in a direction's frames the bytes are that come next; http2.bpf.h. */
struct frames {
	u32 skip;    /* bytes of the frame in progress that are still to come */
	u8 have;     /* bytes of the next one's header that were read */
	u8 known;    /* a frame was recognised: its kind is not doubted any more */
	u8 head[16]; /* its header */
	u8 begins;   /* nothing of its payload has come yet */
	u8 pad;
	u32 blocks; /* of headers */
};

struct http2 {
	struct frames in, out;
	u32 first;     /* the first stream of a request that was received; 0: none */
	u32 last;      /* the newest one */
	u32 live;      /* sampled streams that have not ended */
	u64 id;	       /* of the connection, random: never another's */
	u32 lost;      /* it cannot be followed any more */
	u32 gaps;      /* some HEADERS have no record: who has only those cannot decode them */
	u32 tags;      /* that came for streams which have not begun */
	u32 named;     /* segments have named streams */
	u32 asked;     /* streams in stream_asked, ever */
	u32 asked_seq; /* where the HEADERS of the last one begin */
	u32 hpack;     /* enum following */
	u32 noted;     /* the newest stream in header_streams; 0: none */
	u32 turn;      /* loop: the stream, or TURN_UNKNOWN, of the call that received last */
	u32 turn_seq;  /* write_seq then */
};

/* Whether headers of requests are read in the kernel; hpack.bpf.h. */
enum following {
	HPACK_NOT = 0,	    /* or not any more */
	HPACK_NEW = 1,	    /* it could be: nothing has come yet */
	HPACK_ADOPTS = 2,   /* for traceparent */
	HPACK_FOLLOWED = 3, /* for correlation headers, too */
};

/* What every hook looks at comes first: few cache lines, though the whole is large. */
struct conn {
	u32 flags;
	u16 service;
	u8 linking;
	u8 tags;     /* used entries of rx or tx */
	u32 rcv_seq; /* copied_seq at the last receive */
	u32 msg_end; /* sequence number behind the sendmsg that was reported last */
	u32 mark_seq;
	u32 netns;   /* inode number */
	u64 sent_at; /* when bytes sent were reported last */
	u32 call_at; /* where in the buffer of a call that receives its next bytes go, see call_goes_on */
	u32 call_size; /* bytes that the hook saw last; 0: and with them the call was over */
	u32 call_sent; /* write_seq then */
	u16 local_port, remote_port;
	u8 family;
	u8 opening;
	u8 seeks; /* client: how often the other end's inbox was looked for */
	u8 pad;
	u64 call_more; /* struct iovec, in user memory, of the buffer behind the one that has the bytes; 0: none */
	u64 tail; /* the last bytes of the response so far; bytes.bpf.h */
	union {
		struct server_half server;
		struct client_half client;
	};
	u8 local[16]; /* IPv4: the first 4 bytes */
	u8 remote[16];
	struct streams streams;
	struct on_path path;
	struct tls tls;
	struct measured measured;
	struct http2 http2;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct conn);
} conns SEC(".maps");

/* cfg_by_address; else of one entry. What finds no room is not traced, and counted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* address of the struct sock */
	__type(value, struct conn);
} conns_by_address SEC(".maps");

static const struct conn conn_empty;

struct stream_key {
	u64 connection; /* http2.id */
	u32 stream;
	u32 pad;
};

struct stream {
	union {
		struct server_exchange server;
		struct client_exchange client;
	};
};

/* Sampled streams of HTTP/2 that have not ended. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct stream_key);
	__type(value, struct stream);
} streams SEC(".maps");

/* A request of a service without proof, and how its thread slept; addresses of struct sock. */
struct proof {
	u64 accepted; /* 0: none */
	u64 asked;    /* where it sent something last, 0: nothing yet */
	u16 service;
	u8 alone; /* it slept for the answer alone */
	u8 pad[5];
};

/* A mapping that a stack pointer lies in; stack.bpf.h. */
struct stack {
	u64 start;
	u64 end; /* who works on it; or enum stack_place, if that cannot be told */
};

enum inherited {
	INHERITED_NOT = 0,
	INHERITED_THREAD = 1,
	INHERITED_PROCESS = 2,
};

struct thread_state {
	struct context ctx;
	u64 started;	 /* inherited: when the thread was, ns */
	u64 socket;	 /* accepted socket that ctx was received on; good while ctx is in flight */
	u64 nvcsw;	 /* voluntary switches when ctx was set: thread_slept() */
	u64 off_nvcsw;	 /* when put_off was set */
	u64 turn;	 /* loop: http2.id of the connection that it received on last; 0: another */
	u16 service;	 /* inherited: of the request */
	u8 loop : 1;	 /* ctx was set by loop linking */
	u8 held : 1;	 /* its last sleep before that was uninterruptible */
	u8 off_held : 1; /* the same of off_nvcsw */
	u8 inherited; /* ctx is of the request that started this thread, or its process: enum inherited */
	u8 put_off; /* loop: requests over HTTP/2 may be; loop_puts_off() */
	u8 taken;   /* loop: enum taken, by what was sent first */
	u16 epoch;  /* loop: turns_epoch when ctx was set */
	struct proof proof;
	u64 receipt;	   /* shim.bpf.h: that which the last bytes of a request were bound to */
	struct stack left; /* proof.bpf.h: on which it sent a request; end 0: none */
	u64 unix_at;	   /* unix.bpf.h: accepted socket that it received on last */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads SEC(".maps");

/* The contexts of sampled requests that tasks work for; task.bpf.h. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct worker);
	__type(value, struct context);
} tasks SEC(".maps");

/*
 * Sampled requests without a response yet: the server span's id in a slot that its context names,
 * so that a context held elsewhere can be told to be over. An array and not a hash table: begin,
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
	u8 thread_stack; /* of a process: forked by another thread than the main one */
	u8 armed;	 /* of a process: what it had open when it began to be traced is armed */
	u8 helper; /* of a process: a request may have started it, or one that has forked it */
};

#define PORTS_WATCHED	   4
#define PORT_WATCHED(port) ((u32)(port) + 1) /* 0: none */
#define PORT_ANY	   ~0U		     /* too many */

/* What the kernel side finds out about a service, by its index; 0 is none's. */
#define SERVICES 4096

/* weigh.bpf.h: what its sockets' hooks took while they were timed. */
struct weight {
	s64 ns;
	s64 sampled_ns; /* of it, for requests that are sampled */
	u64 runs;
	u64 requests;
};

struct service_state {
	u64 asked_at;	   /* when a proof was asked for, ns */
	u64 listener;	   /* struct sock that it listens on, one of them */
	u32 in_flight;	   /* sampled requests */
	u32 answering;	   /* those of them whose response has begun */
	u32 unlinked;	   /* sends that were not linked */
	u32 refused;	   /* enum unlinked: why nothing is linked any more */
	u32 joined;	   /* threads that ended before the request that started them */
	u8 reason;	   /* enum unlinked of the last send that was not linked */
	u8 linked;	   /* the first link was reported */
	u8 asks;	   /* how often a proof was asked for */
	u8 proofs;	   /* requests whose thread slept for answers alone; proof.bpf.h */
	u8 outlived;	   /* a thread outlived the request that started it: a pool's */
	u8 passes_on;	   /* threads read on what others have half read */
	u8 works_half;	   /* threads work for what they themselves have half read */
	u8 headers_linked; /* calls linked by a correlation header, up to HEADER_PROOFS */
	u8 headers_late;   /* one was made for a request that was over */
	u8 headers_told;   /* the first such link was reported */
	u8 stacks;	   /* requests whose coroutine was left, and gone on with; proof.bpf.h */
	u8 sizes;	   /* mappings of stacks that were as large as stack_size; stack.bpf.h */
	u8 handovers;	   /* requests answered by who inquired about them, up to HANDOVERS */
	u8 misled;	   /* one was answered by another */
	u8 apart;	   /* a worker received a request while its answer to another went on */
	u8 mptcp;	   /* it had a connection over MPTCP: reported */
	u32 stack_size;
	u32 watched[PORTS_WATCHED]; /* where event loops watch connections to; watched.bpf.h */
	u32 shared;		    /* sends on stacks that were not told apart; stack.bpf.h */
	u64 sized;		    /* the end of the last mapping that counted for sizes */
	u64 headers_since;	    /* when requests' values began to be noted, ns; header.bpf.h */
	u32 headers;		    /* bits of the names that count; by the agent */
	s32 blind;		    /* requests in flight whose values are not known */
	u32 headers_tried;	    /* requests over HTTP/2 whose headers were read for nothing */
	u32 unseen;		    /* connections with C_UNSEEN */
	u32 pad;
	u64 unseen_at;	    /* when the last of them was armed, ns */
	u8 name[TARE_NAME]; /* zeroes behind it */
	struct weight weight;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SERVICES);
	__type(key, u32);
	__type(value, struct service_state);
} services SEC(".maps");

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

/*
 * The same by address, zeroes for any: where accepted sockets have no copy of their listener's state
 * (cfg_by_address), services may share a port by addresses. What is not in listeners any more does
 * not count here.
 */
struct listen_key {
	struct port_key port;
	u8 address[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct listen_key);
	__type(value, struct service);
} listening SEC(".maps");

struct prefix {
	u32 bits;
	u8 address[16]; /* IPv4 mapped into IPv6 */
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix);
	__type(value, u8); /* enum trust */
} trusted SEC(".maps");

#define SCRATCH 1024

struct scratch {
	u8 bytes[SCRATCH + 128]; /* room for reads behind the end: zeroes or stale bytes */
	u32 body;		 /* header_framing: what Content-Length announces */
	u32 length_at;		 /* where; 0: it is not there */
	u32 chunks;		 /* there is a Transfer-Encoding */
	u32 pad;
	struct traceparent_walk walk;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

/*
 * Hides what is known of a number from the compiler, which would make branches of arithmetic, or
 * drop a bound that the verifier needs.
 */
#define OPAQUE(x) asm volatile("" : "+r"(x))

/* The smaller one, in one register: the verifier of Linux 6.1 forgets the bound of a copy. */
#define AT_MOST(n, max)                                                                            \
	({                                                                                         \
		u64 _n = n;                                                                        \
		asm volatile("if %0 <= %1 goto +1\n%0 = %1" : "+r"(_n) : "i"(max));                \
		_n;                                                                                \
	})

#include "tell.bpf.h"

INLINE bool before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

#endif
