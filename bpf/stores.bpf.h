/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How what the programs remember is reached (state.bpf.h): one function for each store. A kernel without
 * sockets' or threads' storage in some kind of program gets another one here, and nowhere else.
 */
#ifndef TARE_STORES_H
#define TARE_STORES_H

INLINE struct conn *conn_at(u64 address)
{
	return bpf_map_lookup_elem(&conns_by_address, &address);
}

INLINE struct conn *conn_create_at(u64 address)
{
	struct conn *c = conn_at(address);
	if (c)
		return c;
	bpf_map_update_elem(&conns_by_address, &address, &conn_empty, BPF_NOEXIST);
	return conn_at(address);
}

/* Linux 6.2; weak: 0 where there is none. The verifier makes a move of it. */
extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym __weak;

/*
 * The same object, for reading alone. Where a program follows a pointer out of an object that the verifier trusts, the
 * verifier searches all types of the kernel by name, up to four times (btf_nested_type_is_trusted, Linux 6.3): a
 * millisecond for each path on which the program may come there.
 */
#define READ_ONLY(object)                                                                          \
	((typeof(object))(bpf_rdonly_cast ? bpf_rdonly_cast(object, bpf_core_type_id_kernel(       \
									typeof(*(object))))        \
					  : (object)))

/* The connection of a socket; 0 if it is not traced. */
INLINE struct conn *conn_of(struct sock *sk)
{
	if (cfg_by_address)
		return conn_at((u64)sk);
	if (!sk->sk_bpf_storage) /* looked at where hooks begin, on one path */
		return 0;
	return bpf_sk_storage_get(&conns, sk, 0, 0);
}

/* sk may be any kind of pointer to a socket that the program has. */
#define conn_create(sk)                                                                            \
	({                                                                                         \
		struct conn *_c =                                                                  \
		    cfg_by_address                                                                 \
			? conn_create_at((u64)sk)                                                  \
			: bpf_sk_storage_get(&conns, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);          \
		gate_open((u64)sk);                                                                \
		if (!_c)                                                                           \
			count(TARE_C_STORAGE_FULL);                                                \
		_c;                                                                                \
	})

/* The same where the type of the pointer is not struct sock. */
#define conn_find(sk)                                                                              \
	(cfg_by_address ? conn_at((u64)sk) : (struct conn *)bpf_sk_storage_get(&conns, sk, 0, 0))

/* The socket ends; its own storage ends with it. */
INLINE void conn_forget(struct sock *sk)
{
	u64 address = (u64)sk;
	if (cfg_by_address)
		bpf_map_delete_elem(&conns_by_address, &address);
}

INLINE struct thread_state *thread_of(struct task_struct *task)
{
	if (!READ_ONLY(task)->bpf_storage)
		return 0;
	return bpf_task_storage_get(&threads, task, 0, 0);
}

/* The task is asked for twice, so that no register holds it between. */
INLINE struct thread_state *thread_find(void)
{
	if (!READ_ONLY(bpf_get_current_task_btf())->bpf_storage)
		return 0;
	return bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
}

/* All that a process does which a request has started, in whatever task, is for that request. */
INLINE bool is_helper(const struct thread_state *t)
{
	return t && t->inherited == INHERITED_PROCESS;
}

INLINE struct thread_state *thread_create(struct task_struct *task)
{
	struct thread_state *t =
	    bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		count(TARE_C_STORAGE_FULL);
	return t;
}

INLINE struct service_state *service_of(u16 index)
{
	u32 i = index;
	return bpf_map_lookup_elem(&services, &i);
}

#endif
