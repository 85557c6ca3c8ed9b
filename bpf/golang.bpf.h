/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Go: for which request a goroutine works, read from the program's own memory at the hooks that run
 * anyway. Where in it things are the agent has read from the program's run-time types
 * (agent/runtime/golang). What is exact comes first:
 *
 *	itself	    net/http has a goroutine for each accepted connection: it received the request
 *	writeLoop   net/http's client has one for each connection: it holds the request that it
 *		    writes, and that its context
 *	http2	    net/http and golang.org/x/net/http2 have one for each stream, which holds it
 *	grpc	    the goroutine of a call has its stream; the one that writes a client's connection
 *		    has the streams of all calls by their ids, and those their contexts
 *	stack	    contexts that lie on the stack: the innermost one that leads to a request, sampled
 *		    or not, decides
 *
 * A context leads to a request by its parents, for net/http derives each request's context from its
 * connection's. By their addresses only those things are remembered that live as long as a
 * connection, because Go uses addresses again; it never does so with ids of goroutines.
 *
 * One thing, though long: each source goes on with what the one before has left in one scratch, in a
 * chain of calls that has just the stack that Linux 6.1 allows.
 */
#ifndef TARE_GOLANG_H
#define TARE_GOLANG_H

#define GO_ENTRIES 64
#define GO_COPIES  2 /* of HTTP/2: in net/http, and golang.org/x/net/http2 */

#define GO_STACK   512 /* words from the stack pointer on that are searched for contexts */
#define GO_FOUND   32  /* contexts of them that are followed */
#define GO_PARENTS 32  /* of a context that are followed */
#define GO_STEPS   512 /* of all of them */
#define GO_SERVING 192 /* words at the end of a stack, with the frame of conn.serve */
#define GO_DEAD	   6   /* runtime._Gdead */
#define GO_SHAKING 4   /* connections on whose stacks one context is remembered */
#define GO_GROUPS  256 /* of a map that are searched for a stream */
#define GO_LOOKS   8   /* receives over HTTP/2 until one is by the goroutine that reads frames */

/* What a goroutine is for, by the function that its first one calls. */
enum go_place {
	GO_ELSEWHERE = 0,
	GO_SERVE,      /* net/http.(*conn).serve: the slot has the conn */
	GO_WRITE_LOOP, /* net/http.(*persistConn).writeLoop: the transportRequest that it writes */
	GO_GRPC_CALL,  /* grpc.(*Server).handleStream: the ServerStream */
	GO_GRPC_WRITE, /* transport.(*loopyWriter).run: the loopyWriter */
	GO_HTTP2_ASK,  /* http2.(*clientStream).doRequest: the clientStream */
	GO_HTTP2_CALL, /* http2.(*serverConn).runHandler: its responseWriter, or another pointer */
	GO_HTTP2_READ, /* http2.(*serverConn).readFrames: the serverConn */
	GO_HTTP2,      /* a function that works for requests over HTTP/2 which are not told apart */
};

/*
 * A call by a goroutine's first function. Distances are in bytes from the stack's end. Only with the
 * first function it is sure: stacks are used again, with what lay there.
 */
struct go_entry {
	u64 start; /* the first function */
	u64 pc;	   /* the word at this distance while the call lasts */
	u32 at;
	u32 slot; /* where the called function keeps a pointer */
	u32 place;
	u32 copy; /* of the package: in go_program.http2_server */
};

/* From a net.Conn to its descriptor. */
struct go_tcp {
	u64 type;  /* of a *net.TCPConn */
	u32 netfd; /* in it: a pointer */
	u32 fd;	   /* in what that points to, 4 bytes */
};

struct go_grpc_server {
	s32 via;    /* where a ServerStream points to what has its id; -1: it has it itself */
	u32 id;	    /* 4 bytes */
	u32 server; /* an interface: the http2Server */
	u32 conn;   /* of that: a net.Conn */
};

/* From the responseWriter of an HTTP/2 server to the stream, and to its connection. */
struct go_http2_server {
	u32 state;	       /* in the responseWriter: a pointer */
	u32 stream;	       /* in what that points to: a pointer to the stream */
	u32 id, context, conn; /* in a stream: 4 bytes; an interface; a pointer to the serverConn */
	u32 socket;	       /* in that: a net.Conn */
	u32 base;	       /* likewise, the context of which those of its streams are derived */
	u32 streams;	       /* likewise, a map of ids to streams; 0: it cannot be searched */
};

