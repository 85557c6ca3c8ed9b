/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connections of a thread to itself, as libraries make them to wake themselves up (pika): a thread
 * connects to a port that it listens on. What goes over them is no request, at either end.
 */
#ifndef TARE_ITSELF_H
#define TARE_ITSELF_H

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct port_key); /* a port */
	__type(value, u32);	      /* thread that listens on it */
} own_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct port_key); /* both ports of such a connection */
	__type(value, u8);
} waking SEC(".maps");

INLINE struct port_key both_ports(struct conn *c, u16 listening, u16 connecting)
{
	struct port_key k = {.netns = c->netns, .port = (u32)listening << 16 | connecting};
	return k;
}

/* A service begins to listen. */
INLINE void worker_listens(u8 linking, const struct port_key *port)
{
	u32 thread = thread_id();
	if (links_threads(linking))
		bpf_map_update_elem(&own_ports, port, &thread, BPF_ANY);
	else
		bpf_map_delete_elem(&own_ports, port);
}

/* An accepted connection is one of a thread to itself. */
INLINE bool worker_wakes_itself(struct conn *c)
{
	if (!by_thread(c) || !is_loopback(c->family, c->remote))
		return false;
	struct port_key k = both_ports(c, c->local_port, c->remote_port);
	return !bpf_map_delete_elem(&waking, &k);
}

/* The same of one that is opened. */
INLINE bool worker_calls_itself(struct conn *c)
{
	struct port_key k = {.netns = c->netns, .port = c->remote_port};
	if (!by_thread(c) || !is_loopback(c->family, c->remote))
		return false;
	u32 *thread = bpf_map_lookup_elem(&own_ports, &k);
	return thread && *thread == thread_id();
}

/* Notes such a connection, for the end that will accept it. */
INLINE void worker_called_itself(struct conn *c, u16 port)
{
	struct port_key k = both_ports(c, c->remote_port, port);
	u8 yes = 1;
	bpf_map_update_elem(&waking, &k, &yes, BPF_ANY);
}

#endif
