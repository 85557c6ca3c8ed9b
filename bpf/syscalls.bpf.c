//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hooks of the tier that is there to be compared: system calls in place of TCP's functions.
 * Each is called for every file of every process, and finds out whether it is a traced connection.
 *
 *	received  at the exit of read, readv, recvfrom, recvmsg and splice, by what they return:
 *		  nothing for EAGAIN and the end of the stream, and with MSG_PEEK copied_seq stands
 *		  still
 *	sent	  at the entry of write, writev, sendto, sendmsg, sendmmsg (its first message),
 *		  sendfile and splice: as much as the call asks for. What is left over after a partial
 *		  write lies before msg_end when it is sent, as at TCP's functions; a write that blocks
 *		  is one call, so that its last bytes count as sent with its first
 *
 * The socket is not locked here. What sock_ops writes to the connection's state at the same time,
 * on another CPU or in an interrupt, can be lost, and the reverse: a tag or a flag, so that a
 * request goes unsampled or its trace is incomplete. And a thread that closes a descriptor which
 * another one is reading from may have the next socket with that number taken for it.
 *
 * Not seen: io_uring, recvmmsg, the kernel's own sockets, and system calls of 32-bit programs.
 */

#if defined(__TARGET_ARCH_x86)
#define CALL(regs)     ((regs)->orig_ax)
#define CALL_1(regs)   ((regs)->di)
#define CALL_2(regs)   ((regs)->si)
#define CALL_3(regs)   ((regs)->dx)
#define CALL_4(regs)   ((regs)->r10)
#define CALL_5(regs)   ((regs)->r8)
#define RETURNED(regs) ((regs)->ax)
enum call {
	CALL_WRITE = 1,
	CALL_WRITEV = 20,
	CALL_SENDFILE = 40,
	CALL_SENDTO = 44,
	CALL_SENDMSG = 46,
	CALL_SPLICE = 275,
	CALL_SENDMMSG = 307,
};
#else
#define CALL(regs)     ((regs)->syscallno)
#define CALL_1(regs)   ((regs)->orig_x0)
#define CALL_2(regs)   ((regs)->regs[1])
#define CALL_3(regs)   ((regs)->regs[2])
#define CALL_4(regs)   ((regs)->regs[3])
#define CALL_5(regs)   ((regs)->regs[4])
#define RETURNED(regs) ((regs)->regs[0])
enum call {
	CALL_WRITE = 64,
	CALL_WRITEV = 66,
	CALL_SENDFILE = 71,
	CALL_SPLICE = 76,
	CALL_SENDTO = 206,
	CALL_SENDMSG = 211,
	CALL_SENDMMSG = 269,
};
#endif

INLINE struct pt_regs *call_regs(void)
{
	return (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
}

INLINE bool is_tcp(struct sock *sk)
{
	return BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP &&
	       BPF_CORE_READ(sk, sk_type) == SOCK_STREAM;
}

SEC("tracepoint/syscalls/sys_exit_read")
int tare_call_received(void *ctx)
{
	struct pt_regs *regs = call_regs();
	s64 returned = RETURNED(regs);
	struct sock *sk = returned > 0 ? socket_at(CALL_1(regs)) : 0;
	if (!sk)
		return 0;
	struct conn *c = conn_at((u64)sk);
	if (!c) {
		if (is_tcp(sk))
			worker_turned();
		else
			worker_turned_unseen();
		return 0;
	}
	const struct tcp_sock *tp = (void *)sk;
	u32 copied = BPF_CORE_READ(tp, copied_seq), moved = copied - c->rcv_seq;
	struct bytes b = {.size = returned};
	if ((s32)moved <= 0)
		return 0;
	c->rcv_seq = copied;
	if (b.size > moved)
		b.size = moved;
	else if (b.size + 1 == moved) /* the peer's FIN has a number, too */
		copied--;
	if (cfg_measure)
		measure_received(c, b, BPF_CORE_READ(tp, write_seq));
	if (c->flags & C_CLIENT) {
		if (!(c->flags & C_STANDS))
			return 0;
		if (cfg_tag == TARE_TAG_IP)
			client_heard(c, BPF_CORE_READ(tp, snd_una));
		if (!(c->flags & C_HTTP2)) {
			client_received(c, b);
			return 0;
		}
	} else if (!(c->flags & C_SERVER) || is_closing(BPF_CORE_READ(sk, __sk_common.skc_state))) {
		return 0;
	}
	struct tcp_view v = {};
	view_read(&v, sk);
	v.copied_seq = copied;
	v.arrived = ARRIVED(tp, BPF_CORE_READ);
	if (!(c->flags & C_SERVER) || !server_passes(c, &v, copied - b.size))
		received(c, &v, copied - b.size);
	return 0;
}

#define IOVECS	 64	    /* nginx's, which sends the most */
#define CALL_MAX 0x7ffff000 /* bytes that one call sends at most, whatever is asked for */

/* How many bytes lie in the buffers that n struct iovec name; b: the first of them. */
INLINE u64 vector_bytes(struct bytes *b, u64 at, u64 n)
{
	struct {
		u64 base, len;
	} v;
	u64 size = 0;
	for (u32 i = 0; i < IOVECS && i < n; i++) {
		if (bpf_probe_read_user(&v, sizeof(v), (void *)(at + i * sizeof(v))))
			break;
		if (!size) {
			b->data = (void *)v.base;
			b->len = AT_MOST(v.len, CALL_MAX);
		}
		size += v.len;
	}
	return size;
}

/* What the call that begins is to send. Of a file: as much as is asked for, if it is so long. */
__noinline int call_bytes(struct bytes *b)
{
	struct {
		u64 iov, n;
	} msg;
	if (!b)
		return 0;
	struct pt_regs *regs = call_regs();
	u64 at = CALL_2(regs), n = CALL_3(regs), size = 0;
	switch ((u32)CALL(regs)) {
	case CALL_WRITE:
	case CALL_SENDTO:
		b->data = (void *)at;
		b->len = size = AT_MOST(n, CALL_MAX);
		break;
	case CALL_SENDMSG:
	case CALL_SENDMMSG:
		if (bpf_probe_read_user(&msg, sizeof(msg), (void *)(at + MSGHDR_IOV)))
			return 0;
		size = vector_bytes(b, msg.iov, msg.n);
		break;
	case CALL_WRITEV:
		size = vector_bytes(b, at, n);
		break;
	case CALL_SENDFILE:
		size = CALL_4(regs);
		break;
	case CALL_SPLICE:
		size = CALL_5(regs);
		break;
	}
	b->size = AT_MOST(size, CALL_MAX);
	return 0;
}

SEC("tracepoint/syscalls/sys_enter_write")
int tare_call_sends(void *ctx)
{
	u64 began = weigh_begins();
	struct pt_regs *regs = call_regs();
	struct sock *sk = socket_at(CALL(regs) == CALL_SPLICE ? CALL_3(regs) : CALL_1(regs));
	struct conn *c = sk ? conn_at((u64)sk) : 0;
	struct bytes b = {};
	if (!c)
		return 0;
	call_bytes(&b);
	if (b.size && fetch_for(c, b.size))
		sent_read(c, sk, &b, 0, 0);
	weigh_ends(began, c);
	return 0;
}
