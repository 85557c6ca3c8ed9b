// What all services in C++ do for a request, on blocking sockets or in coroutines.
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

using std::string;

inline sockaddr_in address(const char *port)
{
	const char *host = getenv("HOST");
	sockaddr_in a{};
	a.sin_family = AF_INET;
	a.sin_port = htons(atoi(getenv(port)));
	inet_pton(AF_INET, host ? host : "127.0.0.1", &a.sin_addr);
	return a;
}

[[noreturn]] inline void die(const char *what)
{
	perror(what);
	exit(1);
}

inline int loop_fd = epoll_create1(0);

inline void watch(int op, int fd, unsigned events, void *who)
{
	epoll_event e{};
	e.events = events;
	e.data.ptr = who;
	if (epoll_ctl(loop_fd, op, fd, &e) && !(op == EPOLL_CTL_MOD && errno == ENOENT && !epoll_ctl(loop_fd, EPOLL_CTL_ADD, fd, &e)))
		die("epoll_ctl");
}

// Whether the caller is a coroutine, and how one waits until there is something: sockets do not block there.
inline bool running();
inline void await(int fd, unsigned events);

// errno is the thread's, and a coroutine may go on in another: who has waited must not know its address any more.
template <typename Call> __attribute__((noinline)) ssize_t called(Call call)
{
	ssize_t n = call();
	return n < 0 ? -errno : n;
}

inline void tune(int fd)
{
	int one = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

struct Connection {
	int fd;
	string rest; // received, and not consumed
	explicit Connection(int fd) : fd(fd) { tune(fd); }
	explicit Connection(const char *port) : fd(socket(AF_INET, SOCK_STREAM | (running() ? SOCK_NONBLOCK : 0), 0))
	{
		sockaddr_in a = address(port);
		ssize_t n = called([&] { return connect(fd, (sockaddr *)&a, sizeof a); });
		if (n == -EINPROGRESS)
			await(fd, EPOLLOUT);
		else if (n)
			die("connect");
		tune(fd);
	}
	~Connection() { close(fd); }
	bool more()
	{
		char b[4096];
		for (;;) {
			ssize_t n = called([&] { return read(fd, b, sizeof b); });
			if (n > 0)
				rest.append(b, n);
			if (n != -EAGAIN)
				return n > 0;
			await(fd, EPOLLIN);
		}
	}
	// What comes before the end, which is taken off as well; empty: closed.
	string until(const char *end)
	{
		size_t at;
		while ((at = rest.find(end)) == string::npos)
			if (!more())
				return "";
		string head = rest.substr(0, at);
		rest.erase(0, at + strlen(end));
		return head;
	}
	string bytes(size_t n)
	{
		while (rest.size() < n && more())
			;
		string all = rest.substr(0, n);
		rest.erase(0, n);
		return all;
	}
	void say(const string &text) // short: it fits into the socket's buffer
	{
		ssize_t n = called([&] { return send(fd, text.data(), text.size(), MSG_NOSIGNAL); });
		if (n != (ssize_t)text.size() && n != -EPIPE && n != -ECONNRESET)
			die("send");
	}
	// The number of the next request; empty: closed.
	string number()
	{
		string line = until("\r\n\r\n");
		size_t at = line.find("/n/");
		return at == string::npos ? "" : line.substr(at + 3, strspn(line.c_str() + at + 3, "0123456789"));
	}
};

struct Peers {
	Connection backend{"BACKEND"}, redis{"REDIS"};
	string ask(const string &n)
	{
		backend.say("GET /n/" + n + " HTTP/1.1\r\nHost: backend\r\n\r\n");
		string head = backend.until("\r\n\r\n");
		string told = backend.bytes(atoi(head.c_str() + head.find("Content-Length: ") + 16));
		redis.say("*2\r\n$3\r\nGET\r\n$" + std::to_string(n.size() + 2) + "\r\nn:" + n + "\r\n");
		int size = atoi(redis.until("\r\n").c_str() + 1);
		string text = told + " " + (size < 0 ? "" : redis.bytes(size + 2).substr(0, size));
		return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
	}
};

inline int listening()
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	sockaddr_in a = address("PORT");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (sockaddr *)&a, sizeof a) || listen(listener, 4096))
		die("listen");
	return listener;
}
