/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connections over unix stream sockets, within this host. The state machines of server.bpf.h and
 * client.bpf.h run on them as on those of TCP. A unix socket has no sequence numbers, so each end counts:
 *
 *	position  of a byte: how many were sent before it in its direction
 *	note      the context of a request, or that its client cannot be linked, with the position
 *		  where it begins; the sender leaves it at the end that receives
 *
 * The bytes are in the receiver's queue before the sender's hook leaves the note. A receiver that does
 * not sleep may read them first, and then waits for the note. If the sender is off its CPU, it waits in vain:
 * such a request counts as not sampled, because a traced client promises notes; the late note is dropped and
 * counted (TARE_C_TAG_STALE).
 *
 *	connect       the client's end begins to count, of any process. What was open before is not
 *		      followed, since its positions are not known
 *	first bytes,  the accepted end begins to count: its peer is a client's end. socketpair() has
 *	either way    no client, and is not followed
 *	the end       shows by a receive of nothing at the other end, or by a send that fails. A close
 *		      without either is seen by no hook: the agent's sweep finds it within a second.
 *		      For that, the state of a connection is kept by its socket's address; the socket's
 *		      cookie, which is never used again, tells whether the socket is still the same
 *
 * There is no socket lock: one thread may send at an end while another one receives. A hook therefore
 * locks the end that it works on (held) until it returns. Only a client's hook also locks the other
 * end, briefly, to leave a note: there is no deadlock.
 */
#ifndef TARE_UNIX_H
#define TARE_UNIX_H

#define UNIX_NOTES 4 /* a power of two: requests that were sent, and that nobody has received yet */
#define UNIX_TELL  1000000000 /* ns, at least, between requests for the hooks */
/* Ten milliseconds: who holds it may be off its CPU, preempted or because the host takes the CPU of a virtual machine. */
#define UNIX_SPINS 2000000
#define UNIX_WAITS 10000 /* some ten microseconds: what a sender's hook takes */

enum unix_role {
	UNIX_CLIENT = 1,
	UNIX_SERVER = 2,
	UNIX_OLD = 3, /* of a connection that was open before: counted once */
};

struct unix_end {
	u32 epoch; /* unix_epoch when it began; of another epoch: not followed */
	u32 held;
	u32 sent, received;
	u32 asked; /* value of received at the last send */
	u32 calls; /* thread that is within a send; 0: none */
	u8 role;   /* enum unix_role */
	u8 lost;   /* positions are not known any more */
	u8 next;   /* place of the next note */
	u8 open;   /* a bit for each that is not read */
	u8 behind; /* at the last send, the other end had not counted all that had left its queue */
	u8 told;   /* the send that goes on has left its note, if it leaves one */
	u8 pad[2];
	struct note notes[UNIX_NOTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct unix_end);
} unix_ends SEC(".maps");

struct unix_conn {
	u64 cookie; /* of the socket, or one of these */
	struct conn c;
};

#define UNIX_OVER   0ULL
#define UNIX_BEGINS ~0ULL	/* is being filled */
#define UNIX_ENDS   (~0ULL - 1) /* is being removed */

static const struct unix_conn unix_conn_empty = {.cookie = UNIX_BEGINS};

/* Ends of traced services, by the address of the struct sock. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct unix_conn);
} unix_conns SEC(".maps");

/* Number of the period in which all hooks are attached; 0 while they are not. */
volatile u32 unix_epoch = 0;

/* There may be entries in unix_conns: a walk of the empty map takes a millisecond. */
volatile u32 unix_known = 0;

/* When the agent was last asked for the hooks, ns. */
u64 unix_told SEC(".data.live");

/* A traced service uses unix sockets: the agent is to attach the hooks, or to keep them. */
INLINE void unix_wanted(void)
{
	u64 now = bpf_ktime_get_ns();
	if (now - unix_told < UNIX_TELL)
		return;
	unix_told = now;
	control_tell_of(TARE_UNIX, bpf_get_current_task_btf()->tgid);
}

struct unix_holding {
	struct unix_end *end;
	u64 held;
};

static int unix_try(u32 i, struct unix_holding *h)
{
	h->held = !__sync_val_compare_and_swap(&h->end->held, 0, 1);
	return h->held;
}

/* False: somebody else has held it for too long. */
__noinline int unix_hold(struct unix_end *e)
{
	if (!e)
		return 0;
	struct unix_holding h = {.end = e};
	bpf_loop(UNIX_SPINS, unix_try, &h, 0);
	if (!h.held)
		e->lost = 1;
	return h.held;
}

INLINE void unix_release(struct unix_end *e)
{
	__sync_lock_test_and_set(&e->held, 0);
}

INLINE struct unix_end *unix_end(struct sock *sk)
{
	if (!READ_ONLY(sk)->sk_bpf_storage)
		return 0;
	return bpf_sk_storage_get(&unix_ends, sk, 0, 0);
}