/* From the loopyWriter to the http2Client, to a stream's context. */
struct go_grpc_client {
	u32 closure; /* in the loopyWriter: a closure, whose second word is the http2Client */
	u32 framer, loopy, streams; /* in the http2Client */
	u32 loopy_framer;	    /* in the loopyWriter: the same framer */
	s32 via;		    /* as in go_grpc_server */
	u32 id, context, client;    /* in a stream */
	u32 method;		    /* likewise: a string */
	u64 keys[6];		    /* round keys of the map's hash */
};

/* Offsets, in bytes, and addresses of one process. What it does not have is 0. */
struct go_program {
	u64 itab_low, itab_high; /* of contexts, inclusive */
	u64 key_type;	 /* type of the keys that net/http puts into a connection's context */
	u64 stream_type; /* type of the value in a context that is a gRPC call's stream */
	u32 stack;	 /* runtime.g.stack: its lowest address, and its end */
	u32 id;		 /* runtime.g.goid */
	u32 start;	 /* runtime.g.startpc: its first function */
	u32 status;	 /* runtime.g.atomicstatus: GO_DEAD once it has ended */
	u32 started;	 /* runtime.g.parentGoid: by whom */
	u32 pad;
	u32 cancelled;	/* cancelCtx.err: a word that is 0 until then */
	u32 key, value; /* of a valueCtx: interfaces */
	struct go_tcp tcp;
	struct go_grpc_server grpc_server;
	struct go_grpc_client grpc_client;
	struct go_http2_server http2_server[GO_COPIES];
	u32 stream_id, stream_context; /* of an HTTP/2 client's stream */
	u32 conn_cancel;     /* http.conn.cancelCtx: a closure, whose second word is the context */
	u32 request_context; /* of a transportRequest, or of the Request in it */
	s32 request_via;     /* where a transportRequest points to that Request; -1: it is itself */
	struct go_entry entry[GO_ENTRIES]; /* up to the first without a place */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* process */
	__type(value, struct go_program);
} go_programs SEC(".maps");

/* A number or an address that means something in one process. */
struct go_key {
	u64 word;
	u32 tgid;
	u32 pad;
};

enum go_context_kind {
	GO_CONTEXT_OTHER = 0,
	GO_CONTEXT_VALUE = 1,
	GO_CONTEXT_CANCEL = 2,
};

struct go_context {
	s32 via;    /* where the context points to what has its parent; -1: it has it itself */
	s32 parent; /* an interface; -1: none */
	u32 kind;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct go_key); /* an itab, the first word of such a context */
	__type(value, struct go_context);
} go_contexts SEC(".maps");

/*
 * The goroutine of a connection. The kernel keeps a socket for longer than the program does: what
 * belongs to the goroutine is its own only while it lives.
 */
struct go_server {
	u64 id;
	u64 g; /* address of its runtime.g, which is never freed */
};

/* Accepted connections, while they are open. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct go_key); /* the id of the goroutine that serves it */
	__type(value, struct context);
} go_requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct go_key); /* its context */
	__type(value, struct go_server);
} go_connections SEC(".maps");

/* The same of connections that were closed: whom its goroutine has started may still be there. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct go_key);
	__type(value, u8);
} go_served SEC(".maps");

/*
 * While conn.serve is in a TLS handshake, its connection has no context yet, and it may read the
 * first request with the end of the handshake. What will be that context's parent is a variable of
 * conn.serve by then. These are all that may be it, for a stack has words of other connections, too:
 * it is if the goroutine lives, and the context below it is the connection's when somebody asks.
 */
struct go_handshake {
	struct go_server of;
	u64 conn; /* address */
};

struct go_handshakes {
	u64 n; /* how many there were; the last ones are kept */
	struct go_handshake last[GO_SHAKING];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct go_key);
	__type(value, struct go_handshakes);
} go_handshakes SEC(".maps");

/* Accepted connections of HTTP/2, while they are open. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);   /* address of the struct sock */
	__type(value, u64); /* http2.id */
} go_sockets SEC(".maps");

/* Those whose frames a goroutine of net/http or golang.org/x/net/http2 reads, while they are open. */
struct go_http2_conn {
	struct go_server reader;
	u64 conn; /* address of the serverConn */
	u64 copy;
	u64 connection; /* http2.id */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct go_key); /* serverConn.baseCtx */
	__type(value, struct go_http2_conn);
} go_http2_conns SEC(".maps");

