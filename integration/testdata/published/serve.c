/*
 * A service over HTTP/1.1 with a thread for each connection that does what an SDK in it would do:
 * for each request a server span, and for the call that it makes a client span, are current, and
 * published as OTEP 4947 says. The trace is that of the request's traceparent, or 5d5d5d5d… with the
 * number from its path; a server span is 11… with the number, or 33… of a
 * service that asks nobody, a client span 22….
 *
 * serve PORT UPSTREAM MODE [LIBRARY]: UPSTREAM 0: it asks nobody. The variable is in the executable
 * (-DEXE), or in a library that is loaded while it runs.
 *	pointer	a record for each span, and the variable points to the current one
 *	valid	one record for each thread, which is not valid while it changes
 *	lie	pointers that lead nowhere, records that are not valid, and some that another thread
 *		changes all the time; all that looks valid is bad1…
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct record {
	uint8_t trace[16], span[8], valid, flags;
	uint16_t attributes;
	uint8_t rest[36];
} __attribute__((packed, aligned(8)));

static int port, upstream;
static char mode;
static void (*set)(void *);
static struct record torn; /* of all liars */

#ifdef EXE
void publish(void *record);
#endif

#define barrier() __asm__ volatile("" ::: "memory")

static void fill(struct record *r, const uint8_t *trace, uint8_t kind, uint64_t n)
{
	r->valid = 0;
	barrier();
	memcpy(r->trace, trace, 16);
	for (int i = 0; i < 8; i++)
		r->span[i] = i < 4 ? kind : n >> (8 * (7 - i));
	r->flags = 1;
	r->attributes = 4;
	memcpy(r->rest, "\0\2ab", 4);
	barrier();
	r->valid = 1;
	barrier();
}

static void *tears(void *unused)
{
	for (;;) {
		memset(&torn, 0, sizeof(torn));
		barrier();
		memset(&torn, 0xba, 24);
		barrier();
		torn.valid = 1;
		barrier();
	}
	return unused;
}

/* What a thread of a process that lies has in the variable. */
static void *lie(uint64_t n, struct record *r)
{
	static const uint64_t nowhere[] = {1, 0xfff, ~0ULL, 1ULL << 63, 0xffff888000000000, 0x7ffffffff000, 0xdead0000beef};
	memset(r, 0xba, sizeof(*r));
	r->valid = 1;
	switch (n % 16) {
	case 0:
		r->valid = 2;
		return r;
	case 1:
		memset(r->trace, 0, 16);
		return r;
	case 2:
		memset(r->span, 0, 8);
		return r;
	case 3:
		return &torn;
	case 4: /* to itself */
		*(void **)r = r;
		return r;
	case 5:
		return (char *)sbrk(0) - 3; /* half of it is not there */
	case 6:
	case 7:
	case 8:
		return r;
	}
	return (void *)nowhere[n % 7];
}

static void shows(struct record *r, const uint8_t *trace, uint8_t kind, uint64_t n)
{
	struct record *next = r + (kind == 0x22 && mode == 'p');
	if (mode == 'l') {
		set(lie(n, r));
		return;
	}
	if (mode == 'p')
		set(0);
	fill(next, trace, kind, n);
	set(next);
}

static void hides(struct record *r)
{
	if (mode == 'v')
		r->valid = 0;
	else
		set(0);
}

static int dial(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(upstream), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, (void *)&to, sizeof(to)))
		(perror("connect"), exit(1));
	return fd;
}

/* Reads up to the end of a header that has no body behind it. */
static int head(int fd, char *b, int size)
{
	int n = 0;
	while (n < size - 1) {
		int got = read(fd, b + n, size - 1 - n);
		if (got <= 0)
			return 0;
		b[n += got] = 0;
		if (strstr(b, "\r\n\r\n"))
			return n;
	}
	return 0;
}

static void *serve(void *p)
{
	int fd = (long)p, to = 0, one = 1;
	const uint8_t server = upstream ? 0x11 : 0x33;
	char b[2048], ask[256];
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	struct record *r = calloc(2, sizeof(*r)), *before = calloc(2, sizeof(*r));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	while (head(fd, b, sizeof(b))) {
		unsigned long n = 0;
		uint8_t trace[16] = "]]]]]]]]";
		const char *parent = strstr(b, "traceparent: 00-");
		sscanf(b, "GET /n/%lu", &n);
		for (int i = 8; i < 16; i++)
			trace[i] = n >> (8 * (15 - i));
		for (int i = 0; parent && i < 16; i++)
			sscanf(parent + 16 + 2 * i, "%2hhx", &trace[i]);
		shows(r, trace, server, n);
		if (upstream) {
			if (!to)
				to = dial();
			shows(r, trace, 0x22, n);
			int size = snprintf(ask, sizeof(ask), "GET /n/%lu HTTP/1.1\r\nHost: b\r\n%.*s\r\n", n,
					    parent ? 70 : 0, parent ? parent : "");
			if (write(to, ask, size) != size || !head(to, b, sizeof(b)))
				(perror("ask"), exit(1));
			shows(r, trace, server, n);
		}
		if (write(fd, answer, sizeof(answer) - 1) < 0)
			break;
		hides(r);
		struct record *last = r;
		r = before;
		before = last;
	}
	hides(r);
	if (to)
		close(to);
	close(fd);
	return 0;
}

int main(int n, char **v)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int l = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	port = atoi(v[1]);
	upstream = atoi(v[2]);
	mode = v[3][0];
#ifdef EXE
	set = publish;
#else
	void *library = dlopen(v[4], RTLD_NOW);
	if (!library)
		return fprintf(stderr, "%s\n", dlerror()), 1;
	set = (void (*)(void *))dlsym(library, "publish");
#endif
	at.sin_port = htons(port);
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(l, (void *)&at, sizeof(at)) || listen(l, 1024))
		return perror("listen"), 1;
	pthread_t t;
	if (mode == 'l')
		pthread_create(&t, 0, tears, 0);
	for (;;) {
		int c = accept(l, 0, 0);
		if (c >= 0 && !pthread_create(&t, 0, serve, (void *)(long)c))
			pthread_detach(t);
	}
}
