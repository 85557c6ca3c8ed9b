//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Arms sockets that were open before the agent, or that lost their callback flags to another
 * sock_ops user; renews the mark, so that an agent that restarted at the other end learns it, and
 * one that has ended is noticed: it does not answer; and learns which peers are trusted now.
 * Run by the agent in each network namespace, at each discovery and from time to time. Listeners
 * come first in the kernel's walk, so accepted sockets can be told from connected ones.
 */

#define SOL_TCP			  6
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008
#define TCP_ESTABLISHED		  1
#define TCP_CLOSE_WAIT		  8
#define TCP_LISTEN		  10

INLINE bool arm_flags(struct tcp_sock *tp, int flag)
{
	int flags = tp->bpf_sock_ops_cb_flags;
	if ((flags & flag) == flag)
		return true;
	flags |= flag;
	if (!bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
		return true;
	count(TARE_C_UNARMED);
	return false;
}

INLINE struct service *service_by_inode(struct tcp_sock *tp)
{
	struct socket *socket = tp->inet_conn.icsk_inet.sk.sk_socket;
	if (!socket)
		return 0;
	struct socket_alloc *alloc =
	    (void *)socket - bpf_core_field_offset(struct socket_alloc, socket);
	u64 ino = 0;
	if (bpf_core_read(&ino, sizeof(unsigned long), &alloc->vfs_inode.i_ino))
		return 0;
	return bpf_map_lookup_elem(&inodes, &ino);
}

/*
 * The trusted networks may have changed since the connection was opened. What is not trusted any
 * more gets nothing from now on, a tag that is to be sent again included.
 */
INLINE void renew_trust(struct socket_state *s, bool trusted_peer)
{
	if (trusted_peer) {
		s->flags |= S_TRUSTED;
	} else if (s->flags & S_TRUSTED) {
		s->flags &= ~(S_TRUSTED | S_PEER_TRACED | S_MARK | S_ANSWERED);
		s->tags = 0;
	}
}

SEC("iter/tcp")
int tare_arm(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	if (!skc)
		return 0;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	const struct sock_common *c = common_of(tp);
	u8 state = c->skc_state;
	if (state != TCP_LISTEN && state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT)
		return 0;

	struct socket_state *s = bpf_sk_storage_get(&sockets, tp, 0, 0);
	if (s && s->flags & (S_LISTENER | S_SERVER | S_CLIENT)) {
		if (!(s->flags & S_LISTENER))
			renew_trust(s, is_trusted(c));
		if (s->flags & S_SERVER) {
			arm_flags(tp, BPF_CB_PARSE);
		} else if (s->flags & S_CLIENT && s->flags & S_TRUSTED) {
			if (!(s->flags & S_MARK)) { /* the last one arrived: was it answered? */
				if (!(s->flags & S_ANSWERED))
					s->flags &= ~S_PEER_TRACED;
				s->flags &= ~S_ANSWERED;
			}
			s->flags |= S_MARK;
			s->mark_seq = tp->write_seq;
			arm_flags(tp, BPF_CB_WRITE | BPF_CB_PARSE);
		}
		return 0;
	}

	struct port_key k = local_port_of(c);
	struct service *svc = state == TCP_LISTEN ? 0 : bpf_map_lookup_elem(&listeners, &k);
	bool accepted = svc != 0; /* perhaps still in the listener's queue, without an inode */
	if (!svc)
		svc = service_by_inode(tp);
	if (!svc)
		return 0;
	s = bpf_sk_storage_get(&sockets, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s) {
		count(TARE_C_STORAGE_FULL);
		return 0;
	}
	s->service = svc->index;
	s->linking = svc->linking;
	if (state == TCP_LISTEN) {
		s->flags = S_LISTENER;
		bpf_map_update_elem(&listeners, &k, svc, BPF_ANY);
		return 0;
	}
	bool trust = is_trusted(c);
	if (accepted) {
		state_server(s, tp, trust);
		if (arm_flags(tp, BPF_CB_PARSE))
			count(TARE_C_ARMED);
	} else {
		s->flags = 0;
		state_client(s, tp, trust);
		if (!trust || arm_flags(tp, BPF_CB_WRITE | BPF_CB_PARSE))
			count(TARE_C_ARMED);
	}
	return 0;
}