enum go_lead {
	GO_NOWHERE,
	GO_REQUEST,  /* to the one that a goroutine serves */
	GO_STREAM,   /* to the one of a stream */
	GO_CONN,     /* to the stream of a connection that has this context */
	GO_FINISHED, /* to one that is over, though something still has its context */
	GO_FOREIGN,  /* to one that is not followed: HTTP/2, gRPC */
};

struct go_walk {
	u64 itab, data;
	u64 copy;  /* GO_CONN: its package's */
	u64 began; /* the context of the stack that this came from */
	u64 child; /* whose parent this is, if that can be cancelled */
	u64 grandchild;
	u64 id;			  /* GO_REQUEST: the goroutine; GO_CONN: the serverConn */
	struct stream_key stream; /* GO_STREAM; GO_CONN: its connection alone */
	u32 lead;
	u32 left; /* parents that may be followed yet; 0: the next context is due */
};

/* Parts of a map, as the program has them: a Swiss table, since Go 1.24. */
struct go_group {
	u64 control;
	struct {
		u64 key, value;
	} slot[8];
};

/* internal/runtime/maps.Map and table. */
struct go_map {
	u64 used, seed, directory, tables;
	u8 depth, shift, pad[6];
};

struct go_table {
	u64 counts, index, groups, mask;
};

/* Where in a map a search for a stream is. */
struct go_seek {
	u64 group, left; /* the next group of a table, and how many there are yet */
	u64 table;	 /* the next one */
	u64 stream;	 /* found; 0: not yet */
};

struct goroutine {
	u64 g, id, sp, high, start;
	u64 copy; /* of the package that has its place */
};

struct go_scratch {
	u64 stack[GO_STACK + 2]; /* and one behind, which is no context's */
	u64 found[GO_FOUND];	 /* where in stack contexts are */
	u32 n, next;		 /* how many there are, and the one that is followed next */
	u32 tgid;
	u32 pad;
	struct go_walk walk;
	struct goroutine goroutine;
	u64 method[2];	   /* the string of the gRPC call that is sent; 0: not known */
	struct go_map map; /* what would be too large for the stack on Linux 6.1 */
	struct go_table table;
	struct go_group group;
	struct go_seek seek;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct go_scratch);
} go_scratches SEC(".maps");

INLINE struct go_scratch *go_scratch_of(u32 hook)
{
	return bpf_map_lookup_elem(&go_scratches, &hook);
}

INLINE u64 go_word(u64 address)
{
	u64 word = 0;
	bpf_probe_read_user(&word, sizeof(word), (void *)address);
	return word;
}

/* ---- the goroutine ---- */

/* The goroutine of a thread in a system call. False: of none, as when C was called. */
INLINE bool goroutine_here(const struct go_program *p, struct goroutine *r)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	u64 stack[2];
#if defined(__TARGET_ARCH_x86)
	r->g = regs->r14;
#else
	r->g = regs->regs[28];
#endif
	r->sp = regs->sp;
	if (bpf_probe_read_user(stack, sizeof(stack), (void *)(r->g + p->stack)) ||
	    r->sp < stack[0] || r->sp >= stack[1])
		return false;
	r->high = stack[1];
	r->id = go_word(r->g + p->id);
	r->start = go_word(r->g + p->start);
	return r->id;
}

/* What the goroutine is for; notes what its slot holds. */
__noinline int go_place_of(u32 hook, u64 *slot)
{
	struct go_scratch *s = go_scratch_of(hook);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	if (!p || !slot)
		return GO_ELSEWHERE;
	u64 high = s->goroutine.high, start = s->goroutine.start;
	for (u32 i = 0; i < GO_ENTRIES; i++) {
		const struct go_entry *e = &p->entry[i];
		if (!e->place)
			break;
		if (e->start == start && go_word(high - e->at) == e->pc) {
			*slot = go_word(high - e->slot);
			s->goroutine.copy = e->copy;
			return e->place;
		}
	}
	return GO_ELSEWHERE;
}

/* ---- contexts ---- */

/* The connection of HTTP/2 that a net.Conn is, or what that has first (h2c, cmux); 0: not followed. */
__noinline u64 go_connection_of(u64 conn)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	u32 fd = 0;
	if (!p || !p->tcp.type)
		return 0;
	if (go_word(go_word(conn) + 8) != p->tcp.type)
		conn = go_word(conn + 8);
	if (go_word(go_word(conn) + 8) != p->tcp.type)
		return 0;
	u64 netfd = go_word(go_word(conn + 8) + p->tcp.netfd);
	if (bpf_probe_read_user(&fd, sizeof(fd), (void *)(netfd + p->tcp.fd)))
		return 0;
	u64 sk = (u64)socket_at(fd), *connection = bpf_map_lookup_elem(&go_sockets, &sk);
	return connection ? *connection : 0;
}

