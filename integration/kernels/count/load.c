/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load PORT CONNECTIONS WARM COUNT: a closed loop over kept connections to 127.0.0.1. After WARM responses it marks the
 * beginning for plugin.c, and COUNT responses later the end. It prints, per request of these, the nanoseconds of the
 * machine's clock, which are instructions with -icount shift=0, and those that each task ran.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MARKS	  0x7000000000ull
#define MAX_TASKS 4096

struct task {
	int pid, tid;
	char name[32];
	uint64_t ns;
};

static struct task before[MAX_TASKS], after[MAX_TASKS];

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* The first word of a file. */
static int word(char *to, int size, const char *format, int pid, int tid)
{
	char path[64], line[256];
	snprintf(path, sizeof(path), format, pid, tid);
	FILE *f = fopen(path, "r");
	if (!f)
		return 0;
	int found = fgets(line, sizeof(line), f) && sscanf(line, "%255s", line) == 1;
	fclose(f);
	if (found)
		snprintf(to, size, "%.*s", size - 1, line);
	return found;
}

/* All tasks, with the time that each has run. */
static int tasks(struct task *to)
{
	int n = 0;
	DIR *processes = opendir("/proc");
	for (struct dirent *p; processes && (p = readdir(processes));) {
		char path[64], ns[32];
		int pid = atoi(p->d_name);
		snprintf(path, sizeof(path), "/proc/%d/task", pid);
		DIR *threads = pid ? opendir(path) : NULL;
		for (struct dirent *t; threads && (t = readdir(threads));) {
			struct task *x = &to[n];
			x->pid = pid;
			x->tid = atoi(t->d_name);
			if (n < MAX_TASKS && x->tid &&
			    word(ns, sizeof(ns), "/proc/%d/task/%d/schedstat", pid, x->tid) &&
			    word(x->name, sizeof(x->name), "/proc/%d/task/%d/comm", pid, x->tid)) {
				x->ns = strtoull(ns, NULL, 10);
				n++;
			}
		}
		if (threads)
			closedir(threads);
	}
	if (processes)
		closedir(processes);
	return n;
}

static void mark(int which)
{
	((void (*)(void))(uintptr_t)(MARKS + 64 * which))();
}

static void report(int n_before, int n_after, long count, long bad, uint64_t ns)
{
	printf("RESULT requests=%ld bad=%ld instructions=%llu\n", count, bad,
	       (unsigned long long)ns);
	for (int i = 0; i < n_after; i++) {
		uint64_t ran = after[i].ns;
		for (int k = 0; k < n_before; k++)
			if (before[k].tid == after[i].tid && before[k].pid == after[i].pid)
				ran -= before[k].ns;
		if (ran)
			printf("TASK %s %llu\n", after[i].name, (unsigned long long)ran);
	}
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: load PORT CONNECTIONS WARM COUNT\n");
		return 2;
	}
	int port = atoi(argv[1]), connections = atoi(argv[2]), n_before = 0;
	long warm = atol(argv[3]), count = atol(argv[4]), done = 0, bad = 0;
	char request[256], response[8192];
	int length = snprintf(
	    request, sizeof(request),
	    "GET /item/46044 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: load\r\n\r\n", port);

	unsigned char *marks =
	    mmap((void *)(uintptr_t)MARKS, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (marks == MAP_FAILED)
		fail("mmap");
	memset(marks, 0xc3, 4096); /* ret */

	int set = epoll_create1(0);
	for (int i = 0; i < connections; i++) {
		int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
		struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
		struct epoll_event e = {.events = EPOLLIN, .data.fd = s};
		to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (connect(s, (void *)&to, sizeof(to)))
			fail("connect");
		if (epoll_ctl(set, EPOLL_CTL_ADD, s, &e))
			fail("epoll_ctl");
		if (write(s, request, length) != length)
			fail("write");
	}
	for (uint64_t began = 0;;) {
		struct epoll_event events[64];
		int n = epoll_wait(set, events, 64, -1);
		for (int i = 0; i < n; i++) {
			int s = events[i].data.fd;
			ssize_t got = read(s, response, sizeof(response));
			if (got <= 0) {
				fprintf(stderr, "closed after %ld responses\n", done);
				return 1;
			}
			bad += memcmp(response, "HTTP/1.1 200", 12) != 0;
			done++;
			if (done == warm) {
				n_before = tasks(before);
				mark(0);
				began = now();
			}
			if (done == warm + count) {
				uint64_t ended = now();
				mark(1);
				report(n_before, tasks(after), count, bad, ended - began);
				return 0;
			}
			if (write(s, request, length) != length)
				fail("write");
		}
	}
}
