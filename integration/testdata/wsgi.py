"""GET /n/5 asks the backend and, if there is one, redis about number 5; every thread
keeps its own connections. What is asked is a port, or the path of a unix socket. With NAMES, it looks up a name before."""

import os
import socket
import threading

local = threading.local()


def peer(name):
    """The thread's connection and its reader; under gevent, the greenlet's."""
    if not hasattr(local, name):
        where = os.environ[name]
        if where.startswith("/"):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(where)
        else:
            sock = socket.create_connection(("127.0.0.1", int(where)))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        setattr(local, name, (sock, sock.makefile("rb")))
    return getattr(local, name)


def application(environ, start_response):
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    n = environ["PATH_INFO"].rpartition("/")[2].encode()

    if "NAMES" in os.environ:
        socket.getaddrinfo("n%s.example.test" % n.decode(), 80)

    sock, reader = peer("BACKEND")
    sock.sendall(b"GET /n/%b HTTP/1.1\r\nHost: backend\r\n\r\n" % n)
    size = 0
    while (line := reader.readline()) != b"\r\n":
        if line.lower().startswith(b"content-length:"):
            size = int(line.split(b":")[1])
    reader.read(size)

    if "REDIS" in os.environ:
        sock, reader = peer("REDIS")
        sock.sendall(b"*2\r\n$3\r\nGET\r\n$%d\r\nn:%b\r\n" % (len(n) + 2, n))
        reader.readline()

    start_response("200 OK", [("Content-Length", "6"), ("Content-Type", "text/plain")])
    return [b"hello\n"]
