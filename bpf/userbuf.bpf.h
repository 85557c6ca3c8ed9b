/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where a message lies in user memory, read-only.
 *
 * Sent: the message's iterator says so. Received: the hook has no such argument, but it runs
 * inside the system call that received, whose second argument is the buffer or leads to it.
 * io_uring and splice have no such buffer: their requests come out without a name.
 */
#ifndef TARE_USERBUF_H
#define TARE_USERBUF_H

INLINE struct bytes sent_bytes(const struct msghdr *msg)
{
	struct bytes b = {};
	const struct iov_iter *it = &msg->msg_iter;
	u8 type = it->iter_type;
	if (type == bpf_core_enum_value(enum iter_type, ITER_UBUF)) {
		b.data = it->ubuf + it->iov_offset;
		b.len = it->count;
	} else if (type == bpf_core_enum_value(enum iter_type, ITER_IOVEC)) {
		struct iovec v = {};
		if (BPF_CORE_READ_INTO(&v.iov_base, it, __iov, iov_base) ||
		    BPF_CORE_READ_INTO(&v.iov_len, it, __iov, iov_len) ||
		    v.iov_len < it->iov_offset)
			return b;
		b.data = v.iov_base + it->iov_offset;
		b.len = v.iov_len - it->iov_offset;
	}
	return b;
}

enum buffer_argument { BUFFER_NONE, BUFFER_PLAIN, BUFFER_IOVEC, BUFFER_MSGHDR };

INLINE enum buffer_argument buffer_argument(struct pt_regs *regs, u64 *arg)
{
#if defined(__TARGET_ARCH_x86)
	u64 nr = regs->orig_ax;
	*arg = regs->si;
	switch (nr) {
	case 0:	 /* read */
	case 45: /* recvfrom */
		return BUFFER_PLAIN;
	case 19: /* readv */
		return BUFFER_IOVEC;
	case 47: /* recvmsg */
		return BUFFER_MSGHDR;
	}
#elif defined(__TARGET_ARCH_arm64)
	s32 nr = regs->syscallno;
	*arg = regs->regs[1];
	switch (nr) {
	case 63:  /* read */
	case 207: /* recvfrom */
		return BUFFER_PLAIN;
	case 65: /* readv */
		return BUFFER_IOVEC;
	case 212: /* recvmsg */
		return BUFFER_MSGHDR;
	}
#endif
	return BUFFER_NONE;
}

/* User's struct user_msghdr begins with name, namelen (padded), iov on every 64-bit Linux. */
#define MSGHDR_IOV 16

/* len: what was just received */
INLINE struct bytes received_bytes(u32 len)
{
	struct bytes b = {};
	u64 arg = 0;
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	enum buffer_argument kind = buffer_argument(regs, &arg);
	if (kind == BUFFER_NONE)
		return b;
	if (kind == BUFFER_PLAIN) {
		b.data = (void *)arg;
		b.len = len;
		return b;
	}
	if (kind == BUFFER_MSGHDR && bpf_probe_read_user(&arg, 8, (void *)(arg + MSGHDR_IOV)))
		return b;
	struct {
		u64 base, len;
	} v;
	if (bpf_probe_read_user(&v, sizeof(v), (void *)arg))
		return b;
	b.data = (void *)v.base;
	b.len = v.len < len ? v.len : len;
	return b;
}

/* Peeks at a message's kind. */
INLINE enum payload_kind peek(struct bytes b)
{
	u8 p[12] = {};
	u32 len = b.len < sizeof(p) ? b.len : sizeof(p);
	if (!cfg_payload || !b.data || !len || bpf_probe_read_user(p, len, b.data))
		return PAYLOAD_OTHER;
	return payload_kind(p, len);
}

#endif
