//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hooks on sockets. Each fetches what is needed of the socket, looks whether anything can
 * matter, and calls what thinks: server.bpf.h, client.bpf.h, measure.bpf.h.
 *
 *	received  tcp_rcv_space_adjust fires once per copy to user space, in process context, with
 *		  the socket owned; splice included, MSG_PEEK too (copied_seq stands still then)
 *	sent	  tcp_sendmsg_locked: the tracepoint (Linux 6.16) fires before each copy from user
 *		  space into the send queue, with the socket owned; sendfile and splice included. One
 *		  system call may pass it several times, and a system call that did not send all is
 *		  repeated: the first pass reports all bytes (msg_end), later ones at most the time.
 *		  The function's entry comes once per call, and before the size of segments is
 *		  settled (cfg_early)
 *	turns	  sock_recv_length, or the functions behind it: something is received on a socket
 *		  that is not traced because it is not TCP's
 *	inquires  getsockopt of the control group, with the socket locked; or tcp_get_info, without, and
 *		  also for ss: a thread asks for TCP_INFO; handover.bpf.h
 *	state	  inet_sock_set_state: a process connects, a connection is shut down
 *	destroy	  tcp_destroy_sock: nothing more will come
 */

/* This end has closed the connection. */
INLINE bool is_closing(u8 state)
{
	return state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT;
}

#define NONBLOCK   04000     /* O_NONBLOCK */
#define EPOLL_ONCE (1 << 30) /* EPOLLONESHOT */

/* A call that has received something goes on with what has come meanwhile. */
INLINE bool blocks(struct sock *sk)
{
	struct socket *socket = READ_ONLY(sk)->sk_socket;
	struct file *file = socket ? socket->file : 0;
	return file && !(file->f_flags & NONBLOCK);
}

/* Bytes from a position on, of a server or over HTTP/2. */
INLINE void received(struct conn *c, struct tcp_view *v, u32 from)
{
	if (!(c->flags & C_HTTP2))
		server_received(c, v, from);
	if (c->flags & C_HTTP2)
		for (u32 round = 0; round < FRAME_ROUNDS; round++)
			if (!http2_received(c, v, from, round))
				break;
}

/* What is received on this connected socket matters only to threads that hold a sampled request. */
INLINE bool client_is_idle(const struct conn *c)
{
	return cfg_tag != TARE_TAG_IP && c->linking != TARE_LINK_TASK &&
	       c->opening == OPENING_DONE &&
	       (c->flags & (C_STANDS | C_BOUND | C_HTTP2)) == C_STANDS &&
	       !(c->client.x.span | c->client.x.caller.span);
}

/* Nothing that this server sends can matter. */
INLINE bool server_is_idle(const struct conn *c, u64 size)
{
	const struct server_exchange *x = &c->server.x;
	return !(x->ctx.span | x->responding | c->tags | x->open |
		 (c->flags & (C_WAITING | C_HTTP2 | C_NOTED | C_BLIND))) &&
	       size != INTERIM_SIZE;
}

INLINE void recv_on(struct conn *c, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	if (!tp)
		return;
	u32 from = c->rcv_seq, to = tp->copied_seq, next = tp->rcv_nxt;
	if (sk->sk_shutdown & RCV_SHUTDOWN && to == next)
		to--; /* splice reads the FIN, too, before the hook */
	if (from == to ||
	    (before(to, from) && !client_is_idle(c))) /* by far, if the gate was shut */
		return;
	c->rcv_seq = to;
	u32 write_seq = tp->write_seq;
	struct bytes b = {.size = to - from};
	call_goes_on(c, b.size, next != to || (sk->sk_backlog.tail && blocks(sk)), write_seq);
	if (cfg_measure)
		measure_received(c, b, write_seq);
	if (c->flags & C_CLIENT) {
		if (!(c->flags & C_STANDS))
			return;
		if (cfg_tag == TARE_TAG_IP)
			client_heard(c, tp->snd_una);
		if (!(c->flags & C_HTTP2)) {
			client_received(c, b);
			gate_set((u64)sk, GATE_RECEIVES, client_is_idle(c));
			return;
		}
	} else if (!(c->flags & C_SERVER) || is_closing(sk->__sk_common.skc_state)) {
		return; /* what is read now will not be answered: a lingering close */
	} else if (cfg_tag == TARE_TAG_TCP && c->flags & C_TRUSTED &&
		   !(tp->bpf_sock_ops_cb_flags & BPF_CB_PARSE)) {
		conn_disarmed(c);
	}
	struct tcp_view v = {.sock = (u64)sk, .write_seq = write_seq, .arrived = ARRIVED(tp, LOAD)};
	bool passes = c->flags & C_SERVER && server_passes(c, &v, from);
	if (!passes) {
		view(&v, sk, tp);
		received(c, &v, from);
	}
	if (c->flags & C_SERVER)
		gate_set((u64)sk, GATE_SENDS, passes || server_is_idle(c, 0));
}

SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(tare_recv, struct sock *sk)
{
	if (gate_is_shut((u64)sk, GATE_RECEIVES) && !weighing && !threads_matter())
		return 0;
	u64 began = weigh_begins();
	struct conn *c = conn_of(sk);
	if (!sk->sk_lock.owned) /* kernel users of tcp_read_sock may call from softirq */
		return 0;
	if (c)
		recv_on(c, sk);
	else
		worker_turned();
	weigh_ends(began, c);
	return 0;
}

/* What is received on sockets of other kinds; the tracepoint is called for all (Linux 6.3). */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(tare_turns, struct sock *sk)
{
	u64 began = weigh_begins();
	if (sk->__sk_common.skc_family == AF_UNIX ? !unix_traced(sk)
						  : sk->sk_protocol == IPPROTO_UDP)
		worker_turned_unseen();
	weigh_ends(began, 0);
	return 0;
}

SEC("fentry/unix_stream_recvmsg")
int tare_unix_turns(void *ctx)
{
	worker_turned_unseen();
	return 0;
}

SEC("fentry/udp_recvmsg")
int tare_udp_turns(void *ctx)
{
	worker_turned_unseen();
	return 0;
}

SEC("fentry/udpv6_recvmsg")
int tare_udp6_turns(void *ctx)
{
	worker_turned_unseen();
	return 0;
}

#define TCP_INFO 11

/* Called for every option of every socket, so that the agent attaches it only while it is needed. */
SEC("cgroup/getsockopt")
int tare_getsockopt(struct bpf_sockopt *o)
{
	struct bpf_sock *sk = o->sk;
	struct conn *c =
	    sk && o->level == IPPROTO_TCP && o->optname == TCP_INFO ? conn_find(sk) : 0;
	if (c)
		worker_inquires(c);
	return 1;
}

SEC("fentry/tcp_get_info")
int BPF_PROG(tare_inquires, struct sock *sk)
{
	struct conn *c = conn_of(sk);
	if (c)
		worker_inquires(c);
	return 0;
}

/* By the set that holds this entry of struct file's list. */
static __noinline enum watched watched_in(u64 entry)
{
	struct epitem *item = (void *)entry - bpf_core_field_offset(struct epitem, fllink);
	return BPF_CORE_READ(item, event.events) & EPOLL_ONCE ? WATCHED_ONCE : WATCHED_NOW;
}

INLINE enum watched watched(struct sock *sk)
{
	struct socket *socket = READ_ONLY(sk)->sk_socket;
	struct file *file = socket ? socket->file : 0;
	struct hlist_head *sets = file ? file->f_ep : 0;
	if (sets && sets->first)
		return watched_in((u64)sets->first);
	return file && file->f_flags & NONBLOCK ? WATCHED_NOT_NOW : WATCHED_NEVER;
}

/* The same where no pointer may be followed. */
INLINE enum watched watched_read(struct sock *sk)
{
	struct file *file = BPF_CORE_READ(sk, sk_socket, file);
	struct hlist_node *first = BPF_CORE_READ(file, f_ep, first);
	if (first)
		return watched_in((u64)first);
	return BPF_CORE_READ(file, f_flags) & NONBLOCK ? WATCHED_NOT_NOW : WATCHED_NEVER;
}

/* What a hook has to fetch of bytes that are to be sent. */
enum fetch {
	FETCH_NOTHING,
	FETCH_VIEW,
	FETCH_BYTES, /* and where they are */
};

/* What this client sends must be looked at. */
INLINE bool client_looks(struct conn *c, u64 size)
{
	return own_drawn(c) || c->opening != OPENING_DONE || any_in_flight() ||
	       size == PAYLOAD_GOODBYE_SIZE || c->flags & C_HTTP2;
}

INLINE enum fetch fetch_for(struct conn *c, u64 size)
{
	if (!(c->flags & (C_SERVER | C_STANDS)) || !size)
		return FETCH_NOTHING;
	if (c->flags & C_SERVER)
		return cfg_measure || !server_is_idle(c, size) ? FETCH_BYTES : FETCH_NOTHING;
	return client_looks(c, size) || cfg_measure ? FETCH_BYTES : FETCH_VIEW;
}

