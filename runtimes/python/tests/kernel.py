"""Stands for the kernel side, inside of a service: binds receipts when bytes come, reads the record when they are sent.

Its functions replace those of socket before the shim is imported, so that the shim's are around them."""

import functools
import re
import socket
import ssl
from _thread import get_native_id

from tare_trace_shim import table  # not the package's start: TARE_SHIM=off until install()

CALL = re.compile(rb"(?:GET|POST) /b/(\d+)")
REQUEST = re.compile(rb"(?:GET|POST) /a/(\d+)")

bindings = {}  # token → number of the request
in_flight = set()
connections = {}  # the peer of an accepted connection → number of its last request
sends = []  # of the calls: number, what it was linked to
port = None  # the service's


def record():
    """The calling thread's record, found as the kernel side finds it."""
    t = table._table
    if t is None:
        return None
    tid = get_native_id()
    at = ((tid * 0x9E3779B1 & 0xFFFFFFFF) * table.SLOTS) >> 32
    for i in range(4):
        word = (64 + (at + i) % table.SLOTS * 64) // 8
        if t._tids[word * 2] == tid:
            return word
    return None


def _accepted(sock):
    try:
        return sock.family == socket.AF_INET and sock.getsockname()[1] == port
    except OSError:
        return False


def received(sock, data):
    word = record()
    words = table._table._words if word is not None else None
    if _accepted(sock):
        peer = sock.getpeername()
        m = REQUEST.match(data)
        if m:
            connections[peer] = int(m[1])
            in_flight.add(int(m[1]))
        if words:
            bindings[words[word + 3]] = connections.get(peer)
    elif words and sock.family == socket.AF_INET:
        bindings[words[word + 3]] = bindings.get(words[word + 1])


def sending(sock, data):
    if _accepted(sock):
        in_flight.discard(connections.get(sock.getpeername()))
        return
    m = CALL.search(data)
    if not m:
        return
    word, linked = record(), "no record"
    if word is not None:
        current = table._table._words[word + 1]
        linked = bindings.get(current) if current else None
        if linked is not None and linked not in in_flight:
            linked = "stale"
    sends.append((int(m[1]), linked))


def _recv(call, into=False, first=False, pending=False):
    @functools.wraps(call)
    def read(self, *args, **kw):
        new = not (pending and self.pending())
        r = call(self, *args, **kw)
        n = r[0] if first else r
        if n and new:
            buffer = args[1] if pending and len(args) > 1 else args[0]
            if into and first:
                buffer = buffer[0]
            received(self, bytes(buffer[:n]) if isinstance(n, int) else n)
        return r

    return read


def _send(call, many=False):
    @functools.wraps(call)
    def write(self, data, *args, **kw):
        data = list(data) if many else data
        sending(self, b"".join(map(bytes, data)) if many else bytes(data))
        return call(self, data, *args, **kw)

    return write


def install():
    c = socket.socket
    for name in ("recv", "recv_into", "recvmsg", "recvmsg_into"):
        setattr(c, name, _recv(getattr(c, name), into="into" in name, first="msg" in name))
    for name in ("send", "sendall", "sendmsg"):
        setattr(c, name, _send(getattr(c, name), many=name == "sendmsg"))
    ssl.SSLSocket.read = _recv(ssl.SSLSocket.read, pending=True)
    ssl.SSLSocket.send = _send(ssl.SSLSocket.send)
