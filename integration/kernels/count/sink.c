/* SPDX-License-Identifier: Apache-2.0 */
/* sink PORT: a receiver of OTLP/HTTP at 127.0.0.1 that costs little: answers each request with 200, and keeps nothing. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_FDS 1024

static const char answer[] =
    "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";

/* What is known of a connection's request. */
static struct {
	long left; /* bytes of the body that are still to come */
	int length;
	char head[4096];
} requests[MAX_FDS];

/* Takes what came; answers each request that is complete. */
static void take(int s, const char *at, ssize_t n)
{
	typeof(&requests[0]) r = &requests[s];
	while (n > 0) {
		if (r->left) {
			long k = n < r->left ? n : r->left;
			r->left -= k;
			at += k;
			n -= k;
		} else {
			if (r->length == sizeof(r->head) - 1)
				exit(1);
			r->head[r->length++] = *at++;
			n--;
			if (r->length < 4 || memcmp(r->head + r->length - 4, "\r\n\r\n", 4))
				continue;
			r->head[r->length] = 0;
			r->length = 0;
			const char *size = strcasestr(r->head, "\r\ncontent-length:");
			r->left = size ? atol(size + 17) : 0;
		}
		if (!r->left && write(s, answer, sizeof(answer) - 1) < 0)
			perror("write");
	}
}

int main(int argc, char **argv)
{
	static char buffer[1 << 20];
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(argc > 1 ? atoi(argv[1]) : 0)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, set = epoll_create1(0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (void *)&at, sizeof(at)) || listen(listener, 16)) {
		perror("listen");
		return 1;
	}
	struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
	epoll_ctl(set, EPOLL_CTL_ADD, listener, &e);
	for (;;) {
		struct epoll_event events[8];
		int n = epoll_wait(set, events, 8, -1);
		for (int i = 0; i < n; i++) {
			int s = events[i].data.fd;
			if (s == listener) {
				e.data.fd = accept(listener, NULL, NULL);
				if (e.data.fd < 0 || e.data.fd >= MAX_FDS)
					return 1;
				memset(&requests[e.data.fd], 0, sizeof(requests[0]));
				epoll_ctl(set, EPOLL_CTL_ADD, e.data.fd, &e);
				continue;
			}
			ssize_t got = read(s, buffer, sizeof(buffer));
			if (got <= 0)
				close(s);
			else
				take(s, buffer, got);
		}
	}
}