/* Notes a stream: of a connection, with the id at an address. False: it is not known. */
INLINE bool go_stream_is(struct go_scratch *s, u64 connection, u64 at)
{
	u32 id = 0;
	if (!connection || bpf_probe_read_user(&id, sizeof(id), (void *)at))
		return false;
	s->walk.stream = (struct stream_key){.connection = connection, .stream = id};
	return true;
}

INLINE const struct go_http2_server *go_http2_of(const struct go_program *p, u64 copy)
{
	OPAQUE(copy);
	return &p->http2_server[copy & (GO_COPIES - 1)];
}

/* The stream of a gRPC call; false if its connection is not followed. */
__noinline int go_stream_of(u64 stream)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	if (!p)
		return false;
	const struct go_grpc_server *g = &p->grpc_server;
	u64 connection = go_connection_of(go_word(stream + g->server + 8) + g->conn);
	if (g->via >= 0)
		stream = go_word(stream + g->via);
	return go_stream_is(s, connection, stream + g->id);
}

/*
 * The same of a handler under HTTP/2, by the pointers that its first function holds: one is that to
 * its responseWriter.
 */
__noinline int go_http2_call(void)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	if (!p)
		return false;
	u64 high = s->goroutine.high, start = s->goroutine.start;
	for (u32 i = 0; i < GO_ENTRIES; i++) {
		const struct go_entry *e = &p->entry[i];
		if (!e->place)
			break;
		if (e->place != GO_HTTP2_CALL || e->start != start ||
		    go_word(high - e->at) != e->pc)
			continue;
		const struct go_http2_server *h = go_http2_of(p, e->copy);
		u64 stream = go_word(go_word(go_word(high - e->slot) + h->state) + h->stream);
		if (go_stream_is(s, go_connection_of(go_word(stream + h->conn) + h->socket),
				 stream + h->id))
			return true;
	}
	return false;
}

/* The context of a connection of net/http; 0: it has none yet. */
INLINE u64 go_context_of(const struct go_program *p, u64 conn)
{
	u64 cancel = go_word(conn + p->conn_cancel);
	return cancel ? go_word(cancel + 8) : 0;
}

INLINE bool go_lives(const struct go_program *p, const struct go_server *s)
{
	u32 status = GO_DEAD;
	bpf_probe_read_user(&status, sizeof(status), (void *)(s->g + p->status));
	return status != GO_DEAD && go_word(s->g + p->id) == s->id;
}

/* Whether net/http has put a value into this context: the parent of a connection's. */
INLINE bool go_is_net_http(const struct go_program *p, u64 at)
{
	return p->key_type && go_word(at + p->key) == p->key_type;
}

/* Follows a context to its parent. False: it has none, or it leads somewhere. */
INLINE bool go_to_parent(struct go_scratch *s)
{
	struct go_walk *w = &s->walk;
	struct go_program *p = bpf_map_lookup_elem(&go_programs, &s->tgid);
	struct go_key key = {.word = w->itab, .tgid = s->tgid};
	struct go_context *c = bpf_map_lookup_elem(&go_contexts, &key);
	if (!p || !c || !w->data)
		return false;
	u64 at = w->data, child = w->child;
	w->child = 0;
	key.word = at;
	if (c->kind == GO_CONTEXT_CANCEL) {
		struct go_server *of = bpf_map_lookup_elem(&go_connections, &key);
		if (of && !child)
			return false;	     /* only conn.serve has it: what was left behind */
		if (of && go_lives(p, of)) { /* its child is the request's own */
			w->id = of->id;
			w->lead = child && go_word(child + p->cancelled) ? GO_FINISHED : GO_REQUEST;
			return false;
		}
		w->child = at;
		w->grandchild = child;
	} else if (c->kind == GO_CONTEXT_VALUE) {
		if (p->stream_type && go_word(at + p->value) == p->stream_type) {
			w->lead = go_stream_of(go_word(at + p->value + 8)) ? GO_STREAM : GO_FOREIGN;
			return false;
		}
		if (child && go_is_net_http(p, at)) {
			struct go_handshakes *h = bpf_map_lookup_elem(&go_handshakes, &key);
			struct go_http2_conn *of = bpf_map_lookup_elem(&go_http2_conns, &key);
			if (of && go_lives(p, &of->reader)) {
				w->lead = GO_CONN;
				w->id = of->conn;
				w->copy = of->copy;
				w->stream.connection = of->connection;
				w->child = child;
				return false;
			}
			w->lead = GO_FOREIGN;
			for (u32 i = 1; h && i <= GO_SHAKING; i++) {
				struct go_handshake *last = &h->last[(h->n - i) % GO_SHAKING];
				if (!go_lives(p, &last->of) ||
				    go_context_of(p, last->conn) != child)
					continue;
				w->id = last->of.id;
				w->lead = go_word(w->grandchild + p->cancelled) ? GO_FINISHED
										: GO_REQUEST;
				break;
			}
			return false;
		}
	}
	if (c->parent < 0)
		return false;
	if (c->via >= 0)
		at = go_word(at + c->via);
	return !bpf_probe_read_user(&w->itab, 16, (void *)(at + c->parent)); /* and data */
}

