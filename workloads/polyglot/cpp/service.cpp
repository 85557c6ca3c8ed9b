// GET /n/5 asks the backend and redis about number 5. The mode says who works for a request:
//   threads     each thread of a pool takes a connection, and does all of its work
//   pool        one thread waits for all connections and receives; threads of a pool ask and answer
//   coroutines  one thread, and for each connection a coroutine with a stack of its own (ucontext)
// Every worker keeps its own connections to whom it asks.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <queue>
#include <string>
#include <thread>

using std::string;

static sockaddr_in address(const char *port)
{
	const char *host = getenv("HOST");
	sockaddr_in a{};
	a.sin_family = AF_INET;
	a.sin_port = htons(atoi(getenv(port)));
	inet_pton(AF_INET, host ? host : "127.0.0.1", &a.sin_addr);
	return a;
}

[[noreturn]] static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int loop_fd = epoll_create1(0);

static void watch(int op, int fd, unsigned events, void *who)
{
	epoll_event e{};
	e.events = events;
	e.data.ptr = who;
	if (epoll_ctl(loop_fd, op, fd, &e) && !(op == EPOLL_CTL_MOD && errno == ENOENT && !epoll_ctl(loop_fd, EPOLL_CTL_ADD, fd, &e)))
		die("epoll_ctl");
}

struct Coroutine {
	ucontext_t self, caller;
	char *stack;
	std::function<void()> work;
	bool done = false;
};

static thread_local Coroutine *running;

// In a coroutine, sockets do not block: it goes on when there is something.
static void await(int fd, unsigned events)
{
	watch(EPOLL_CTL_MOD, fd, events | EPOLLONESHOT, running);
	swapcontext(&running->self, &running->caller);
}

static void tune(int fd)
{
	int one = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

struct Connection {
	int fd;
	string rest; // received, and not consumed
	explicit Connection(int fd) : fd(fd) { tune(fd); }
	explicit Connection(const char *port) : fd(socket(AF_INET, SOCK_STREAM | (running ? SOCK_NONBLOCK : 0), 0))
	{
		sockaddr_in a = address(port);
		if (connect(fd, (sockaddr *)&a, sizeof a)) {
			if (errno != EINPROGRESS)
				die("connect");
			await(fd, EPOLLOUT);
		}
		tune(fd);
	}
	~Connection() { close(fd); }
	bool more()
	{
		char b[4096];
		for (;;) {
			ssize_t n = read(fd, b, sizeof b);
			if (n > 0)
				rest.append(b, n);
			if (n >= 0 || errno != EAGAIN)
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
		if (write(fd, text.data(), text.size()) != (ssize_t)text.size() && errno != EPIPE && errno != ECONNRESET)
			die("write");
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

static void serve(int fd)
{
	Connection client(fd);
	Peers peers;
	for (string n; !(n = client.number()).empty();)
		client.say(peers.ask(n));
}

static void threads(int listener)
{
	for (int i = 0; i < 512; i++)
		std::thread([=] {
			for (;;)
				serve(accept(listener, 0, 0));
		}).detach();
	pause();
}

static void pool(int listener)
{
	static std::mutex lock;
	static std::condition_variable some;
	static std::queue<std::pair<Connection *, string>> todo;
	for (int i = 0; i < 32; i++)
		std::thread([] {
			Peers peers;
			for (;;) {
				std::unique_lock<std::mutex> held(lock);
				some.wait(held, [] { return !todo.empty(); });
				auto [client, n] = todo.front();
				todo.pop();
				held.unlock();
				client->say(peers.ask(n));
				watch(EPOLL_CTL_MOD, client->fd, EPOLLIN | EPOLLONESHOT, client);
			}
		}).detach();
	watch(EPOLL_CTL_ADD, listener, EPOLLIN, nullptr);
	for (epoll_event e; epoll_wait(loop_fd, &e, 1, -1) >= 0;) {
		auto client = (Connection *)e.data.ptr;
		if (!client) {
			client = new Connection(accept(listener, 0, 0));
			watch(EPOLL_CTL_ADD, client->fd, EPOLLIN | EPOLLONESHOT, client);
			continue;
		}
		string n = client->number();
		if (n.empty()) {
			delete client;
			continue;
		}
		std::lock_guard<std::mutex> held(lock);
		todo.emplace(client, n);
		some.notify_one();
	}
}

static void resume(Coroutine *c)
{
	running = c;
	swapcontext(&c->caller, &c->self);
	running = nullptr;
	if (c->done) {
		free(c->stack);
		delete c;
	}
}

static void begin()
{
	running->work();
	running->done = true;
	swapcontext(&running->self, &running->caller);
}

static Coroutine *serving(int fd)
{
	const size_t size = 64 << 10;
	auto c = new Coroutine;
	c->stack = (char *)malloc(size);
	c->work = [fd] { serve(fd); };
	getcontext(&c->self);
	c->self.uc_stack.ss_sp = c->stack;
	c->self.uc_stack.ss_size = size;
	makecontext(&c->self, begin, 0);
	return c;
}

static void coroutines(int listener)
{
	watch(EPOLL_CTL_ADD, listener, EPOLLIN, nullptr);
	for (epoll_event e; epoll_wait(loop_fd, &e, 1, -1) >= 0;)
		resume(e.data.ptr ? (Coroutine *)e.data.ptr : serving(accept4(listener, 0, 0, SOCK_NONBLOCK)));
}

int main(int, char **argv)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	sockaddr_in a = address("PORT");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (sockaddr *)&a, sizeof a) || listen(listener, 4096))
		die("listen");
	string mode = argv[1];
	(mode == "threads" ? threads : mode == "pool" ? pool : coroutines)(listener);
}
