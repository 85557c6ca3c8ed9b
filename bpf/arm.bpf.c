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
INLINE void renew_trust(struct conn *c, bool trusted_peer)
{
	if (trusted_peer) {
		c->flags |= C_TRUSTED;
	} else if (c->flags & C_TRUSTED) {
		c->flags &= ~(C_TRUSTED | C_PEER_TRACED | C_MARK | C_ANSWERED | C_BEHIND);
		c->tags = 0;
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
	const struct sock_common *k = common_of(tp);
	u8 state = k->skc_state;
	if (state != TCP_LISTEN && state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT)
		return 0;

	struct conn *c = conn_find(tp);
	if (c && c->flags & (C_LISTENER | C_SERVER | C_CLIENT | C_IGNORED)) {
		if (!(c->flags & C_LISTENER))
			renew_trust(c, is_trusted(k));
		if (c->flags & C_SERVER) {
			arm_flags(tp, BPF_CB_PARSE);
		} else if (c->flags & C_CLIENT && c->flags & C_TRUSTED) {
			if (!(c->flags & C_MARK)) { /* the last one arrived: was it answered? */
				if (!(c->flags & C_ANSWERED))
					c->flags &= ~C_PEER_TRACED;
				c->flags &= ~C_ANSWERED;
			}
			c->flags = (c->flags | C_MARK) & ~C_TOLD;
			c->mark_seq = tp->write_seq;
			arm_flags(tp, BPF_CB_WRITE | BPF_CB_PARSE);
		}
		return 0;
	}

	struct port_key port = local_port_of(k);
	struct service *svc = state == TCP_LISTEN ? 0 : bpf_map_lookup_elem(&listeners, &port);
	bool accepted = svc != 0; /* perhaps still in the listener's queue, without an inode */
	if (!svc)
		svc = service_by_inode(tp);
	if (!svc)
		return 0;
	c = conn_create(tp);
	if (!c)
		return 0;
	c->service = svc->index;
	c->linking = svc->linking;
	if (state == TCP_LISTEN) {
		c->flags = C_LISTENER;
		bpf_map_update_elem(&listeners, &port, svc, BPF_ANY);
		return 0;
	}
	bool trust = is_trusted(k);
	if (accepted) {
		conn_accepted(c, tp, trust, OPENING_OLD);
		if (arm_flags(tp, BPF_CB_PARSE))
			count(TARE_C_ARMED);
	} else {
		conn_connecting(c);
		c->opening = OPENING_OLD;
		connected(c, tp, trust);
		if (!trust || arm_flags(tp, BPF_CB_WRITE | BPF_CB_PARSE))
			count(TARE_C_ARMED);
	}
	return 0;
}
