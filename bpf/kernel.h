/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that the programs read, with only the fields that they read. Every
 * access is relocated against the running kernel's BTF (CO-RE), so offsets here mean nothing.
 * A small header instead of a dumped vmlinux.h: it shows at a glance what Tare depends on, and
 * the committed objects do not depend on the machine that built them.
 */
#ifndef TARE_KERNEL_H
#define TARE_KERNEL_H

#include <linux/types.h>
#include <linux/bpf.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
#ifndef __cplusplus
typedef _Bool bool;
#define true  1
#define false 0
#endif

#define AF_UNIX	 1
#define AF_INET	 2
#define AF_INET6 10

#define SOCK_STREAM 1

#define IPPROTO_TCP 6
#define IPPROTO_UDP 17

#define INLINE static __always_inline

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		u8 u6_addr8[16];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	volatile u8 skc_state;
	possible_net_t skc_net;
	unsigned long skc_flags;
	struct {
		s64 counter;
	} skc_cookie;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct epoll_event {
	u32 events;
};

struct epitem {			  /* one file in an epoll set */
	struct hlist_node fllink; /* in f_ep of the file */
	struct epoll_event event;
};

struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
};

struct file {
	unsigned int f_flags;
	struct inode *f_inode;
	void *private_data;	 /* of a socket's: struct socket */
	struct hlist_head *f_ep; /* epoll sets that watch it; Linux 5.11 */
};

struct list_head {
	struct list_head *next;
};

struct wait_queue_entry {
	void *private; /* who waits: a task, or what poll has of one */
	struct list_head entry;
};

struct wait_queue_head {
	struct list_head head;
};

struct socket_wq {
	struct wait_queue_head wait;
};

struct poll_table_entry {
	struct file *filp;
};

struct poll_table_page;

struct task_struct;

struct poll_wqueues {
	struct poll_table_page *table; /* entries beyond the inline ones */
	struct task_struct *polling_task;
	int inline_index; /* how many entries are used */
	struct poll_table_entry inline_entries[1];
};

struct sock;

struct socket {
	struct file *file;
	struct sock *sk;
};

struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};

typedef struct {
	int owned;
} socket_lock_t;

struct bpf_local_storage {
	int unused;
};

struct sock;

struct sk_buff {
	struct sock *sk;
	unsigned int len;
	unsigned char *head, *data;
	u16 network_header;
	u16 transport_header;
};

struct sk_buff_head {
	struct sk_buff *next, *prev;
};

struct bpf_sock_ops_kern {
	struct sk_buff *skb;
};

struct sock {
	struct sock_common __sk_common;
	struct {
		struct sk_buff *tail;
	} sk_backlog;
	struct sk_buff_head sk_receive_queue;
	socket_lock_t sk_lock;
	struct socket_wq *sk_wq;
	int sk_write_pending; /* threads that wait for room to send */
	struct socket *sk_socket;
	u16 sk_type;
	u16 sk_protocol;
	int sk_err;
	u8 sk_shutdown;
	struct bpf_local_storage *sk_bpf_storage;
};

struct unix_address {
	int len; /* of the name */
	u8 name[1];
};

struct mutex {
	struct {
		s64 counter;
	} owner; /* a task and three bits; 0: nobody */
};

struct unix_sock {
	struct sock sk;
	struct unix_address *addr;
	struct sock *peer;
	struct mutex iolock; /* held while bytes are taken from the queue */
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct {
		u32 lrcvtime; /* jiffies: when data was received last; at first, when the connection was opened */
	} icsk_ack;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 copied_seq;
	u32 rcv_nxt;
	u32 write_seq;
	u32 snd_una;
	u32 snd_nxt;
	u32 rcv_wnd;
	u16 tcp_header_len;
	u32 mss_cache;
	u64 bytes_received;
	u64 bytes_acked;
	u32 lsndtime; /* jiffies: when data was sent last; at first, when the connection was opened */
	u64 tcp_mstamp; /* CLOCK_MONOTONIC, µs: of the last packet, whether it came or went */
	u8 bpf_sock_ops_cb_flags;
	bool is_mptcp; /* Linux 5.6, with CONFIG_MPTCP */
};

enum iter_type { ITER_UBUF, ITER_IOVEC };

struct iovec {
	void *iov_base;
	unsigned long iov_len;
};

struct proto_ops___before65 {
	void *sendpage;
} __attribute__((preserve_access_index));

struct iov_iter___before64 {
	const struct iovec *iov;
};

struct iov_iter {
	u8 iter_type;
	unsigned long iov_offset;
	const struct iovec *__iov;
	void *ubuf;
	unsigned long count;
	unsigned long nr_segs;
};

struct msghdr {
	struct iov_iter msg_iter;
};

#define VM_ACCESS 7 /* VM_READ, VM_WRITE, VM_EXEC */

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
};

struct mm_struct {
	unsigned long exec_vm; /* pages of code that are mapped */
	unsigned long start_stack;
};

#if defined(__TARGET_ARCH_x86)
struct thread_struct {
	unsigned long fsbase;
};
#elif defined(__TARGET_ARCH_arm64)
struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
};
#endif

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* by pid namespace, the innermost last */
};

struct task_struct {
	unsigned int __state;
	struct pid *thread_pid;
	int pid;
	int tgid;
	unsigned sched_contributes_to_load : 1; /* of the last sleep: it was uninterruptible */
	unsigned long nvcsw;
	struct files_struct *files;
	struct mm_struct *mm;
	struct thread_struct thread;
	struct bpf_local_storage *bpf_storage;
};

struct linux_binprm;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
	unsigned int uid;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r14;
	unsigned long bp;
	unsigned long sp;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long r8;
	unsigned long r10;
	unsigned long ax;
	unsigned long orig_ax;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	u64 regs[31];
};
struct pt_regs {
	u64 regs[31];
	u64 sp;
	u64 orig_x0;
	s32 syscallno;
};
#endif

#pragma clang attribute pop

#endif