/* Begins with the next of the contexts that were found. False: there is none. */
INLINE bool go_begin(struct go_scratch *s)
{
	struct go_walk *w = &s->walk;
	u64 i = s->next;
	if (i >= GO_FOUND || i >= s->n)
		return false;
	s->next = i + 1;
	u64 at = s->found[i];
	if (at >= GO_STACK)
		return false;
	w->itab = s->stack[at];
	w->data = s->stack[at + 1];
	w->child = 0;
	w->left = w->data == w->began ? 0 : GO_PARENTS;
	w->began = w->data;
	return true;
}

static long go_step(u64 i, void *unused)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	if (!s)
		return 1;
	if (s->walk.left && go_to_parent(s)) {
		s->walk.left--;
		return 0;
	}
	return s->walk.lead != GO_NOWHERE || !go_begin(s) ? 1 : 0;
}

/*
 * Where the first of the contexts that were found leads that leads anywhere: enum go_lead. One loop
 * over them and their parents, as the verifier walks each.
 */
INLINE u32 go_follow(struct go_scratch *s)
{
	s->next = 0;
	s->walk.left = 0;
	s->walk.began = 0;
	s->walk.lead = GO_NOWHERE;
	bpf_loop(GO_STEPS, go_step, 0, 0);
	return s->walk.lead;
}

/* Notes where on the stack a context may be: the first word of an interface. */
static long go_look(u64 i, void *unused)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	if (!p || i >= GO_STACK)
		return 1;
	u64 word = s->stack[i], n = s->n;
	if (word < p->itab_low || word > p->itab_high)
		return 0;
	if (n >= GO_FOUND)
		return 1;
	s->found[n] = i;
	s->n = n + 1;
	return 0;
}

/* Finds the contexts on the stack, from the innermost one on. */
INLINE void go_search(struct go_scratch *s, u64 sp, u64 high)
{
	u64 bytes = AT_MOST(high - sp, GO_STACK * 8);
	s->n = 0;
	if (!bpf_probe_read_user(s->stack, bytes, (void *)sp))
		bpf_loop(bytes / 8, go_look, 0, 0);
}

/* ---- what worker.bpf.h asks ---- */

INLINE u32 go_tgid(void)
{
	return bpf_get_current_task_btf()->tgid;
}

/* The request that a goroutine serves; its span is 0 if it is not sampled. False: it serves none. */
INLINE bool go_request(u64 id, u32 tgid, struct context *ctx)
{
	struct go_key k = {.word = id, .tgid = tgid};
	struct context *held = bpf_map_lookup_elem(&go_requests, &k);
	if (held)
		*ctx = *held;
	return held;
}

#include "gomap.bpf.h"

/* Where the context is of a stream that a client of gRPC begins; 0: not found. */
__noinline u64 go_grpc_context(u64 loopy, u32 id)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	u32 found = 0;
	if (!p || !id)
		return 0;
	const struct go_grpc_client *g = &p->grpc_client;
	u64 client = go_word(go_word(loopy + g->closure) + 8);
	if (!client || go_word(client + g->loopy) != loopy ||
	    go_word(client + g->framer) != go_word(loopy + g->loopy_framer))
		return 0;
	u64 stream = go_map_find(go_word(client + g->streams), id, g);
	if (!stream || go_word(stream + g->client) != client)
		return 0;
	if (g->via >= 0)
		stream = go_word(stream + g->via);
	if (bpf_probe_read_user(&found, sizeof(found), (void *)(stream + g->id)) || found != id)
		return 0;
	bpf_probe_read_user(s->method, sizeof(s->method), (void *)(stream + g->method));
	return stream + g->context;
}

