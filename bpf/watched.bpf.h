/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A client library whose sockets an event loop watches takes them out of its epoll set at times, or has
 * not put them there yet, and may send another request's call then (Jetty's HttpClient). So what a service
 * sends, on sockets that do not block, to a port where one was watched is taken for watched.
 */
#ifndef TARE_WATCHED_H
#define TARE_WATCHED_H

INLINE bool port_watched(const struct conn *c, const struct service_state *svc)
{
	u32 key = PORT_WATCHED(c->remote_port);
	for (int i = 0; i < PORTS_WATCHED; i++)
		if (svc->watched[i] == key || svc->watched[i] == PORT_ANY)
			return true;
	return false;
}

INLINE void port_watch(const struct conn *c, struct service_state *svc)
{
	int i = 0;
	if (port_watched(c, svc))
		return;
	while (i < PORTS_WATCHED - 1 && svc->watched[i])
		i++;
	svc->watched[i] = svc->watched[i] ? PORT_ANY : PORT_WATCHED(c->remote_port);
}

/* Who sends this will not wait for the answer, but an event loop. */
INLINE bool loop_waits(const struct conn *c, const struct tcp_view *v,
		       const struct service_state *svc)
{
	return v->watched == WATCHED_NOW || (v->watched == WATCHED_NOT_NOW && port_watched(c, svc));
}

#endif
