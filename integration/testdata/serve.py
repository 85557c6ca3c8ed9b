"""Small servers for HTTP/1.1 that differ in who works for a request:
serve.py MODE PORT, and the ports of what it asks in BACKEND, REDIS, MEMCACHED,
POSTGRES and MARIADB. GET /n/5 asks each of them about number 5, so that every
message tells its request. With MPTCP=1, it listens and connects over MPTCP.
"""

import errno
import itertools
import os
import queue
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

HOST = "127.0.0.1"
UNIX = os.environ.get("UNIX")  # the directory of databases that are asked over unix sockets
PROTOCOL = socket.IPPROTO_MPTCP if "MPTCP" in os.environ else 0


def connect(name):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, PROTOCOL)
    sock.connect((HOST, int(os.environ[name])))
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
    def ask(self, n, forwarded=b""):
        self.sock.sendall(b"GET /n/%d HTTP/1.1\r\nHost: backend\r\n%b\r\n" % (n, forwarded))
        size = 0
        while (line := self.line()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        self.file.read(size)


class Redis(Peer):
    def ask(self, n, _=b""):
        key = b"n:%d" % n
        self.sock.sendall(b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key))
        self.line()  # $-1


class Memcached(Peer):
    def ask(self, n, _=b""):
        self.sock.sendall(b"get n:%d\r\n" % n)
        self.line()  # END


class Postgres:
    def __init__(self, _):
        import psycopg2
        self.db = psycopg2.connect(host=UNIX + "/postgres" if UNIX else HOST, port=os.environ["POSTGRES"], user="postgres", dbname="postgres", sslmode="disable", gssencmode="disable")
        self.db.autocommit = True
        self.cursor = self.db.cursor()

    def ask(self, n, _=b""):
        self.cursor.execute(query(n))
        self.cursor.fetchall()


class MariaDB:
    def __init__(self, _):
        import pymysql
        where = {"unix_socket": UNIX + "/mariadb/socket"} if UNIX else {"host": HOST, "port": int(os.environ["MARIADB"])}
        self.db = pymysql.connect(user="root", autocommit=True, **where)
        self.cursor = self.db.cursor()

    def ask(self, n, _=b""):
        self.cursor.execute(query(n))
        self.cursor.fetchall()


def query(n):
    """A name tells the number, and the length, for who sees lengths only."""
    return "SELECT 1 AS n%05d, '%s'" % (n, "x" * n)


class Names:
    """Looks up a name that nobody has asked for before."""

    def __init__(self, _):
        pass

    def ask(self, n, _=b""):
        socket.getaddrinfo("n%d.example.test" % n, 80)


KINDS = {"NAMES": Names, "BACKEND": Backend, "REDIS": Redis, "MEMCACHED": Memcached, "POSTGRES": Postgres, "MARIADB": MariaDB}


def peers():
    return [kind(name) for name, kind in KINDS.items() if name in os.environ]


FORWARDED = (b"x-request-id", b"x-tenant-id")


class Request:
    """Reads requests of one connection, bodies included."""

    def __init__(self, sock):
        self.sock, self.rest, self.last, self.forwarded, self.way = sock, b"", False, b"", b""

    def next(self):
        """The number that is asked for, or None at the end."""
        if self.last:
            return None
        while b"\r\n\r\n" not in self.rest:
            if not self.more():
                return None
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        size, self.forwarded = 0, b""
        for line in head.split(b"\r\n"):
            name = line.lower().split(b":")[0]
            if name == b"content-length":
                size = int(line.split(b":")[1])
            if name in FORWARDED:
                self.forwarded += line + b"\r\n"
            self.last |= line.lower() == b"connection: close"
        while len(self.rest) < size:
            if not self.more():
                return None
        self.rest = self.rest[size:]
        self.way, _, number = head.split()[1].rpartition(b"/")
        return int(number)

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


def unmapping(listener):
    """As threads, but what is received cannot be read for moments, as while its page moves: another thread
    keeps taking the right to it away and giving it back. What it says does not matter."""
    import ctypes
    import mmap

    libc, pages = ctypes.CDLL(None, use_errno=True), []

    def protect():
        while True:
            for page in list(pages):
                libc.mprotect(page, mmap.PAGESIZE, 0)
                libc.mprotect(page, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)
            if not pages:
                time.sleep(0.01)

    def handle(sock):
        memory = mmap.mmap(-1, mmap.PAGESIZE)
        page = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
        pages.append(page)
        while True:
            try:
                if not sock.recv_into(memory):
                    break
            except OSError as e:
                if e.errno != errno.EFAULT:  # nothing was received then
                    raise
                continue
            answer(sock)
        pages.remove(page)

    threading.Thread(target=protect, daemon=True).start()
    each_connection(listener, handle)


