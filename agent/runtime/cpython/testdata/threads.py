"""Threads that wait in a read, below the root coroutine of an asyncio task; each prints ids that the test finds again."""
import asyncio, os, sys, threading


class Thing:
    pass


class Fields:
    __slots__ = ("a", "b")


def leaf(thing, task, *attributes):
    with lock:
        print(threading.get_native_id(), id(thing), id(task), id(fields), *map(id, attributes), flush=True)
    barrier.wait()
    os.read(0, 1)


async def root(self):
    self.a, self.b, self.c = object(), object(), object()
    del self.b
    leaf(self, asyncio.current_task(), self.a, self.c)


fields = Fields()
lock, barrier = threading.Lock(), threading.Barrier(4)
for _ in range(5):  # so that its class knows its attributes
    Thing().a = Thing().b = 1
for _ in range(3):
    threading.Thread(target=lambda: asyncio.run(root(Thing())), daemon=True).start()
barrier.wait()
if "interpreter" in sys.argv:
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    other = interpreters.create()
print("ready", flush=True)
os.read(0, 1)
