// GET /n/5 asks the backend and redis about number 5. The mode says who works for a request:
//   threads     each thread of a pool takes a connection, and does all of its work
//   pool        one thread waits for all connections and receives; threads of a pool ask and answer
//   coroutines  for each connection a coroutine with a stack of its own (ucontext). Words behind it say more:
//     malloc    stacks are of malloc
//     side      stacks are side by side in one mapping
//     mapped    each stack is a mapping with a guard page below it, used again
//     merged    the same, but the first one's mapping has 12 KiB above the stack, too
//     threads   four threads run the coroutines
//     late      something is asked after each answer, too
//   loop        one event loop on such a stack, which is mapped; it asks about a request when it has received the next
// Every worker keeps its own connections to whom it asks.
#include <poll.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <queue>
#include <utility>
#include <vector>

#include "coroutines.hpp"

static void threads(int listener)
{
	for (int i = 0; i < 512; i++)
		std::thread([=] {
			for (;;)
				serve(accept(listener, 0, 0), false);
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

static const size_t stack_size = 64 << 10, page = 4 << 10;
static char *(*new_stack)();
static std::mutex stacks_lock;
static std::vector<char *> stacks; // that nobody uses

static char *map(size_t size)
{
	auto stack = (char *)mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return stack == MAP_FAILED ? (die("mmap"), nullptr) : stack;
}

static char *of_malloc() { return (char *)malloc(stack_size); }

static char *guarded(size_t size)
{
	char *guard = map(page + size);
	mprotect(guard, page, PROT_NONE);
	return guard + page;
}

static char *mapped() { return guarded(stack_size); }

static char *merged()
{
	static size_t above = 3 * page;
	return guarded(stack_size + std::exchange(above, 0));
}

static char *side()
{
	static char *next = map(1024 * stack_size);
	return std::exchange(next, next + stack_size);
}

struct Ucontext : Coroutine {
	ucontext_t self, caller;
	char *stack;
	static void begin()
	{
		auto c = (Ucontext *)current();
		c->work();
		c->done = true;
		c->suspend();
	}
	explicit Ucontext(std::function<void()> what)
	{
		work = what;
		std::lock_guard<std::mutex> held(stacks_lock);
		stack = stacks.empty() ? new_stack() : stacks.back();
		if (!stacks.empty())
			stacks.pop_back();
		getcontext(&self);
		self.uc_stack.ss_sp = stack;
		self.uc_stack.ss_size = stack_size;
		makecontext(&self, begin, 0);
	}
	~Ucontext()
	{
		std::lock_guard<std::mutex> held(stacks_lock);
		stacks.push_back(stack);
	}
	void resume() override { swapcontext(&caller, &self); }
	void suspend() override { swapcontext(&self, &caller); }
};

static void loop()
{
	const int listener = listening();
	std::map<int, Connection *> clients;
	Connection *backend = nullptr;
	string before;
	for (;;) {
		std::vector<pollfd> polled{{listener, POLLIN, 0}};
		for (auto &client : clients)
			polled.push_back({client.first, POLLIN, 0});
		poll(polled.data(), polled.size(), -1);
		for (auto &p : polled) {
			if (!p.revents)
				continue;
			int fd = p.fd == listener ? accept(listener, 0, 0) : p.fd;
			Connection *&client = clients[fd];
			if (p.fd == listener) {
				client = new Connection(fd);
				continue;
			}
			string n = client->number();
			if (n.empty()) {
				delete client;
				clients.erase(fd);
				continue;
			}
			if (!backend)
				backend = new Connection("BACKEND");
			for (int i = 0; i < 2 && !before.empty(); i++)
				ask_late(*backend, before);
			before = n;
			client->say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
		}
	}
}

// It is in no coroutine that it could wait in.
static void looping()
{
	static ucontext_t self, caller;
	getcontext(&self);
	mapped(); // whose guard is above
	self.uc_stack.ss_sp = mapped();
	self.uc_stack.ss_size = stack_size;
	makecontext(&self, loop, 0);
	swapcontext(&caller, &self);
}

int main(int argc, char **argv)
{
	const string mode = argv[1];
	auto says = [=](const char *word) { return std::find(argv + 2, argv + argc, string(word)) != argv + argc; };
	if (mode == "loop")
		looping();
	if (mode != "coroutines")
		(mode == "threads" ? threads : pool)(listening());
	new_stack = says("mapped") ? mapped : says("merged") ? merged : says("side") ? side : of_malloc;
	make = [](std::function<void()> work) { return new Ucontext(work); };
	run(says("threads") ? 4 : 1, says("late"));
}