INLINE bool unix_follows(const struct unix_end *e)
{
	return e && e->epoch == unix_epoch && e->role != UNIX_OLD && !e->lost;
}

INLINE struct conn *unix_conn(struct sock *sk)
{
	u64 at = (u64)sk;
	struct unix_conn *uc = bpf_map_lookup_elem(&unix_conns, &at);
	return uc && uc->cookie == (u64)sk->__sk_common.skc_cookie.counter && uc->cookie ? &uc->c
											 : 0;
}

/* What a thread receives here is known. */
INLINE bool unix_traced(struct sock *sk)
{
	struct unix_end *e = unix_end(sk);
	struct conn *c = unix_follows(e) ? unix_conn(sk) : 0;
	return c && c->flags & (C_SERVER | C_CLIENT);
}

struct unix_wait {
	const volatile struct unix_end *sender;
	u32 to; /* position up to which bytes were received */
};

/* Stops where the note is there, or the send is over. */
static int unix_awaits(u32 i, struct unix_wait *w)
{
	return w->sender->told || !before(w->sender->sent, w->to);
}

/* Bytes were received up to this position: waits, some ten microseconds at most, until their sender has left its note. */
__noinline int unix_await(const struct unix_end *sender, u32 to)
{
	struct unix_wait w = {.sender = sender, .to = to};
	if (sender && !unix_awaits(0, &w))
		bpf_loop(UNIX_WAITS, unix_awaits, &w, 0);
	return 0;
}

/* Nobody connects a pair of sockets, and neither has a name. */
INLINE bool unix_named(struct unix_sock *u)
{
	struct sock *peer = u->peer;
	return u->addr || BPF_CORE_READ((struct unix_sock *)peer, addr);
}

/* Who sends and who receives may both create it at once: the kernel refuses one of them, who then finds the other's. */
INLINE struct unix_end *unix_create(struct sock *sk, u8 role)
{
	struct unix_end *e = bpf_sk_storage_get(&unix_ends, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!e)
		e = bpf_sk_storage_get(&unix_ends, sk, 0, 0);
	if (!e) {
		count(TARE_C_STORAGE_FULL);
		return 0;
	}
	if (e->epoch == unix_epoch)
		return e;
	if (e->epoch) /* else it is new, all zeroes, and somebody may have written to it already */
		__builtin_memset(e, 0, sizeof(*e));
	e->role = role;
	e->epoch = unix_epoch;
	return e;
}

/*
 * This socket's end, whose peer is given; 0 if the connection is not followed. The accepted one
 * begins with the first bytes of either.
 */
INLINE struct unix_end *unix_joined(struct sock *sk, struct sock *peer)
{
	struct unix_end *e = unix_end(sk);
	if (e && e->epoch == unix_epoch)
		return unix_follows(e) ? e : 0;
	struct unix_end *other = unix_end(peer);
	if (!unix_follows(other) || other->role != UNIX_CLIENT)
		return 0;
	return unix_create(sk, UNIX_SERVER);
}

/* Whoever connects within this host is trusted as one by its loopback address is. */
INLINE bool unix_trusted(void)
{
	struct prefix p = {.bits = 128};
	p.address[10] = p.address[11] = 0xff;
	p.address[12] = 127;
	p.address[15] = 1;
	return bpf_map_lookup_elem(&trusted, &p) != 0;
}

/* An end is over. */
INLINE void unix_over(struct conn *c, u32 error)
{
	if (cfg_measure)
		measure_closed(c, error);
	if (c->flags & C_SERVER)
		server_closed(c, error);
	else if (c->flags & C_CLIENT)
		client_closed(c, error);
	c->flags = C_IGNORED;
}

/* The same of one whose socket is gone. False: somebody else does it. */
__noinline int unix_bury(struct unix_conn *uc)
{
	if (!uc)
		return 0;
	u64 cookie = uc->cookie;
	if (!cookie || cookie >= UNIX_ENDS ||
	    __sync_val_compare_and_swap(&uc->cookie, cookie, UNIX_OVER) != cookie)
		return 0;
	unix_over(&uc->c, 0);
	return 1;
}

/* Removes what is over, unless another end begins in its place. */
INLINE void unix_remove(struct unix_conn *uc, u64 at)
{
	if (__sync_val_compare_and_swap(&uc->cookie, UNIX_OVER, UNIX_ENDS) == UNIX_OVER)
		bpf_map_delete_elem(&unix_conns, &at);
}

/* The socket is closed, or another one has its place. */
INLINE bool unix_gone(const struct unix_conn *uc, u64 at)
{
	struct sock *sk = (void *)at;
	return (u64)BPF_CORE_READ(sk, __sk_common.skc_cookie.counter) != uc->cookie ||
	       !BPF_CORE_READ(sk, sk_socket);
}