/* Looks in the next group of a map of streams for the one that has the walk's last context. */
static long go_seek_step(u64 i, void *unused)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	if (!p)
		return 1;
	struct go_seek *k = &s->seek;
	const struct go_http2_server *h = go_http2_of(p, s->walk.copy);
	struct go_group *g = &s->group;
	if (!k->left) {
		if (k->table >= s->map.tables ||
		    bpf_probe_read_user(&s->table, sizeof(s->table),
					(void *)go_word(s->map.directory + 8 * k->table)))
			return 1;
		k->table++;
		k->group = s->table.groups;
		k->left = s->table.mask + 1;
	}
	if (bpf_probe_read_user(g, sizeof(*g), (void *)k->group))
		return 1;
	k->group += sizeof(*g);
	k->left--;
	for (int j = 0; j < 8; j++) {
		u64 stream = g->slot[j].value;
		if (g->control >> (8 * j) & 0x80 ||
		    go_word(stream + h->context + 8) != s->walk.child ||
		    go_word(stream + h->conn) != s->walk.id)
			continue;
		k->stream = stream;
		return 1;
	}
	return 0;
}

/* Finds the stream of a connection that a walk has ended at: enum go_lead. */
__noinline int go_seek_stream(void)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	if (!p)
		return GO_FOREIGN;
	const struct go_http2_server *h = go_http2_of(p, s->walk.copy);
	if (!h->streams ||
	    bpf_probe_read_user(&s->map, sizeof(s->map), (void *)go_word(s->walk.id + h->streams)))
		return GO_FOREIGN;
	s->seek = (struct go_seek){};
	if (!s->map.tables) {
		s->seek.group = s->map.directory;
		s->seek.left = 1;
	}
	bpf_loop(GO_GROUPS, go_seek_step, 0, 0);
	u64 stream = s->seek.stream;
	return stream && go_stream_is(s, s->walk.stream.connection, stream + h->id) ? GO_STREAM
										    : GO_FINISHED;
}

/*
 * A stack is not cleared when it grows or changes hands: what a function has not yet written may be
 * another request's. Who was started by the goroutine of one request does not work for another.
 */
__noinline int go_believed(u32 lead)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	if (!p)
		return GO_NOWHERE;
	struct go_key k = {.word = go_word(s->goroutine.g + p->started), .tgid = s->tgid};
	if (lead == GO_REQUEST && k.word == s->walk.id)
		return lead;
	return bpf_map_lookup_elem(&go_requests, &k) || bpf_map_lookup_elem(&go_served, &k)
		   ? GO_NOWHERE
		   : lead;
}

/* Where a goroutine leads that has received no request itself; stream 0: it asks over HTTP/1. */
INLINE int go_leads(u64 sp, u64 high, u32 stream)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	u64 object = 0;
	u32 id = 0;
	if (!p)
		return GO_NOWHERE;
	switch (go_place_of(HOOK_SENDS, &object)) {
	case GO_SERVE:
		return GO_NOWHERE;
	case GO_HTTP2:
	case GO_HTTP2_READ:
		return GO_FOREIGN;
	case GO_HTTP2_CALL:
		return go_http2_call() ? GO_STREAM : GO_FOREIGN;
	case GO_GRPC_CALL:
		return go_stream_of(object) ? GO_STREAM : GO_FOREIGN;
	case GO_GRPC_WRITE:
		object = go_grpc_context(object, stream);
		break;
	case GO_HTTP2_ASK:
		if (bpf_probe_read_user(&id, sizeof(id), (void *)(object + p->stream_id)) ||
		    id != stream)
			return GO_NOWHERE; /* it writes for the connection */
		object += p->stream_context;
		break;
	case GO_WRITE_LOOP:
		if (p->request_via >= 0)
			object = go_word(object + p->request_via);
		object += p->request_context;
		break;
	default:
		go_search(s, sp, high);
		u32 lead = go_follow(s);
		return lead == GO_REQUEST || lead == GO_STREAM || lead == GO_CONN
			   ? go_believed(lead)
			   : lead;
	}
	s->n = 1;
	s->found[0] = 0;
	if (!object || bpf_probe_read_user(s->stack, 16, (void *)object))
		return GO_NOWHERE;
	return go_follow(s);
}

