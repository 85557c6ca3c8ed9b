"""asyncio without a framework above it: aio.py aiohttp or aio.py streams."""

import asyncio
import sys

import aiohttp
import redis.asyncio
from aiohttp import web

from peers import BACKEND, HOST, PORT, REDIS


async def main():
    store = redis.asyncio.Redis(**REDIS)
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1024))

    async def ask(n):
        async with session.get(BACKEND + n) as response:
            told = await response.text()
        return "%s %s" % (told, await store.get("n:" + n) or "")

    async def handle(request):
        return web.Response(text=await ask(request.match_info["n"]))

    async def serve(reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                text = await ask(head.split(b" ", 2)[1].rpartition(b"/")[2].decode())
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text.encode()))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    if sys.argv[1] == "streams":
        await asyncio.start_server(serve, HOST, PORT, backlog=4096)
    else:
        app = web.Application()
        app.router.add_get("/n/{n}", handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, HOST, PORT, backlog=4096).start()
    await asyncio.Event().wait()


asyncio.run(main())