/* An end of a traced service begins. */
INLINE struct conn *unix_begins(u64 at, u64 cookie, const struct service *svc, u32 flags)
{
	struct unix_conn *uc = bpf_map_lookup_elem(&unix_conns, &at);
	if (uc) {
		unix_bury(uc);
		if (__sync_val_compare_and_swap(&uc->cookie, UNIX_OVER, UNIX_BEGINS) != UNIX_OVER) {
			count(TARE_C_UNIX_LOST); /* somebody else removes it */
			return 0;
		}
	} else {
		bpf_map_update_elem(&unix_conns, &at, &unix_conn_empty, BPF_NOEXIST);
		uc = bpf_map_lookup_elem(&unix_conns, &at);
	}
	if (!uc) {
		count(TARE_C_STORAGE_FULL);
		return 0;
	}
	struct conn *c = &uc->c;
	__builtin_memset(c, 0, sizeof(*c));
	c->service = svc->index;
	c->linking = svc->linking;
	c->family = AF_UNIX;
	c->flags = flags | (unix_trusted() ? C_TRUSTED : 0);
	c->opening = OPENING_NEW;
	uc->cookie = cookie;
	unix_known = 1;
	return c;
}

/*
 * The state of this socket's end, of the traced service whose thread is at it, which may have connected before it was
 * known to be traced; 0: it is nobody's.
 */
INLINE struct conn *unix_mine(struct sock *sk, const struct unix_end *e)
{
	struct conn *c = unix_conn(sk);
	if (c || (e->role != UNIX_SERVER && e->role != UNIX_CLIENT))
		return c;
	u32 tgid = bpf_get_current_task_btf()->tgid;
	struct service *svc = bpf_map_lookup_elem(&processes, &tgid);
	c = svc ? unix_begins((u64)sk, bpf_get_socket_cookie(sk), svc,
			      e->role == UNIX_SERVER ? C_SERVER : C_CLIENT | C_STANDS)
		: 0;
	if (!c)
		return 0;
	if (e->sent | e->received)
		c->opening = OPENING_OLD;
	c->rcv_seq = e->received;
	c->msg_end = e->sent;
	if (c->flags & C_SERVER)
		c->server.sent_seq = e->sent - 1; /* the first bytes begin a request */
	return c;
}

/*
 * A thread receives a request. What it received before on a socket that is closed by now was closed
 * unanswered, if it was not answered: the guard is to know.
 */
INLINE void unix_thread_receives(struct sock *sk)
{
	struct thread_state *t = thread_create(bpf_get_current_task_btf());
	if (!t || t->unix_at == (u64)sk)
		return;
	u64 at = t->unix_at;
	struct unix_conn *uc = at ? bpf_map_lookup_elem(&unix_conns, &at) : 0;
	if (uc && unix_gone(uc, at) && unix_bury(uc))
		unix_remove(uc, at);
	t->unix_at = (u64)sk;
}

/* It cannot be followed any more. */
__noinline int unix_gives_up(struct conn *c)
{
	if (!c)
		return 0;
	unix_over(c, 0);
	count(TARE_C_UNIX_LOST);
	return 0;
}

INLINE void unix_view(struct tcp_view *v, struct sock *sk, const struct unix_end *e)
{
	v->sock = (u64)sk;
	v->copied_seq = v->rcv_nxt = e->received;
	v->write_seq = v->snd_una = e->sent;
}

/* Leaves a note at the other end. */
__noinline int unix_note(struct unix_end *to, const struct note *note)
{
	if (!to || !note || !unix_hold(to))
		return 0;
	u32 i = to->next++ & (UNIX_NOTES - 1);
	if (to->open & 1u << i)
		count(TARE_C_TAG_OVERFLOW);
	to->notes[i] = *note;
	to->open |= 1u << i;
	unix_release(to);
	return 0;
}

/* Bytes [from, to) of a traced client are read: what it has left for them, in its order. */
__noinline int unix_notes(struct conn *c, struct unix_end *e, u32 from, u32 to)
{
	if (!c || !e)
		return 0;
	conn_promised(c);
	for (u32 k = 0; k < UNIX_NOTES; k++) {
		u32 i = (e->next + k) & (UNIX_NOTES - 1);
		const struct note *n = &e->notes[i];
		if (!(e->open & 1u << i) || !before(n->start, to))
			continue;
		e->open &= ~(1u << i);
		if (n->kind == NOTE_TAG ||
		    !before(n->start, from)) /* a tag that came too late is counted */
			inbox_take(c, n, 0);
	}
	return 0;
}

INLINE void write_path(struct path_record *r, struct unix_sock *server, u64 span)
{
	struct unix_address *a = server->addr;
	u64 len = a ? BPF_CORE_READ(a, len) - 2 : 0; /* behind the family */
	r->type = TARE_PATH;
	r->len = AT_MOST(len, TARE_UNIX_PATH);
	r->span_id = span;
	if (bpf_probe_read_kernel(r->path, sizeof(r->path), (void *)&a->name + 2))
		r->len = 0;
}

/* Tells where the span's connection leads. */
INLINE void unix_tells(struct unix_sock *server, u64 span)
{
	struct path_record *r;
	RECORD(span, r, sizeof(*r), write_path(r, server, span));
}

#endif
