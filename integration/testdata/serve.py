"""Small servers for HTTP/1.1 that differ in who works for a request:
serve.py MODE PORT, and the ports of what it asks in BACKEND, REDIS, MEMCACHED,
POSTGRES and MARIADB. GET /n/5 asks each of them about number 5, so that every
message tells its request.
"""

import os
import queue
import select
import socket
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

HOST = "127.0.0.1"


def connect(name):
    sock = socket.create_connection((HOST, int(os.environ[name])))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Peer:
    """A kept connection: one question, one answer."""

    def __init__(self, name):
        self.sock = connect(name)
        self.file = self.sock.makefile("rb")

    def line(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("closed")
        return line


class Backend(Peer):
    def ask(self, n):
        self.sock.sendall(b"GET /n/%d HTTP/1.1\r\nHost: backend\r\n\r\n" % n)
        size = 0
        while (line := self.line()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        self.file.read(size)


class Redis(Peer):
    def ask(self, n):
        key = b"n:%d" % n
        self.sock.sendall(b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key))
        self.line()  # $-1


class Memcached(Peer):
    def ask(self, n):
        self.sock.sendall(b"get n:%d\r\n" % n)
        self.line()  # END


class Postgres:
    def __init__(self, _):
        import psycopg2
        self.db = psycopg2.connect(host=HOST, port=os.environ["POSTGRES"], user="postgres", dbname="postgres", sslmode="disable", gssencmode="disable")
        self.db.autocommit = True
        self.cursor = self.db.cursor()

    def ask(self, n):
        self.cursor.execute(query(n))
        self.cursor.fetchall()


class MariaDB:
    def __init__(self, _):
        import pymysql
        self.db = pymysql.connect(host=HOST, port=int(os.environ["MARIADB"]), user="root", autocommit=True)
        self.cursor = self.db.cursor()

    def ask(self, n):
        self.cursor.execute(query(n))
        self.cursor.fetchall()


def query(n):
    """A name tells the number, and the length, for who sees lengths only."""
    return "SELECT 1 AS n%05d, '%s'" % (n, "x" * n)


KINDS = {"BACKEND": Backend, "REDIS": Redis, "MEMCACHED": Memcached, "POSTGRES": Postgres, "MARIADB": MariaDB}


def peers():
    return [kind(name) for name, kind in KINDS.items() if name in os.environ]


class Request:
    """Reads requests of one connection, bodies included."""

    def __init__(self, sock):
        self.sock, self.rest, self.last = sock, b"", False

    def next(self):
        """The number that is asked for, or None at the end."""
        if self.last:
            return None
        while b"\r\n\r\n" not in self.rest:
            if not self.more():
                return None
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        size = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
            self.last |= line.lower() == b"connection: close"
        while len(self.rest) < size:
            if not self.more():
                return None
        self.rest = self.rest[size:]
        return int(head.split()[1].rpartition(b"/")[2])

    def more(self):
        try:
            got = self.sock.recv(65536)
        except ConnectionError:
            got = b""
        self.rest += got
        return bool(got)


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"


def answer(sock):
    try:
        sock.sendall(ANSWER)
    except ConnectionError:
        pass  # it went away


def each_connection(listener, handle):
    """A thread for each connection."""

    def run(sock):
        with sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            handle(sock)

    while True:
        sock, _ = listener.accept()
        threading.Thread(target=run, args=(sock,), daemon=True).start()


def serve(sock):
    """All of a connection's work."""
    asked, request = peers(), Request(sock)
    while (n := request.next()) is not None:
        for p in asked:
            p.ask(n)
        answer(sock)


def threads(listener):
    """Each thread does all of its connection's work."""
    each_connection(listener, serve)


def forks(listener):
    """A process for each connection, forked by a thread that is not the main one: it goes on on
    that thread's stack."""

    def accept():
        while True:
            sock, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                serve(sock)
                os._exit(0)
            sock.close()
            while True:
                try:
                    if os.waitpid(-1, os.WNOHANG) == (0, 0):
                        break
                except ChildProcessError:
                    break

    thread = threading.Thread(target=accept)
    thread.start()
    thread.join()


def handover(listener):
    """A thread receives, another of a pool asks and answers."""
    local = threading.local()
    pool = ThreadPoolExecutor(8)

    def work(sock, n):
        if not hasattr(local, "peers"):
            local.peers = peers()
        for p in local.peers:
            p.ask(n)
        answer(sock)

    def handle(sock):
        request = Request(sock)
        while (n := request.next()) is not None:
            pool.submit(work, sock, n).result()

    each_connection(listener, handle)


def asking_pool(listener):
    """The thread receives and answers; what it asks is asked by a long-lived pool."""
    todo = queue.SimpleQueue()

    def work():
        asked = peers()
        while True:
            n, done = todo.get()
            for p in asked:
                p.ask(n)
            done.set()

    for _ in range(8):
        threading.Thread(target=work, daemon=True).start()

    def handle(sock):
        request = Request(sock)
        while (n := request.next()) is not None:
            done = threading.Event()
            todo.put((n, done))
            done.wait()
            answer(sock)

    each_connection(listener, handle)


def children(listener):
    """For each request, a thread of its own for each that is asked."""

    def ask(p, n):
        p.ask(n)

    def handle(sock):
        asked, request = peers(), Request(sock)
        while (n := request.next()) is not None:
            started = [threading.Thread(target=ask, args=(p, n)) for p in asked]
            for s in started:
                s.start()
            for s in started:
                s.join()
            answer(sock)

    each_connection(listener, handle)


def waking(listener):
    """Each thread wakes itself before it asks, through a pair of connected sockets
    with loopback between them, as the event loop inside of pika does."""

    def pair():
        with socket.create_server((HOST, 0)) as one:
            writer = socket.create_connection(one.getsockname())
            reader, _ = one.accept()
        return reader, writer

    def handle(sock):
        asked, request, (reader, writer) = peers(), Request(sock), pair()
        while (n := request.next()) is not None:
            writer.sendall(b"X")
            reader.recv(16)
            for p in asked:
                p.ask(n)
            answer(sock)

    each_connection(listener, handle)


def loop(listener):
    """One thread for all connections, which it waits for with select and which all
    block: first it receives what there is, then it asks and answers."""
    asked, connections = peers(), {}
    while True:
        ready, _, _ = select.select([listener, *connections], [], [])
        todo = []
        for sock in ready:
            if sock is listener:
                accepted, _ = listener.accept()
                connections[accepted] = Request(accepted)
                continue
            n = connections[sock].next()
            if n is None:
                del connections[sock]
                sock.close()
            else:
                todo.append((sock, n))
        for sock, n in todo:
            for p in asked:
                p.ask(n)
            answer(sock)


def short(listener):
    """Answers with as many bytes as SIZE says."""
    size = int(os.environ["SIZE"])
    text = b"HTTP/1.1 204 \r\n\r\n"
    text = b"HTTP/1.1 204 %b\r\n\r\n" % (b"x" * (size - len(text)))

    def handle(sock):
        request = Request(sock)
        while request.next() is not None:
            sock.sendall(text)

    each_connection(listener, handle)


def resetting(listener):
    """Resets every connection when its fifth request comes, which it does not read."""

    def handle(sock):
        request = Request(sock)
        for _ in range(4):
            if request.next() is None:
                return
            answer(sock)
        select.select([sock], [], [])
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    each_connection(listener, handle)


MODES = (threads, forks, handover, asking_pool, children, waking, loop, short, resetting)


def main():
    mode, port = sys.argv[1:]
    listener = socket.create_server((HOST, int(port)), backlog=8192)
    {m.__name__: m for m in MODES}[mode](listener)


main()