INLINE void sent(struct conn *c, struct tcp_view *v, struct bytes *b)
{
	bool server = c->flags & C_SERVER, idle = server && server_is_idle(c, b->size);
	if (v->fails)
		return;
	if (cfg_measure)
		measure_sent(c, *b, v->write_seq);
	if (idle)
		return;
	if (!server && !(c->flags & C_HTTP2) && !client_passes(c, v->copied_seq, b->size)) {
		c->rcv_seq = v->copied_seq; /* the receive hook may have passed over some */
		gate_open(v->sock);
		client_send(c, v, b);
	}
	if (c->flags & C_HTTP2)
		for (u32 round = 0; round < FRAME_ROUNDS; round++) {
			if (!http2_sent(c, v, b, round))
				break;
		}
	else if (server && server_send(c, v, b))
		server_next(c, v);
}

INLINE void send_on(struct conn *c, struct sock *sk, const struct msghdr *msg)
{
	struct bytes b = {.size = msg->msg_iter.count};
	enum fetch fetch = fetch_for(c, b.size);
	struct tcp_sock *tp = fetch ? tcp_of(sk) : 0;
	if (!tp)
		return;
	if (fetch == FETCH_VIEW && !cfg_early && client_passes(c, tp->copied_seq, b.size))
		return;
	struct tcp_view v = {};
	view(&v, sk, tp);
	if (fetch == FETCH_BYTES) {
		const struct iov_iter *it = &msg->msg_iter;
		u8 type = it->iter_type;
		v.more = sent_bytes(&b, type,
				    bpf_core_field_exists(it->__iov) ? ITER_BASE(it, type, LOAD)
								     : old_iter_base(it),
				    it->iov_offset);
		v.buffers = buffers_of(it->nr_segs);
	}
	if (c->flags & C_CLIENT && guarded(c))
		v.watched = watched(sk);
	sent(c, &v, &b);
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(tare_send, struct sock *sk, const struct msghdr *msg)
{
	if (gate_is_shut((u64)sk, GATE_SENDS) && !weighing && msg->msg_iter.count != INTERIM_SIZE)
		return 0;
	u64 began = weigh_begins();
	struct conn *c = conn_of(sk);
	if (c)
		send_on(c, sk, msg);
	weigh_ends(began, c);
	return 0;
}

/* sendfile and splice before Linux 6.5, for each page. */
SEC("fentry/do_tcp_sendpages")
int BPF_PROG(tare_sendpages, struct sock *sk, void *page, int offset, u64 size)
{
	struct conn *c = conn_of(sk);
	struct bytes b = {.size = size};
	struct tcp_sock *tp = c && fetch_for(c, size) ? tcp_of(sk) : 0;
	if (!tp)
		return 0;
	struct tcp_view v = {};
	view(&v, sk, tp);
	if (c->flags & C_CLIENT && guarded(c))
		v.watched = watched(sk);
	sent(c, &v, &b);
	return 0;
}

/* ---- the same as kprobes ---- */

#if defined(__TARGET_ARCH_x86)
#define ARGUMENT_1(regs) ((regs)->di)
#define ARGUMENT_2(regs) ((regs)->si)
#define ARGUMENT_4(regs) ((regs)->cx)
#else
#define ARGUMENT_1(regs) ((regs)->regs[0])
#define ARGUMENT_2(regs) ((regs)->regs[1])
#define ARGUMENT_4(regs) ((regs)->regs[3])
#endif

/* The same where no pointer may be followed. */
INLINE void sent_read(struct conn *c, struct sock *sk, struct bytes *b, u64 more, u8 buffers)
{
	struct tcp_view v = {.more = more, .buffers = buffers};
	view_read(&v, sk);
	if (c->flags & C_CLIENT && guarded(c))
		v.watched = watched_read(sk);
	sent(c, &v, b);
}

INLINE int sent_by(struct pt_regs *regs, struct bytes *b, const struct iov_iter *it)
{
	u64 began = weigh_begins();
	struct sock *sk = (void *)ARGUMENT_1(regs);
	struct conn *c = conn_at((u64)sk);
	enum fetch fetch = c ? fetch_for(c, b->size) : FETCH_NOTHING;
	u64 more = 0;
	u8 buffers = 0;
	if (!fetch) {
		weigh_ends(began, c);
		return 0;
	}
	if (it && fetch == FETCH_BYTES) {
		u8 type = BPF_CORE_READ(it, iter_type);
		more =
		    sent_bytes(b, type,
			       bpf_core_field_exists(it->__iov) ? ITER_BASE(it, type, BPF_CORE_READ)
								: old_iter_base(it),
			       BPF_CORE_READ(it, iov_offset));
		buffers = buffers_of(BPF_CORE_READ(it, nr_segs));
	}
	sent_read(c, sk, b, more, buffers);
	weigh_ends(began, c);
	return 0;
}

SEC("kprobe/tcp_sendmsg_locked")
int tare_kprobe_send(struct pt_regs *regs)
{
	const struct iov_iter *it = &((const struct msghdr *)ARGUMENT_2(regs))->msg_iter;
	struct bytes b = {.size = BPF_CORE_READ(it, count)};
	return sent_by(regs, &b, it);
}

SEC("kprobe/tcp_get_info")
int tare_kprobe_inquires(struct pt_regs *regs)
{
	struct conn *c = conn_at(ARGUMENT_1(regs));
	if (c)
		worker_inquires(c);
	return 0;
}

SEC("kprobe/do_tcp_sendpages")
int tare_kprobe_sendpages(struct pt_regs *regs)
{
	struct bytes b = {.size = ARGUMENT_4(regs)};
	return sent_by(regs, &b, 0);
}

/* A process connects, in its own context. */
INLINE void connecting(struct sock *sk)
{
	u32 tgid = bpf_get_current_task_btf()->tgid;
	struct service *svc = bpf_map_lookup_elem(&processes, &tgid);
	struct tcp_sock *tp = svc ? bpf_skc_to_tcp_sock(sk) : 0;
	struct conn *c = tp ? conn_create(sk) : 0;
	if (!c)
		return;
	conn_ends(c, 0); /* used before, and disconnected */
	conn_connecting(c);
	c->service = svc->index;
	c->linking = svc->linking;
	conn_addresses(c, &sk->__sk_common); /* the local port is chosen later */
	worker_connects(c);
}

/* What is known of a socket that closes. */
struct closing {
	u32 snd_una, copied_seq, error;
	bool owned, destroyed;
};

/* The process closes it, or the kernel destroys it. */
__noinline int conn_closes(struct conn *c, const struct closing *k)
{
	if (!c || !k)
		return 0;
	if (cfg_measure)
		measure_closed(c, k->error);
	if (k->owned && c->flags & C_CLIENT)
		worker_closes(c, k->copied_seq);
	conn_ends(c, k->error);
	if (!k->destroyed)
		return 0;
	if (c->flags & C_CLIENT && c->tags)
		tx_prune(c, k->snd_una); /* counts what was sent without its tag */
	if (cfg_tag == TARE_TAG_IP && c->flags & C_SERVER && c->flags & C_MARK)
		conn_settle(c, k->snd_una);
	c->flags = C_ENDED;
	return 0;
}

INLINE void closes(struct conn *c, struct sock *sk, bool destroyed)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct closing k = {.error = sk->sk_err, .destroyed = destroyed};
	if (tp) {
		k.snd_una = tp->snd_una;
		k.copied_seq = tp->copied_seq;
		k.owned = sk->sk_lock.owned;
	}
	conn_closes(c, &k);
	if (destroyed)
		conn_forget(sk);
}

