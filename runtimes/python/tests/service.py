"""A service with the shim: service.py KIND BACKEND_PORT [CERTIFICATE]. Prints its port. With TARE_VERDICTS in the environment, runtimes/kernel
stands for the kernel side, and kernel.py does not.

GET or POST /a/N: calls the backend for /b/N a few times, then answers "ok N". GET /report: what its calls were linked to."""

import asyncio
import http.client
import http.server
import json
import os
import queue
import socket
import socketserver
import ssl
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.path[:0] = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

os.environ["TARE_SHIM"] = "off"
import kernel  # noqa: E402
import tare_trace_shim  # noqa: E402

if "TARE_VERDICTS" not in os.environ:
    kernel.install()
if sys.argv[1] != "plain":
    del os.environ["TARE_SHIM"]
    tare_trace_shim._start()

KIND, BACKEND = sys.argv[1], int(sys.argv[2])
CERTIFICATE = sys.argv[3] if len(sys.argv) > 3 else None


def report():
    return json.dumps(kernel.sends)


# Threads: connections to the backend wait in a queue, so that another request's are used.
_pool = queue.LifoQueue()


def call(n):
    while True:
        try:
            c = _pool.get_nowait()
        except queue.Empty:
            if CERTIFICATE:
                c = http.client.HTTPSConnection("127.0.0.1", BACKEND, context=ssl._create_unverified_context())
            else:
                c = http.client.HTTPConnection("127.0.0.1", BACKEND)
        try:
            c.request("GET", f"/b/{n}")
            assert int(c.getresponse().read()) == n
            _pool.put(c)
            return
        except (http.client.HTTPException, OSError):
            c.close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    work = staticmethod(call)

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind, n = self.path.split("/")[1:3] if self.path.count("/") > 1 else ("report", "0")
        if kind == "a":
            self.work(int(n))
        text = (report() if kind != "a" else f"ok {n}").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


def serve_threads(work=call, announce=True):
    handler = type("H", (Handler,), {"work": staticmethod(work)})
    server = Server(("127.0.0.1", 0), handler)
    if CERTIFICATE:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    started(server.server_address[1])
    server.serve_forever()


def started(port):
    kernel.port = port
    print(port, flush=True)


def serve_pool():
    first, second = ThreadPoolExecutor(4), ThreadPoolExecutor(4)

    def work(n):
        call(n)
        first.submit(lambda: (call(n), time.sleep(0.001), second.submit(call, n).result())).result()

    serve_threads(work)


def serve_workers():
    """Requests are handed over by a queue that nobody patches."""
    jobs = queue.Queue()

    def worker():
        while True:
            n, done = jobs.get()
            call(n)
            done.set()

    started_workers = []

    def work(n):
        if len(started_workers) < 4:
            started_workers.append(threading.Thread(target=worker, daemon=True))
            started_workers[-1].start()
        done = threading.Event()
        jobs.put((n, done))
        done.wait()

    serve_threads(work)


def serve_fork():
    server = Server(("127.0.0.1", 0), Handler)
    call_before = threading.Thread(target=lambda: None)
    call_before.start()
    socket.create_connection(server.server_address).close()
    if os.fork():
        started(server.server_address[1])
        os.wait()
        return
    kernel.port = server.server_address[1]
    server.serve_forever()


# asyncio: 8 connections, and requests wait for one.
class Pool:
    def __init__(self):
        self.idle, self.free = [], None

    async def call(self, n):
        if self.free is None:
            self.free = asyncio.Semaphore(8)
        async with self.free:
            r, w = self.idle.pop() if self.idle else await asyncio.open_connection("127.0.0.1", BACKEND)
            w.write(b"GET /b/%d HTTP/1.1\r\nHost: x\r\n\r\n" % n)
            head = await r.readuntil(b"\r\n\r\n")
            size = next(int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length"))
            assert int(await r.readexactly(size)) == n
            self.idle.append((r, w))


pool = Pool()
tasks = set()


async def work_async(n):
    await pool.call(n)
    await asyncio.sleep(0.001)
    await asyncio.gather(pool.call(n), asyncio.create_task(pool.call(n)))
    await asyncio.get_running_loop().run_in_executor(None, call, n)
    if hasattr(asyncio, "to_thread"):
        await asyncio.to_thread(call, n)
    done = asyncio.get_running_loop().create_future()

    def later():
        task = asyncio.ensure_future(pool.call(n))
        tasks.add(task)  # nobody else holds it
        task.add_done_callback(lambda _: (tasks.discard(task), done.set_result(None)))

    asyncio.get_running_loop().call_later(0.001, later)
    await done


async def answer(path):
    kind, _, n = path.strip("/").partition("/")
    if kind == "a":
        await work_async(int(n))
    text = (report() if kind != "a" else f"ok {n}").encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text)


