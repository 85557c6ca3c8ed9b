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
 * Each source goes on with what the one before has left in one scratch, in a chain of calls that has
 * just the stack that Linux 6.1 allows.
 */
#ifndef TARE_GOLANG_H
#define TARE_GOLANG_H

#include "gostate.bpf.h"
#include "gocontext.bpf.h"
#include "goframe.bpf.h"
#include "gomap.bpf.h"

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
 * Is a lead by a context on the stack believed? One that is not in use may be another request's, but
 * for the one that has started the goroutine.
 */
INLINE bool go_believed(struct go_scratch *s, const struct go_program *p, u32 lead)
{
	u64 i = s->next - 1;
	return (i < GO_FOUND && go_live(&s->frame, s->goroutine.sp + 8 * (s->found[i] + 1))) ||
	       (lead == GO_REQUEST && go_word(s->goroutine.g + p->started) == s->walk.id);
}

/* Where a goroutine leads that has received no request itself; stream 0: it asks over HTTP/1. */
INLINE int go_leads(u64 sp, u64 high, u32 stream)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	u64 object = 0;
	bool exact = true;
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
		if (bpf_probe_read_user(&s->id, sizeof(s->id), (void *)(object + p->stream_id)) ||
		    s->id != stream)
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
		exact = false;
	}
	if (exact) {
		s->n = 1;
		s->found[0] = 0;
		if (!object || bpf_probe_read_user(s->stack, 16, (void *)object))
			return GO_NOWHERE;
	}
	s->next = 0;
	for (int i = 0; i < GO_LEADS; i++) {
		u32 lead = go_follow();
		if (!exact && lead != GO_NOWHERE && !go_believed(s, p, lead))
			continue;
		return lead;
	}
	return GO_NOWHERE;
}

/* The request of a stream, or none if it is not sampled. */
INLINE int go_stream_request(const struct stream_key *k, struct context *ctx)
{
	struct stream *s = bpf_map_lookup_elem(&streams, k);
	if (!s)
		return traced_from() ? 0 : TARE_UNLINKED_STALE; /* if all are sampled, it is over */
	*ctx = s->server.ctx;
	return 0;
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
	if (!svc || nothing_sampled(c, svc))
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

/* The goroutine starts a process: is it one that serves a request? Also one that is not sampled. */
__noinline int go_starts_for(struct context *ctx)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	u32 tgid = go_tgid();
	struct go_program *p = bpf_map_lookup_elem(&go_programs, &tgid);
	if (!ctx || !p || !s || !goroutine_here(p, &s->goroutine))
		return 0;
	return go_request(s->goroutine.id, tgid, ctx);
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
	if (k.word)
		bpf_map_delete_elem(&go_requests, &k);
}

#endif
