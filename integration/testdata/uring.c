/*
 * A server that sends by io_uring: uring PORT BACKEND_PORT. A thread for each connection receives
 * GET /way/5 and asks the backend for /way/5, which it does by
 *
 *	blocking  write
 *	plain	  a ring of its own: in the thread that submits
 *	async	  the same, by a worker thread of the kernel
 *	polled	  a ring whose submissions a thread of the kernel polls for
 *
 * and reads the answer by read. With LOOP, one thread does everything by one ring, for all
 * connections; with LOOP=polled, by such a thread of the kernel.
 */
#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOM 4096

static int backend_port;
static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static struct sockaddr_in at(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

static int asks(void)
{
	struct sockaddr_in a = at(backend_port);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	check(!connect(fd, (struct sockaddr *)&a, sizeof(a)), "connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* All of a message whose end is an empty line, or with a body of a known length; 0: no more. */
static int whole(int fd, char *buf)
{
	int n = 0;
	for (;;) {
		int got = read(fd, buf + n, ROOM - 1 - n);
		if (got <= 0)
			return 0;
		n += got;
		buf[n] = 0;
		char *end = strstr(buf, "\r\n\r\n"), *length = strcasestr(buf, "content-length:");
		if (end && n >= end + 4 - buf + (length && length < end ? atoi(length + 15) : 0))
			return n;
	}
}

static int request_of(const char *path, char *to)
{
	int n = strcspn(path, " \r\n");
	return sprintf(to, "GET %.*s HTTP/1.1\r\nHost: backend\r\n\r\n", n, path);
}

static void ring_sends(struct io_uring *ring, int fd, const char *text, int n, int flags)
{
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	io_uring_prep_send(sqe, fd, text, n, 0);
	sqe->flags |= flags;
	check(io_uring_submit(ring) >= 0, "submit");
	check(!io_uring_wait_cqe(ring, &cqe) && cqe->res == n, "send");
	io_uring_cqe_seen(ring, cqe);
}

static void *serves(void *arg)
{
	int fd = (long)arg, next = asks();
	struct io_uring ring, polled;
	char buf[ROOM], ask[ROOM];
	struct io_uring_params p = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 100};
	check(!io_uring_queue_init(4, &ring, 0), "ring");
	check(!io_uring_queue_init_params(4, &polled, &p), "polled ring");
	while (whole(fd, buf)) {
		char *path = buf + strlen("GET ");
		int n = request_of(path, ask);
		if (!strncmp(path, "/plain/", 7))
			ring_sends(&ring, next, ask, n, 0);
		else if (!strncmp(path, "/async/", 7))
			ring_sends(&ring, next, ask, n, IOSQE_ASYNC);
		else if (!strncmp(path, "/polled/", 8))
			ring_sends(&polled, next, ask, n, 0);
		else
			check(write(next, ask, n) == n, "write");
		check(whole(next, buf), "answer");
		check(write(fd, answer, sizeof(answer) - 1) > 0, "write");
	}
	io_uring_queue_exit(&ring);
	io_uring_queue_exit(&polled);
	close(next);
	close(fd);
	return 0;
}

/* ---- everything by one ring ---- */

struct connection {
	int fd, next;
	enum { RECEIVES, ASKS, HEARS, ANSWERS } does;
	char buf[ROOM], ask[ROOM];
};

static void goes_on(struct io_uring *ring, struct connection *c)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	switch (c->does) {
	case RECEIVES:
		io_uring_prep_recv(sqe, c->fd, c->buf, ROOM - 1, 0);
		break;
	case ASKS:
		io_uring_prep_send(sqe, c->next, c->ask, request_of(c->buf + 4, c->ask), 0);
		break;
	case HEARS:
		io_uring_prep_recv(sqe, c->next, c->buf, ROOM - 1, 0);
		break;
	case ANSWERS:
		io_uring_prep_send(sqe, c->fd, answer, sizeof(answer) - 1, 0);
		break;
	}
	io_uring_sqe_set_data(sqe, c);
}

static void accepts(struct io_uring *ring, int listener)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	io_uring_prep_accept(sqe, listener, 0, 0, 0);
	io_uring_sqe_set_data(sqe, 0);
}

static void loop(int listener, int polled)
{
	struct io_uring ring;
	struct io_uring_params p = {.flags = polled ? IORING_SETUP_SQPOLL : 0, .sq_thread_idle = 100};
	check(!io_uring_queue_init_params(1024, &ring, &p), "ring");
	accepts(&ring, listener);
	for (;;) {
		struct io_uring_cqe *cqe;
		check(io_uring_submit(&ring) >= 0, "submit");
		check(!io_uring_wait_cqe(&ring, &cqe), "wait");
		do {
			struct connection *c = io_uring_cqe_get_data(cqe);
			int res = cqe->res;
			io_uring_cqe_seen(&ring, cqe);
			if (!c) {
				check(res >= 0, "accept");
				c = calloc(1, sizeof(*c));
				c->fd = res;
				c->next = asks();
				goes_on(&ring, c);
				accepts(&ring, listener);
			} else if (res <= 0) {
				close(c->fd);
				close(c->next);
				free(c);
			} else {
				if (c->does == RECEIVES || c->does == HEARS)
					c->buf[res] = 0;
				c->does = (c->does + 1) % 4;
				goes_on(&ring, c);
			}
		} while (!io_uring_peek_cqe(&ring, &cqe));
	}
}

int main(int argc, char **argv)
{
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in a = at(atoi(argv[1]));
	const char *looping = getenv("LOOP");
	(void)argc;
	backend_port = atoi(argv[2]);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	check(!bind(listener, (struct sockaddr *)&a, sizeof(a)), "bind");
	check(!listen(listener, 1024), "listen");
	if (looping)
		loop(listener, !strcmp(looping, "polled"));
	for (;;) {
		pthread_t thread;
		long fd = accept(listener, 0, 0);
		check(fd >= 0, "accept");
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		check(!pthread_create(&thread, 0, serves, (void *)fd), "thread");
		pthread_detach(thread);
	}
}
