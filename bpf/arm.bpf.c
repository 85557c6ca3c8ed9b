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
#define TCP_CONGESTION		  13
#define TCP_CA_NAME_MAX		  16

/*
 * Before Linux 6.12 an iterator cannot set the flags, but it can change the congestion control; and
 * one of them, nv, asks sock_ops for a round-trip time when it begins, where the flags can be set.
 * Both changes happen within one run of this program, so the old one is back even if
 * the agent dies meanwhile. It begins anew with what it has measured.
 */
INLINE bool arm_by_nv(struct conn *c, struct tcp_sock *tp, int flag)
{
	char old[TCP_CA_NAME_MAX] = {}, nv[TCP_CA_NAME_MAX] = "nv";
	if (!cfg_arm_nv || c->flags & C_NV ||
	    bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, old, sizeof(old)) ||
	    bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, nv, sizeof(nv)))
		return false;
	if (bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, old, sizeof(old)))
		count(TARE_C_CONGESTION);
	if ((tp->bpf_sock_ops_cb_flags & flag) == flag)
		return true;
	c->flags |= C_NV; /* not again: it forgets the path each time */
	return false;
}

INLINE bool arm_flags(struct conn *c, struct tcp_sock *tp)
{
	int flag = armed_for(c), flags = tp->bpf_sock_ops_cb_flags, missing = flag & ~flags;
	c->flags &= ~C_DISARMED;
	if (!missing)
		return true;
	flags |= flag;
	if (bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags))) {
		if (arm_by_nv(c, tp, flag))
			return true;
		c->flags |= C_DISARMED; /* as counted */
		return false;
	}
	if (missing & BPF_CB_WRITE)
		c->flags |= C_ARMED;
	return true;
}

/*
 * The accepted connection has received something since it last sent something, as far as jiffies tell: both times are
 * those of its opening at first.
 */
INLINE bool may_owe(const struct tcp_sock *tp)
{
	return tp->bytes_received && !before(tp->inet_conn.icsk_ack.lrcvtime, tp->lsndtime);
}

/* What a connection needs has been asked for; without it, it may still do within the host. */
INLINE void count_armed(struct conn *c, bool armed)
{
	bool local = cfg_same_host && is_loopback(c->family, c->remote);
	count(armed || local ? TARE_C_ARMED : TARE_C_UNARMED);
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
INLINE void renew_trust(struct conn *c, u32 trust)
{
	bool proven = trust & C_NEAR && c->flags & (C_NEAR | C_LOCAL);
	if (c->flags & C_TRUSTED && !(trust & C_TRUSTED) && !proven) {
		c->flags &= ~(C_TRUSTED | C_MARK | C_ANSWERED);
		if (c->flags & C_CLIENT)
			c->flags &= ~(C_PEER_TRACED | C_LOCAL);
		c->tags = 0;
	}
	c->flags = (c->flags & ~C_NEAR) | trust;
	if (c->flags & C_CLIENT)
		c->seeks = 0;
	else if (trust && c->flags & C_SERVER)
		inbox_open(c);
}

/* The other end learns anew whether tags are promised, and tells anew whether it is traced. */
INLINE void renew_mark(struct conn *c, const struct tcp_sock *tp)
{
	if (cfg_tag == TARE_TAG_IP)
		conn_settle(c, tp->snd_una);
	if (!(c->flags & C_MARK)) { /* the last one arrived: was it answered? */
		if (!(c->flags & C_ANSWERED)) {
			c->flags &= ~C_PEER_TRACED;
			if (cfg_tag == TARE_TAG_IP && c->path.told)
				path_unanswered(c);
		}
		c->flags &= ~C_ANSWERED;
	}
	conn_mark(c, tp->write_seq);
}

/* Another socket on the port may have ended. */
INLINE void listener_stays(struct tcp_sock *tp, const struct sock_common *k)
{
	struct port_key port = local_port_of(k);
	struct service *svc = bpf_map_lookup_elem(&listeners, &port) ? 0 : service_by_inode(tp);
	if (svc)
		listener_note(k, &port, svc);
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
		if (c->flags & C_LISTENER)
			listener_stays(tp, k);
		else
			renew_trust(c, trust_of(k));
		if (c->flags & C_CLIENT && c->flags & C_TRUSTED && !(c->flags & C_LOCAL))
			renew_mark(c, tp);
		arm_flags(c, tp);
		return 0;
	}

	struct port_key port = local_port_of(k);
	struct service *svc = state == TCP_LISTEN ? 0 : listener_of(k, &port);
	bool accepted = svc != 0; /* perhaps still in the listener's queue, without an inode */
	if (!svc)
		svc = service_by_inode(tp);
	if (!svc)
		return 0;
	c = conn_create(tp);
	if (!c)
		return 0;
	if (state == TCP_LISTEN) {
		conn_listens(c, &port, svc);
		proof_listens(c, (u64)tp);
		listener_note(k, &port, svc);
		return 0;
	}
	c->service = svc->index;
	c->linking = svc->linking;
	if (conn_is_subflow(c, tp))
		return 0;
	u32 trust = trust_of(k);
	if (accepted) {
		conn_accepted(c, tp, trust, OPENING_OLD);
		inbox_open(c);
		if (has_own_calls(c) && may_owe(tp))
			unseen_begins(c);
		count_armed(c, arm_flags(c, tp));
	} else {
		conn_connecting(c);
		c->opening = OPENING_OLD;
		connected(c, tp, trust);
		count_armed(c, arm_flags(c, tp));
	}
	return 0;
}
