"""The shop: GET /item/N asks redis, memcached and the stock service about
item N, one after the other, and answers with what they said.

Run to completion, one thread per connection, blocking sockets, the standard
library only. Every thread keeps its own connections. The number N is in every
byte sequence that leaves for another service, so that whoever watches can
tell which request a message belongs to.
"""

import argparse
import http.client
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"  # of all services, --host


class Store:
    """A connection to redis or memcached: one question, one answer."""

    def __init__(self, port):
        self.sock = socket.create_connection((HOST, port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.sock.makefile("rb")

    def close(self):
        self.file.close()
        self.sock.close()

    def line(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("closed by the store")
        return line[:-2]

    def exactly(self, size):
        value = self.file.read(size)
        if len(value) != size:
            raise ConnectionError("closed by the store")
        return value


class Redis(Store):
    def get(self, key):
        self.sock.sendall(b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key))
        head = self.line()
        if head == b"$-1":
            return None
        if not head.startswith(b"$"):
            raise ValueError("redis: %r" % head)
        return self.exactly(int(head[1:]) + 2)[:-2]


class Memcached(Store):
    def get(self, key):
        self.sock.sendall(b"get %b\r\n" % key)
        head = self.line()
        value = None
        if head.startswith(b"VALUE "):
            value = self.exactly(int(head.split()[3]) + 2)[:-2]
            head = self.line()
        if head != b"END":
            raise ValueError("memcached: %r" % head)
        return value


class Stock:
    """The stock service, over HTTP."""

    def __init__(self, port):
        self.conn = http.client.HTTPConnection(HOST, port)

    def close(self):
        self.conn.close()

    def get(self, key):
        self.conn.request("GET", "/stock/" + key.decode())
        response = self.conn.getresponse()
        body = response.read()
        if response.status != 200:
            raise ValueError("stock: status %d" % response.status)
        return json.loads(body)["stock"]


class Peers(threading.local):
    """This thread's connections, opened when they are needed."""

    def __init__(self, ports):
        self.ports = ports
        self.open = {}

    def get(self, kind, key):
        peer = self.open.get(kind)
        if peer is None:
            peer = self.open[kind] = kind(self.ports[kind])
        try:
            return peer.get(key)
        except Exception:
            # Whatever it was, the next request begins with a new connection.
            self.open.pop(kind).close()
            raise

    def close(self):
        for peer in self.open.values():
            peer.close()
        self.open.clear()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one send
    peers = None

    def do_GET(self):
        prefix, _, number = self.path.rpartition("/")
        if prefix != "/item" or not (number.isascii() and number.isdigit()):
            return self.answer(404, {"error": "no such thing"})
        key = b"item:" + number.encode()
        try:
            price = self.peers.get(Redis, key)
            cached = self.peers.get(Memcached, key)
            stock = self.peers.get(Stock, number.encode())
        except (OSError, ValueError, http.client.HTTPException) as e:
            return self.answer(502, {"error": str(e)})
        return self.answer(200, {
            "item": int(number),
            "price": price.decode() if price else None,
            "cached": cached is not None,
            "stock": stock,
        })

    def answer(self, status, value):
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def finish(self):
        self.peers.close()  # the thread ends with its connection
        super().finish()

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 8192


def main():
    global HOST
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("port", "redis", "memcached", "stock"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--host", default=HOST)
    args = parser.parse_args()
    HOST = args.host
    Handler.peers = Peers({Redis: args.redis, Memcached: args.memcached, Stock: args.stock})
    Server((HOST, args.port), Handler).serve_forever()


main()
