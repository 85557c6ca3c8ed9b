// As service.cpp's coroutines, by Boost.Context; the argument says where stacks are:
//   fixedsize  of malloc
//   pooled     of a pool, side by side
//   protected  each a mapping with a guard page below it, which is unmapped at its end
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include "coroutines.hpp"

namespace context = boost::context;

struct Fiber : Coroutine {
	context::fiber self, caller;
	template <typename Stacks> Fiber(Stacks stacks, std::function<void()> what)
	{
		work = what;
		self = context::fiber(std::allocator_arg, stacks, [this](context::fiber &&from) {
			caller = std::move(from);
			work();
			done = true;
			return std::move(caller);
		});
	}
	void resume() override { self = std::move(self).resume(); }
	void suspend() override { caller = std::move(caller).resume(); }
};

template <typename Stacks> static Make on(Stacks stacks)
{
	return [=](std::function<void()> work) { return new Fiber(stacks, work); };
}

int main(int, char **argv)
{
	const string kind = argv[1];
	const size_t size = 64 << 10;
	make = kind == "fixedsize" ? on(context::fixedsize_stack(size))
	     : kind == "pooled"	   ? on(context::pooled_fixedsize_stack(size))
				   : on(context::protected_fixedsize_stack(size));
	run(1, false);
}