async def serve_streams():
    """A task serves a connection, and was there before the first byte."""

    handlers = set()  # before Python 3.11, nobody else holds them

    async def handle(r, w):
        handlers.add(asyncio.current_task())
        try:
            while True:
                head = (await r.readuntil(b"\r\n\r\n")).decode()
                size = [int(x.split(":")[1]) for x in head.split("\r\n") if x.lower().startswith("content-length")]
                if size:
                    await r.readexactly(size[0])
                w.write(await answer(head.split(" ")[1]))
        except (asyncio.IncompleteReadError, ConnectionError):
            w.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=128)
    started(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def serve_protocol():
    """Each request gets a task of its own, from within the read."""

    class P(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport, self.text = transport, b""

        def data_received(self, data):
            self.text += data
            head, end, body = self.text.partition(b"\r\n\r\n")
            size = [int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length")]
            if end and len(body) >= sum(size):
                self.text = b""
                self.task = asyncio.get_running_loop().create_task(self.serve(head.split(b" ")[1].decode()))

        async def serve(self, path):
            self.transport.write(await answer(path))

    server = await asyncio.get_running_loop().create_server(P, "127.0.0.1", 0, backlog=128)
    started(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def serve_select():
    """One thread, sockets that do not block, and no contexts: nobody knows whose a call is."""
    import selectors

    s = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    listener.setblocking(False)
    started(listener.getsockname()[1])
    idle, waiting = [], []

    def on_accept():
        c = listener.accept()[0]
        c.setblocking(False)
        s.register(c, selectors.EVENT_READ, lambda: on_request(c))

    def on_request(c):
        data = c.recv(65536)
        if not data:
            s.unregister(c)
            c.close()
            return
        path = data.split(b" ")[1].decode()
        if path in ("/report", "/verdicts"):
            text = report().encode()
            c.setblocking(True)
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))
            c.setblocking(False)
            return
        waiting.append((c, int(path.split("/")[2])))
        pump()

    count = [0]

    def pump():
        while waiting and (idle or count[0] < 4):
            if idle:
                b = idle.pop()
            else:
                count[0] += 1
                b = socket.create_connection(("127.0.0.1", BACKEND))
                b.setblocking(False)
                s.register(b, selectors.EVENT_READ)
            c, n = waiting.pop(0)
            s.modify(b, selectors.EVENT_READ, lambda: on_answer(b, c, n))
            b.send(b"GET /b/%d HTTP/1.1\r\nHost: x\r\n\r\n" % n)

    def on_answer(b, c, n):
        b.recv(65536)
        text = b"ok %d" % n
        c.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))
        idle.append(b)
        pump()

    s.register(listener, selectors.EVENT_READ, on_accept)
    while True:
        for key, _ in s.select():
            key.data()


def serve_uvicorn():
    import uvicorn
    from fastapi import FastAPI
    from fastapi.responses import PlainTextResponse

    app = FastAPI()

    @app.get("/report")
    def get_report():
        return PlainTextResponse(report())

    @app.get("/a/{n}")
    @app.post("/a/{n}")
    async def asynchronous(n: int):
        await work_async(n)
        return PlainTextResponse(f"ok {n}")

    @app.get("/s/a/{n}")
    def synchronous(n: int):
        call(n)
        return PlainTextResponse(f"ok {n}")

    sock = socket.create_server(("127.0.0.1", 0), backlog=128)
    started(sock.getsockname()[1])
    uvicorn.Server(uvicorn.Config(app, log_level="warning", loop=os.environ.get("LOOP", "asyncio"), http="h11")).run([sock])


def serve_fastapi_threads():
    global work_async

    async def work_async(n):
        import anyio

        await anyio.to_thread.run_sync(call, n)

    serve_uvicorn()


def serve_aiohttp():
    from aiohttp import web

    async def handle(request):
        await request.read()
        await work_async(int(request.match_info["n"]))
        return web.Response(text=f"ok {request.match_info['n']}")

    async def get_report(request):
        return web.Response(text=report())

    app = web.Application()
    app.router.add_route("*", "/a/{n}", handle)
    app.router.add_get("/report", get_report)
    sock = socket.create_server(("127.0.0.1", 0), backlog=128)
    started(sock.getsockname()[1])
    web.run_app(app, sock=sock, print=None)


if __name__ == "__main__":
    serve = {"plain": serve_threads, "threads": serve_threads, "tls": serve_threads, "fastapi-threads": serve_fastapi_threads}.get(KIND)
    serve = serve or globals()["serve_" + KIND]
    if asyncio.iscoroutinefunction(serve):
        asyncio.run(serve())
    else:
        serve()
