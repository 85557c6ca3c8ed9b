"""Shows Tare's kernel side which request a write to a socket belongs to. To import it is to start it.

contextvars carry a token from the read that brought a request to the writes that it causes; a mapped table shows the
token while a socket is written (runtimes/PROTOCOL.md). What goes wrong here never reaches the application: then
nothing is linked."""

import os
import sys


def _start():
    if sys.platform != "linux" or os.environ.get("TARE_SHIM") == "off":
        return
    try:
        from . import imports, loops, pools, sockets

        # Only what the application imports is patched: a program without sockets pays nothing.
        imports.after("socket", sockets.patch)
        imports.after("ssl", sockets.patch_tls)
        imports.after("asyncio.events", loops.patch_events)
        imports.after("asyncio.base_events", loops.patch_tasks)
        imports.after("asyncio.selector_events", loops.patch_accept)
        imports.after("asyncio.threads", loops.patch_threads)
        imports.after("concurrent.futures.thread", pools.patch)
        if getattr(sys.flags, "thread_inherit_context", 0):
            imports.after("threading", pools.patch_threads)
    except Exception:
        pass


_start()