/* The request of a stream, or none if it is not sampled. */
INLINE int go_stream_request(const struct stream_key *k, struct context *ctx)
{
	struct stream *s = bpf_map_lookup_elem(&streams, k);
	if (!s)
		return 0;
	*ctx = s->server.ctx;
	return ctx->span ? 0 : TARE_UNLINKED_STALE; /* its response has begun */
}

/*
 * Which request caused what the goroutine sends, in a stream if it does so over HTTP/2? As
 * worker_asks.
 */
__noinline int go_asks(struct conn *c, u32 stream, struct context *ctx)
{
	if (!c || !ctx)
		return 0;
	struct service_state *svc = service_of(c->service);
	if (!svc || !(svc->in_flight || in_grace()))
		return 0;
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	u32 tgid = go_tgid();
	struct go_program *p = bpf_map_lookup_elem(&go_programs, &tgid);
	if (!p || !s)
		return TARE_UNLINKED_RUNTIME;
	s->tgid = tgid;
	s->method[0] = 0;
	struct goroutine *r = &s->goroutine;
	if (!goroutine_here(p, r))
		return TARE_UNLINKED_NO_REQUEST;
	if (!stream && go_request(r->id, tgid, ctx)) /* frames are written by others, too */
		return 0;
	u32 lead = go_leads(r->sp, r->high, stream);
	if (lead == GO_CONN)
		lead = go_seek_stream();
	switch (lead) {
	case GO_REQUEST:
		return go_request(s->walk.id, tgid, ctx) ? 0 : TARE_UNLINKED_STALE;
	case GO_STREAM:
		return go_stream_request(&s->walk.stream, ctx);
	case GO_FINISHED:
		return TARE_UNLINKED_STALE;
	case GO_FOREIGN:
		return TARE_UNLINKED_HTTP2;
	}
	return TARE_UNLINKED_NO_REQUEST;
}

/* The name of the gRPC call that was just asked for; false if it is not known. */
INLINE bool go_method(struct bytes *b)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	if (!s || !s->method[0] || !s->method[1])
		return false;
	b->data = (void *)s->method[0];
	b->len = AT_MOST(s->method[1], TARE_PAYLOAD_START);
	return true;
}

/* Notes a variable of conn.serve that may be the parent of its connection's context. */
static long go_variable(u64 i, void *unused)
{
	struct go_scratch *s = go_scratch_of(HOOK_RECEIVES);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	if (!p || i >= GO_SERVING)
		return 1;
	struct go_key k = {.word = s->stack[i], .tgid = s->tgid};
	if (k.word & 7 || !(k.word >> 16) || !go_is_net_http(p, k.word))
		return 0;
	struct go_handshakes *h = bpf_map_lookup_elem(&go_handshakes, &k);
	if (!h) {
		static const struct go_handshakes none;
		bpf_map_update_elem(&go_handshakes, &k, &none, BPF_ANY);
		h = bpf_map_lookup_elem(&go_handshakes, &k);
	}
	if (!h || h->last[(h->n - 1) % GO_SHAKING].of.id == s->walk.id)
		return 0;
	struct go_handshake *place = &h->last[__sync_fetch_and_add(&h->n, 1) % GO_SHAKING];
	place->conn = s->walk.data;
	place->of.g = s->goroutine.g;
	place->of.id = s->walk.id;
	return 0;
}

/* The same of all of them. */
INLINE void go_shakes_hands(struct go_scratch *s, u64 conn)
{
	struct goroutine *r = &s->goroutine;
	u64 bytes = AT_MOST(r->high - r->sp, GO_SERVING * 8);
	if (bpf_probe_read_user(s->stack, bytes, (void *)(r->high - bytes)))
		return;
	s->walk.id = r->id;
	s->walk.data = conn;
	bpf_loop(bytes / 8, go_variable, 0, 0);
}

/* Finds out which goroutine serves an accepted connection, if this is the one. */
__noinline int go_serves(struct conn *c)
{
	u64 conn = 0;
	if (!c)
		return 0;
	struct go_scratch *s = go_scratch_of(HOOK_RECEIVES);
	u32 tgid = go_tgid();
	struct go_program *p = bpf_map_lookup_elem(&go_programs, &tgid);
	if (!p || !s)
		return 0;
	struct goroutine *r = &s->goroutine;
	if (!goroutine_here(p, r))
		return 0;
	s->tgid = tgid;
	if (go_place_of(HOOK_RECEIVES, &conn) != GO_SERVE)
		return 0;
	u64 context = go_context_of(p, conn);
	struct go_key k = {.word = go_word(context), .tgid = tgid};
	if (context && !bpf_map_lookup_elem(&go_contexts, &k))
		return 0;
	bool first = !c->server.go.goroutine;
	c->server.go = (struct go_conn){.goroutine = r->id, .context = context, .tgid = tgid};
	k.word = context;
	struct go_server of = {.id = r->id, .g = r->g};
	if (context)
		bpf_map_update_elem(&go_connections, &k, &of, BPF_ANY);
	else if (first)
		go_shakes_hands(s, conn);
	return 1;
}

