// Coroutines with a stack each, whatever switches between them, and threads that run all of them in turn.
#pragma once
#include <fcntl.h>
#include <sys/timerfd.h>

#include <functional>
#include <thread>

#include "ask.hpp"

struct Coroutine {
	std::function<void()> work;
	bool done = false;
	int fd; // for which it waits
	unsigned events;
	virtual ~Coroutine() {}
	virtual void resume() = 0;
	virtual void suspend() = 0;
};

using Make = std::function<Coroutine *(std::function<void()>)>;
inline Make make;

inline thread_local Coroutine *now;

// A coroutine may go on in another thread, so nobody must keep where the thread's is.
__attribute__((noinline)) inline Coroutine *current()
{
	asm volatile("");
	return now;
}

__attribute__((noinline)) inline void is_current(Coroutine *c)
{
	asm volatile("");
	now = c;
}

inline bool running() { return current(); }

inline void await(int fd, unsigned events)
{
	Coroutine *c = current();
	c->fd = fd;
	c->events = events;
	c->suspend();
}

// Watched once it has been left: another thread may go on with it at once.
inline void resume(Coroutine *c)
{
	Coroutine *caller = current(); // one coroutine may begin another
	is_current(c);
	c->resume();
	is_current(caller);
	if (c->done)
		delete c;
	else
		watch(EPOLL_CTL_MOD, c->fd, c->events | EPOLLONESHOT, c);
}

inline void ask_late(Connection &backend, const string &n)
{
	backend.say("GET /late/" + n + " HTTP/1.1\r\nHost: backend\r\n\r\n");
	string head = backend.until("\r\n\r\n");
	backend.bytes(atoi(head.c_str() + head.find("Content-Length: ") + 16));
}

// Asks about n once more, after it was answered.
inline void late(const string &n)
{
	Connection backend("BACKEND");
	itimerspec soon{{0, 0}, {0, 2000000}};
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	timerfd_settime(timer, 0, &soon, 0);
	await(timer, EPOLLIN);
	close(timer);
	ask_late(backend, n);
}

// Of the requests that are asked about late, every other one is by a coroutine of its own.
inline void serve(int fd, bool lately)
{
	Connection client(fd);
	Peers peers;
	for (string n; !(n = client.number()).empty();) {
		client.say(peers.ask(n));
		if (lately && atoi(n.c_str()) % 2)
			late(n);
		else if (lately)
			resume(make([n] { late(n); }));
	}
}

inline void run(int threads, bool lately)
{
	int listener = listening();
	fcntl(listener, F_SETFL, O_NONBLOCK); // several threads are told of one connection
	watch(EPOLL_CTL_ADD, listener, EPOLLIN, nullptr);
	auto loop = [=] {
		for (epoll_event e;;) {
			if (epoll_wait(loop_fd, &e, 1, -1) < 1)
				continue;
			if (e.data.ptr) {
				resume((Coroutine *)e.data.ptr);
				continue;
			}
			int fd = accept4(listener, 0, 0, SOCK_NONBLOCK);
			if (fd >= 0)
				resume(make([=] { serve(fd, lately); }));
		}
	};
	for (int i = 1; i < threads; i++)
		std::thread(loop).detach();
	loop();
}