def generators(listener):
    """As threads, but all is asked from within generators: of a contextmanager, of a loop, by
    yield from, and of an expression."""

    @contextmanager
    def within(p, n):
        p.ask(n)
        yield

    def each(asked, n):
        for p in asked:
            yield p.ask(n)

    def through(asked, n):
        yield from each(asked, n)

    def handle(sock):
        asked, request = peers(), Request(sock)
        while (n := request.next()) is not None:
            with within(asked[0], n):
                for _ in through(asked[1:2], n):
                    pass
            all([p.ask(n) is None for p in asked[2:3]])
            list(p.ask(n) for p in asked[3:])
            answer(sock)

    each_connection(listener, handle)


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


EARLY = {  # what an answer announces, its parts and what ends it
    b"/length": (b"Content-Length: 18\r\n", b"hello, ", b"hello\r\n\r\n!\n"),
    b"/chunks": (b"Transfer-Encoding: chunked\r\nKeep-Alive: timeout=10\r\n", chunk(b"hello, "), chunk(b"hello!\n") + b"0\r\n\r\n"),
    b"/lines": (b"transfer-encoding: chunked\r\n", chunk(b"data: hello\r\n\r\n"), b"0\r\n\r\n"),
    b"/trailers": (b"Transfer-Encoding: chunked\r\nTrailer: Sum\r\n", chunk(b"hello\n"), b"0\r\nSum: 5\r\n\r\n"),
    b"/until": (b"Connection: close\r\n", b"hello, ", b"hello!\n"),
    b"/head": (b"Content-Length: 100\r\n", b"", b""),
}
LATER = 1 << 24


def early(listener):
    """As threads, but each asks between the head of an answer and its end, and about another number when
    that is sent. After the head of an answer to HEAD, which is all of it, it asks about that number alone."""

    def handle(sock):
        asked, request = peers(), Request(sock)
        while (n := request.next()) is not None:
            framing, part, end = EARLY[request.way]
            sock.sendall(b"HTTP/1.1 200 OK\r\n%b\r\n" % framing)
            if part:
                asked[0].ask(n)
                sock.sendall(part)
                for p in asked[1:]:
                    p.ask(n)
                sock.sendall(end)
            if request.way == b"/until":
                return
            for p in asked:
                p.ask(n + LATER)

    each_connection(listener, handle)


def forked(n):
    if (child := os.fork()) == 0:
        Backend("BACKEND").ask(n)
        os._exit(0)
    os.waitpid(child, 0)


def shell(n):
    """A program that is not this one, and that asks itself."""
    request = f"GET /n/{n} HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n"
    return ["bash", "-c", f"exec 3<>/dev/tcp/{HOST}/{os.environ['BACKEND']}; printf '{request}' >&3; read -r <&3"]


HELPERS = {
    b"/fork": forked,
    b"/program": lambda n: subprocess.run([sys.executable, __file__, "ask", str(n)], check=True),
    b"/shell": lambda n: subprocess.run(shell(n), check=True),
    b"/shells": lambda n: subprocess.run(["sh", "-c", 'bash -c "$1"; :', "sh", shell(n)[2]], check=True),
    b"/later": lambda n: subprocess.Popen(["bash", "-c", "sleep 0.5; " + shell(n + LATER)[2]]),
}


def helpers(listener):
    """A thread for each connection, which has another process ask."""

    def handle(sock):
        request = Request(sock)
        while (n := request.next()) is not None:
            HELPERS[request.way](n)
            answer(sock)

    each_connection(listener, handle)


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


def received(ready, listener, connections):
    """What has come: each request's socket, its number (None: the connection's end) and what is
    to be forwarded of it. New connections are accepted."""
    for sock in ready:
        if sock is listener:
            accepted, _ = listener.accept()
            connections[accepted] = Request(accepted)
            continue
        request = connections[sock]
        n = request.next()
        if n is None:
            del connections[sock]
            sock.close()
        yield sock, n, request.forwarded


def loop(listener):
    """One thread for all connections, which it waits for with select and which all
    block: first it receives what there is, then it asks, with the headers that it
    forwards, and answers."""
    asked, connections = peers(), {}
    while True:
        ready, _, _ = select.select([listener, *connections], [], [])
        for sock, n, forwarded in [r for r in received(ready, listener, connections) if r[1] is not None]:
            for p in asked:
                p.ask(n, forwarded)
            answer(sock)