#define SOCK_DEAD 1 /* a bit of sk_flags: its process has closed it */

/*
 * The kernel destroys this socket next. It may do so while tcp_close takes the last packets, with bottom halves on: then
 * another packet can interrupt tare_destroy and end another connection, for which the kernel leaves tare_destroy out.
 * The program that runs first ends the connection.
 */
INLINE bool destroyed_next(struct sock *sk, int state)
{
	return state == TCP_CLOSE && sk->__sk_common.skc_flags & SOCK_DEAD;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(tare_state, struct sock *sk, int old, int new)
{
	if (new == TCP_SYN_SENT) {
		connecting(sk);
		return 0;
	}
	if (new == TCP_SYN_RECV || new == TCP_ESTABLISHED || new == TCP_CLOSE_WAIT ||
	    new == TCP_LISTEN)
		return 0;
	struct conn *c = conn_of(sk);
	if (!c)
		return 0;
	if (c->flags & C_LISTENER) {
		/* the socket may have given up its port (tcp_set_state) */
		struct port_key k = {.netns = c->netns, .port = c->local_port};
		bpf_map_delete_elem(&own_ports, &k);
		listener_ends(c, &k);
	} else if (destroyed_next(sk, new)) {
		closes(c, sk, true);
	} else if (sk->sk_lock.owned && socket_is_over(sk)) {
		closes(c, sk, false);
	} else if (c->flags & C_SERVER && c->server.x.open) {
		guard_end(c, 0); /* it will not be answered */
	} else if (c->flags & C_CLIENT && sk->sk_lock.owned) {
		struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
		if (tp)
			worker_closes(c, tp->copied_seq);
	}
	return 0;
}

SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(tare_destroy, struct sock *sk)
{
	struct conn *c = conn_of(sk);
	if (c)
		closes(c, sk, true);
	return 0;
}