INLINE void go_note(struct conn *c, const struct context *ctx)
{
	struct go_key k = {.word = c->server.go.goroutine, .tgid = c->server.go.tgid};
	struct context now = *ctx;
	if (bpf_map_update_elem(&go_requests, &k, &now, BPF_ANY))
		count(TARE_C_STORAGE_FULL);
	c->server.go.sampled = ctx->span != 0;
}

/* A request is received, or more of it: the goroutine that serves its connection works for it. */
__noinline int go_received(struct conn *c, u32 begins)
{
	if (!c)
		return 0;
	struct go_conn *go = &c->server.go;
	bool found = !(go->goroutine && go->context) && go_serves(c);
	if (go->goroutine && (found || (begins && (c->server.x.ctx.span || go->sampled))))
		go_note(c, &c->server.x.ctx);
	return 0;
}

/*
 * Something is received on an accepted connection of HTTP/2: by the goroutine that reads the frames
 * of net/http's or golang.org/x/net/http2's server?
 */
__noinline int go_reads_frames(struct conn *c)
{
	u64 conn = 0;
	if (!c)
		return 0;
	struct go_scratch *s = go_scratch_of(HOOK_RECEIVES);
	u32 tgid = go_tgid();
	struct go_program *p = bpf_map_lookup_elem(&go_programs, &tgid);
	if (!p || !s)
		return 0;
	struct goroutine *r = &s->goroutine;
	if (!goroutine_here(p, r))
		return 0;
	s->tgid = tgid;
	u32 place = go_place_of(HOOK_RECEIVES, &conn);
	/* conn.serve has the preface, and what came with it, in any number of segments. */
	if (place != GO_SERVE)
		c->server.go.looks++;
	if (place != GO_HTTP2_READ)
		return 0;
	struct go_key k = {.word = go_word(conn + go_http2_of(p, r->copy)->base + 8), .tgid = tgid};
	struct go_http2_conn of = {.reader = {.id = r->id, .g = r->g},
				   .conn = conn,
				   .copy = r->copy,
				   .connection = c->http2.id};
	if (bpf_map_update_elem(&go_http2_conns, &k, &of, BPF_ANY))
		count(TARE_C_STORAGE_FULL);
	c->server.go.looks = GO_LOOKS;
	c->server.go.tgid = tgid;
	c->server.go.context = k.word;
	return 0;
}

INLINE void go_http2_received(struct conn *c)
{
	if (c->linking == TARE_LINK_GOROUTINE && c->server.go.looks < GO_LOOKS)
		go_reads_frames(c);
}

/* An accepted connection turns out to be one of HTTP/2. */
INLINE void go_http2(struct conn *c)
{
	u64 socket = c->server.socket, id = c->http2.id;
	if (c->linking == TARE_LINK_GOROUTINE && c->flags & C_SERVER &&
	    bpf_map_update_elem(&go_sockets, &socket, &id, BPF_ANY))
		count(TARE_C_STORAGE_FULL);
}

/* The connection ends. */
INLINE void go_closed(struct conn *c)
{
	struct go_key k = {.word = c->server.go.context, .tgid = c->server.go.tgid};
	u64 socket = c->server.socket;
	if (c->flags & C_HTTP2 && c->linking == TARE_LINK_GOROUTINE)
		bpf_map_delete_elem(&go_sockets, &socket);
	struct go_http2_conn *reads = k.word ? bpf_map_lookup_elem(&go_http2_conns, &k) : 0;
	if (reads && reads->connection == c->http2.id)
		bpf_map_delete_elem(&go_http2_conns, &k);
	struct go_server *of = k.word ? bpf_map_lookup_elem(&go_connections, &k) : 0;
	if (of && of->id == c->server.go.goroutine)
		bpf_map_delete_elem(&go_connections, &k);
	k.word = c->server.go.goroutine;
	if (k.word && !bpf_map_delete_elem(&go_requests, &k)) {
		u8 yes = 1;
		bpf_map_update_elem(&go_served, &k, &yes, BPF_ANY);
	}
}

#endif