def loop_of(sleep):
    """One thread for all connections, which it waits for with select: it sleeps between the
    receipt of a request and what it asks for it."""

    def run(listener):
        asked, connections = peers(), {}
        while True:
            ready, _, _ = select.select([listener, *connections], [], [])
            for sock, n, _ in received(ready, listener, connections):
                if n is not None:
                    sleep()
                    for p in asked:
                        p.ask(n)
                    answer(sock)
                    time.sleep(0.0005)  # the last sleep before a receipt is as one for events, however many have come

    return run


def spawn():
    """A program that shares the caller's memory until it runs: nothing else ends that sleep."""
    os.posix_spawn("/bin/true", ["true"], {})


def spawning(listener):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the programs
    loop_of(spawn)(listener)


def pausing(listener):
    loop_of(lambda: time.sleep(0.001))(listener)


def late(listener):
    """One thread for all connections, which it waits for with select and which all block: it
    answers after some milliseconds, and asks after some more, when it has the next request."""
    asked, connections, answers, asks = peers(), {}, {}, []
    while True:
        pause = 0.001 if answers or asks else None
        ready, _, _ = select.select([listener, *connections], [], [], pause)
        now = time.monotonic()
        for sock, n, _ in received(ready, listener, connections):
            if n is None:
                answers.pop(sock, None)
            else:
                answers[sock] = now + 0.003, n
        for sock, (due, n) in list(answers.items()):
            if due <= now:
                del answers[sock]
                answer(sock)
                asks.append((now + 0.002, n))
        for due, n in [a for a in asks if a[0] <= now]:
            asks.remove((due, n))
            for p in asked:
                p.ask(n)


def forwarding_twice(listener):
    """As loop, and once more as forwarding_late."""
    forwarding_late(listener, True)


def forwarding_late(listener, twice=False):
    """As loop, but it asks when it has answered, and received the next requests."""
    asked, connections, asks = peers(), {}, []
    while True:
        ready, _, _ = select.select([listener, *connections], [], [], 0.002 if asks else None)
        late, asks = asks, []
        for sock, n, forwarded in received(ready, listener, connections):
            if n is None:
                continue
            for p in asked:
                for due in late:
                    p.ask(*due)
                if twice:
                    p.ask(n, forwarded)
            late = []
            answer(sock)
            asks.append((n, forwarded))
        for p in asked:
            for due in late:
                p.ask(*due)


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


def jobs(listener):
    """Threads, and one of the service's own: at each SIGUSR1 it asks JOBS times, about numbers that go on."""
    asked, due = peers(), queue.SimpleQueue()

    def work():
        n = 0
        while True:
            due.get()
            for n in range(n, n + int(os.environ["JOBS"])):
                for p in asked:
                    p.ask(n)
            n += 1
            print("jobs done:", n, flush=True)

    signal.signal(signal.SIGUSR1, lambda *_: due.put(None))
    threading.Thread(target=work, daemon=True).start()
    threading.Thread(target=threads, args=(listener,), daemon=True).start()
    while True:
        signal.pause()


def passing(listener):
    """Accepts, and passes the connections on to processes that have no listener: programs of their own."""
    workers = []
    for _ in range(2):
        ours, theirs = socket.socketpair()
        subprocess.Popen([sys.executable, __file__, "passed", str(theirs.fileno())], pass_fds=[theirs.fileno()])
        theirs.close()
        workers.append(ours)
    for worker in itertools.cycle(workers):
        sock, _ = listener.accept()
        socket.send_fds(worker, [b"x"], [sock.fileno()])
        sock.close()


def passed(fd):
    """A thread for each connection that is passed on."""
    passer = socket.socket(fileno=fd)
    while fds := socket.recv_fds(passer, 1, 1)[1]:
        threading.Thread(target=serve, args=(socket.socket(fileno=fds[0]),), daemon=True).start()


MODES = (threads, passing, unmapping, generators, early, jobs, helpers, forks, handover, asking_pool, children, waking, loop, spawning, pausing, late, forwarding_late, forwarding_twice, short, resetting)


def main():
    mode, port = sys.argv[1:]
    if mode == "ask":
        Backend("BACKEND").ask(int(port))
        return
    if mode == "passed":
        passed(int(port))
        return
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, PROTOCOL)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, int(port)))
    listener.listen(8192)
    {m.__name__: m for m in MODES}[mode](listener)


main()
