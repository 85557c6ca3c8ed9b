//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hooks of unix stream sockets: unix.bpf.h. All but the first are called for sockets of every
 * kind, so that the agent attaches them only while traced services use unix sockets.
 *
 *	connects  cgroup connect_unix: any process connects
 *	sends     sk_data_ready: bytes are in the other end's queue; in the sender, once per buffer
 *	sent      sock_send_length: at the end of the call, with what it has sent
 *	received  sock_recv_length: at the end of the call
 *	sweep     run by the agent: sockets that were closed
 */

SEC("cgroup/connect_unix")
int tare_unix_connects(struct bpf_sock_addr *a)
{
	struct bpf_sock *sk = a->sk;
	u32 tgid = bpf_get_current_task_btf()->tgid;
	if (!sk || a->type != SOCK_STREAM || sk->state == TCP_ESTABLISHED)
		return 1;
	struct service *svc = bpf_map_lookup_elem(&processes, &tgid);
	if (svc) {
		unix_wanted();
		worker_may_turn(svc);
	}
	if (!unix_epoch)
		return 1;
	struct unix_end *e = bpf_sk_storage_get(&unix_ends, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!e) {
		count(TARE_C_STORAGE_FULL);
		return 1;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->epoch = unix_epoch;
	e->role = UNIX_CLIENT;
	struct conn *c =
	    svc ? unix_begins((u64)sk, bpf_get_socket_cookie(a), svc, C_CLIENT | C_STANDS) : 0;
	if (!c)
		return 1;
	if (service_silent(c))
		c->flags |= C_SILENT;
	worker_connects(c);
	return 1;
}

/* All that was received before has been taken, as far as the queue tells. */
INLINE bool unix_queue_is_one(struct sock *sk)
{
	struct sk_buff *next = sk->sk_receive_queue.next;
	return next && next == sk->sk_receive_queue.prev;
}

/*
 * Bytes are being taken from this socket's queue: they leave it before the hook that counts them. The sender often runs
 * just then, as the kernel wakes it when a buffer is free (unix_stream_read_generic). Not known with PREEMPT_RT, whose
 * mutexes are others.
 */
INLINE bool unix_is_read(const struct unix_sock *u)
{
	return bpf_core_field_exists(u->iolock.owner) &&
	       ((volatile struct unix_sock *)u)->iolock.owner.counter;
}

/* A client asks. */
INLINE void unix_asks(struct conn *c, struct unix_end *e, struct unix_end *to, struct tcp_view *v,
		      struct bytes *b, struct sock *server)
{
	u64 before = c->client.x.span;
	unix_wanted();
	own_drawn(c);
	client_send(c, v, b);
	if (c->flags & C_HTTP2) {
		count(TARE_C_HTTP2_LOST);
		unix_gives_up(c);
		return;
	}
	bool began = c->client.x.span && c->client.x.span != before;
	struct unix_sock *u = began ? bpf_skc_to_unix_sock(server) : 0;
	if (u)
		unix_tells(u, c->client.x.span);
	struct note n = {.kind = NOTE_TAG, .start = v->write_seq};
	if (to->received && !unix_conn(server)) { /* who listens is not traced */
		c->tags = 0;
	} else if (c->tags) {
		n.ctx = c->client.tx[0].ctx;
		n.start = c->client.tx[0].start;
		c->tags = 0;
		count(TARE_C_TAG_SENT);
		unix_note(to, &n);
	} else if (c->flags & C_SILENT) {
		struct service_state *svc = service_of(c->service);
		n.kind = NOTE_BEHIND;
		if (svc)
			__builtin_memcpy(n.name, svc->name, MARK_NAME);
		unix_note(to, &n);
	}
}

INLINE void unix_answers(struct conn *c, struct tcp_view *v, struct bytes *b)
{
	if (!server_is_idle(c, b->size) && server_send(c, v, b))
		server_next(c, v);
}

/* This thread sends at this end of a connection. */
INLINE struct conn *unix_sends(struct sock *from, struct unix_end *e, struct sock *sk,
			       struct unix_sock *u, struct unix_end *to)
{
	/*
	 * In turns, what was sent before has been received by the next turn; else something was received
	 * unseen: splice. Once may be a receive whose hook is the next thing to run.
	 */
	if (e->asked != e->received) {
		bool behind =
		    !unix_is_read(u) && unix_queue_is_one(sk) && before(to->received, e->sent);
		if (behind && e->behind)
			e->lost = to->lost = 1;
		e->behind = behind;
	}
	e->asked = e->received;
	struct conn *c = unix_mine(from, e);
	struct bytes b = {};
	struct tcp_view v = {};
	if (!c || c->flags & C_IGNORED || !unix_hold(e))
		return 0;
	if (e->lost) {
		unix_gives_up(c);
		unix_release(e);
		return 0;
	}
	call_bytes(&b);
	if (!b.size) /* io_uring */
		b.size = BPF_CORE_READ(sk, sk_receive_queue.prev, len);
	unix_view(&v, from, e);
	if (c->flags & C_CLIENT && guarded(c))
		v.watched = watched(from);
	if (cfg_measure)
		measure_sent(c, b, v.write_seq);
	if (c->flags & C_CLIENT)
		unix_asks(c, e, to, &v, &b, sk);
	else
		unix_answers(c, &v, &b);
	unix_release(e);
	return c;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(tare_unix_sends, struct sock *sk)
{
	if (sk->__sk_common.skc_family != AF_UNIX || sk->sk_type != SOCK_STREAM ||
	    sk->__sk_common.skc_state != TCP_ESTABLISHED)
		return 0;
	u64 began = weigh_begins();
	struct unix_sock *u = bpf_skc_to_unix_sock(sk);
	struct sock *from = u ? u->peer : 0;
	if (!from)
		return 0;
	struct unix_end *e = unix_joined(from, sk), *to = unix_joined(sk, from);
	if (!e || !to)
		return 0;
	u32 thread = thread_id();
	if (e->calls) {
		if (e->calls != thread) /* two at once: whose bytes came first is not known */
			e->lost = to->lost = 1;
		return 0;
	}
	e->calls = thread;
	struct conn *c = unix_sends(from, e, sk, u, to);
	e->told = 1;
	if (c)
		weigh_ends(began, c);
	return 0;
}

/* The other end has closed: what is to be answered here will not be. */
INLINE void unix_ends_here(struct sock *sk, struct unix_end *e)
{
	struct conn *c = unix_conn(sk);
	if (!c || c->flags & C_IGNORED || !unix_hold(e))
		return;
	if (c->flags & C_CLIENT)
		worker_closes(c, e->received);
	unix_over(c, 0);
	unix_release(e);
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(tare_unix_sent, struct sock *sk, int length)
{
	if (sk->__sk_common.skc_family != AF_UNIX)
		return 0;
	struct unix_end *e = unix_end(sk);
	if (!e)
		return 0;
	if (length > 0)
		e->sent += length;
	e->calls = 0;
	e->told = 0;
	if (length == -EPIPE || length == -ECONNRESET)
		unix_ends_here(sk, e);
	return 0;
}

/* Something was received where nothing is followed: of a connection of a traced service, counted once. */
INLINE void unix_unknown(struct sock *sk, struct unix_sock *u)
{
	u32 tgid = bpf_get_current_task_btf()->tgid;
	struct unix_end *e = unix_end(sk);
	if ((e && e->epoch == unix_epoch) || !unix_epoch ||
	    !bpf_map_lookup_elem(&processes, &tgid) || !unix_named(u))
		return;
	if (unix_create(sk, UNIX_OLD))
		count(TARE_C_UNIX_OLD);
}

INLINE void unix_answered(struct conn *c, struct bytes b, struct sock *peer)
{
	struct conn *server = unix_conn(peer);
	if (server && server->flags & C_SERVER)
		c->flags |= C_PEER_TRACED;
	client_received(c, b);
}

INLINE void unix_asked(struct conn *c, struct tcp_view *v, struct unix_end *e, u32 from,
		       struct sock *peer, struct unix_sock *u)
{
	u64 before = c->server.x.ctx.span;
	if (by_thread(c))
		unix_thread_receives((void *)v->sock);
	if (unix_conn(peer))
		unix_notes(c, e, from, v->copied_seq);
	server_received(c, v, from);
	if (c->flags & C_HTTP2) {
		count(TARE_C_HTTP2_LOST);
		unix_gives_up(c);
		return;
	}
	if (c->server.x.ctx.span && c->server.x.ctx.span != before)
		unix_tells(u, c->server.x.ctx.span);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(tare_unix_received, struct sock *sk, int length)
{
	if (sk->__sk_common.skc_family != AF_UNIX || sk->sk_type != SOCK_STREAM)
		return 0;
	u64 began = weigh_begins();
	struct unix_sock *u = bpf_skc_to_unix_sock(sk);
	struct sock *peer = u ? u->peer : 0;
	if (!peer)
		return 0;
	struct unix_end *e = unix_joined(sk, peer);
	if (!e) {
		unix_unknown(sk, u);
		return 0;
	}
	if (length <= 0) {
		if (socket_is_over(sk)) {
			struct unix_end *other = unix_end(peer);
			unix_ends_here(sk, e);
			if (other)
				unix_ends_here(peer, other);
		}
		return 0;
	}
	u32 from = e->received;
	if (e->role == UNIX_SERVER)
		unix_await(unix_end(peer), from + length);
	e->received = from + length;
	struct conn *c = unix_mine(sk, e);
	if (!c || c->flags & C_IGNORED || !unix_hold(e))
		return 0;
	if (e->lost) {
		unix_gives_up(c);
		unix_release(e);
		return 0;
	}
	struct bytes b = {.size = length};
	struct tcp_view v = {};
	unix_view(&v, sk, e);
	v.arrived = bpf_ktime_get_ns(); /* of what came over a unix socket no time is kept */
	c->rcv_seq = v.copied_seq;
	call_goes_on(c, length, false, 0);
	if (cfg_measure)
		measure_received(c, b, v.write_seq);
	if (c->flags & C_CLIENT)
		unix_answered(c, b, peer);
	else
		unix_asked(c, &v, e, from, peer, u);
	unix_release(e);
	weigh_ends(began, c);
	return 0;
}

static long unix_sweep(void *map, const u64 *key, struct unix_conn *uc, void *unused)
{
	u64 at = *key;
	if (uc->cookie && unix_gone(uc, at))
		unix_bury(uc);
	if (uc->cookie)
		unix_known = 1;
	else
		unix_remove(uc, at);
	return 0;
}

SEC("syscall")
int tare_unix_sweep(void *unused)
{
	if (!unix_known)
		return 0;
	unix_known = 0;
	bpf_for_each_map_elem(&unix_conns, unix_sweep, 0, 0);
	return 0;
}
