"""GET /n/5 asks the backend and redis about number 5, over connections that are
kept for the next request. GET /chunks/5 does so when its answer has begun."""

import asyncio
import os

idle = {"BACKEND": [], "REDIS": []}


async def ask(name, text, read):
    if idle[name]:
        reader, writer = idle[name].pop()
    else:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ[name]))
    writer.write(text)
    await writer.drain()
    await read(reader)
    idle[name].append((reader, writer))


async def response(reader):
    size = 0
    while (line := await reader.readline()) != b"\r\n":
        if line.lower().startswith(b"content-length:"):
            size = int(line.split(b":")[1])
    await reader.readexactly(size)


async def application(scope, receive, send):
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    way, _, n = scope["path"].rpartition("/")
    n = n.encode()
    if way == "/chunks":  # a streamed answer, which has begun when it asks
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"hello, ", "more_body": True})
    await ask("BACKEND", b"GET /n/%b HTTP/1.1\r\nHost: backend\r\n\r\n" % n, response)
    await ask("REDIS", b"*2\r\n$3\r\nGET\r\n$%d\r\nn:%b\r\n" % (len(n) + 2, n), lambda reader: reader.readline())
    if way != "/chunks":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]})
    await send({"type": "http.response.body", "body": b"hello\n"})
