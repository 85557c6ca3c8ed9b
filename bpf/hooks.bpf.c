//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hooks on sockets. Each fetches what is needed of the socket, looks whether anything can
 * matter, and calls what thinks: server.bpf.h, client.bpf.h, measure.bpf.h.
 *
 *	received  tcp_rcv_space_adjust fires once per copy to user space, in process context, with
 *		  the socket owned; splice included, MSG_PEEK too (copied_seq stands still then)
 *	sent	  tcp_sendmsg_locked (Linux 6.16) fires before each copy from user space into the
 *		  send queue, with the socket owned; sendfile and splice included. One system call may
 *		  pass it several times, and a system call that did not send all is repeated: the
 *		  first pass reports all bytes (msg_end), later ones at most the time
 *	state	  inet_sock_set_state: a connection is shut down
 *	destroy	  tcp_destroy_sock: nothing more will come
 */

#define TCP_ESTABLISHED 1
#define TCP_CLOSE_WAIT	8
#define TCP_LISTEN	10

/* This end has closed the connection. */
INLINE bool is_closing(struct sock *sk)
{
	u8 state = sk->__sk_common.skc_state;
	return state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT;
}

/* A call that has received something goes on with what has come meanwhile. */
INLINE bool blocks(struct sock *sk)
{
	const u32 nonblock = 04000; /* O_NONBLOCK */
	struct socket *socket = sk->sk_socket;
	struct file *file = socket ? socket->file : 0;
	return file && !(file->f_flags & nonblock);
}

SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(tare_recv, struct sock *sk)
{
	struct conn *c = conn_of(sk);
	if (!sk->sk_lock.owned) /* kernel users of tcp_read_sock may call from softirq */
		return 0;
	if (!c) {
		worker_turned();
		return 0;
	}
	if (c->flags & C_HTTP2) {
		worker_received_http2(c);
		return 0;
	}
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	u32 from = c->rcv_seq, to = tp->copied_seq;
	if (!before(from, to))
		return 0;
	c->rcv_seq = to;
	struct bytes b = {.size = to - from};
	call_goes_on(c, b.size, tp->rcv_nxt != to || (sk->sk_backlog.tail && blocks(sk)));
	if (cfg_measure)
		measure_received(c, b, tp->write_seq);
	if (c->flags & C_SERVER) {
		struct tcp_view v = {};
		if (is_closing(sk)) /* what is read now will not be answered: a lingering close */
			return 0;
		view(&v, sk, tp);
		server_received(c, &v, from);
	} else if (c->flags & C_CLIENT) {
		client_received(c, b);
	}
	return 0;
}

/* Its file is in an epoll set. */
INLINE bool in_epoll(struct sock *sk)
{
	struct socket *socket = sk->sk_socket;
	struct file *file = socket ? socket->file : 0;
	struct hlist_head *sets = file ? file->f_ep : 0;
	return sets && sets->first;
}

/* Nothing that this server sends can matter. */
INLINE bool server_is_idle(const struct conn *c, const struct msghdr *msg)
{
	const struct server_exchange *x = &c->server.x;
	return !(x->ctx.span | x->responding | c->tags | x->open | (c->flags & C_WAITING)) &&
	       msg->msg_iter.count != INTERIM_SIZE;
}

/* What this client sends must be looked at. */
INLINE bool client_looks(const struct conn *c, const struct msghdr *msg)
{
	return c->opening != OPENING_DONE || any_in_flight() ||
	       msg->msg_iter.count == PAYLOAD_GOODBYE_SIZE;
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(tare_send, struct sock *sk, const struct msghdr *msg)
{
	struct conn *c = conn_of(sk);
	if (!c || !(c->flags & (C_SERVER | C_CLIENT)))
		return 0;
	bool server = c->flags & C_SERVER, idle = server && server_is_idle(c, msg);
	if (idle && !cfg_measure)
		return 0;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	struct tcp_view v = {};
	struct bytes b = {.size = msg->msg_iter.count};
	if (cfg_measure || server || client_looks(c, msg))
		sent_bytes(&b, msg);
	if (cfg_measure)
		measure_sent(c, b, tp->write_seq);
	if (idle)
		return 0;
	view(&v, sk, tp);
	if (server) {
		server_send(c, &v, &b);
	} else {
		if (guarded(c))
			v.in_epoll = in_epoll(sk);
		client_send(c, &v, &b);
	}
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(tare_state, struct sock *sk, int old, int new)
{
	if (new == TCP_ESTABLISHED || new == TCP_CLOSE_WAIT || new == TCP_LISTEN)
		return 0;
	struct conn *c = conn_of(sk);
	if (!c)
		return 0;
	if (c->flags & C_LISTENER) {
		struct port_key k = local_port_of(&sk->__sk_common);
		bpf_map_delete_elem(&own_ports, &k);
	} else if (c->flags & C_SERVER && c->server.x.open) {
		guard_end(c, 0); /* closed without an answer */
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
	if (!c)
		return 0;
	if (cfg_measure)
		measure_closed(c, sk->sk_err);
	if (c->flags & C_SERVER)
		server_closed(c, sk->sk_err);
	else if (c->flags & C_CLIENT)
		if (sk->sk_lock.owned) {
			struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
			if (tp)
				worker_closes(c, tp->copied_seq);
		}
	client_closed(c, sk->sk_err);
	return 0;
}
