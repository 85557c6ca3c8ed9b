"""asyncio: connections, and what is started for one of their requests.

A connection's bytes are read in a context of the connection. Servers that start a task for each request (uvicorn)
copy it when it has the request's token. In others a task serves the connection, and was started before the first byte
came (aiohttp, asyncio's streams): it shares a cell with the reads. uvloop has sockets of its own and is not patched."""

from . import sockets, work


def patch_events(module):
    sockets.running = module._get_running_loop


def patch_accept(module):
    cls = module.BaseSelectorEventLoop
    accept = cls._accept_connection2

    async def _accept_connection2(self, *args, **kw):
        work.put([0])  # this runs in a task of its own
        return await accept(self, *args, **kw)

    cls._accept_connection2 = _accept_connection2


def patch_tasks(module):
    cls = module.BaseEventLoop
    cls.create_task = work.settled(cls.create_task)
    cls.call_at = work.settled(cls.call_at)


def patch_threads(module):
    to_thread = module.to_thread

    async def settled(*args, **kw):
        t = work.get()
        if t.__class__ is not list:
            return await to_thread(*args, **kw)
        before = work.put(t[0])  # while this task waits, and it alone
        try:
            return await to_thread(*args, **kw)
        finally:
            work.reset(before)

    module.to_thread = settled
    import sys

    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and getattr(asyncio, "to_thread", None) is to_thread:
        asyncio.to_thread = settled
