/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads which goroutine a thread runs and what it is for, and where the contexts on its stack lead:
 * to a connection or a stream, as far as golang.bpf.h remembers it.
 */
#ifndef TARE_GOCONTEXT_H
#define TARE_GOCONTEXT_H

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
	struct go_key *key = &s->key;
	key->word = w->itab;
	key->tgid = s->tgid;
	struct go_context *c = bpf_map_lookup_elem(&go_contexts, key);
	if (!p || !c || !w->data)
		return false;
	u64 at = w->data, child = w->child;
	w->child = 0;
	key->word = at;
	if (c->kind == GO_CONTEXT_CANCEL) {
		struct go_server *of = bpf_map_lookup_elem(&go_connections, key);
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
			struct go_handshakes *h = bpf_map_lookup_elem(&go_handshakes, key);
			struct go_http2_conn *of = bpf_map_lookup_elem(&go_http2_conns, key);
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
 * Where the first leads that leads anywhere of the contexts that were found, from the next one on:
 * enum go_lead. One loop over them and their parents, as the verifier walks each.
 */
__noinline int go_follow(void)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	if (!s)
		return GO_NOWHERE;
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

#endif
