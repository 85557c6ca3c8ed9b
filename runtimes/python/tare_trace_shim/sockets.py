"""Shows the work while a socket is written or read, and takes the receipt of what was read."""

import functools

from . import table, work

# Whether asyncio runs in this thread; set when it is imported.
running = None


def patch(module):
    cls = module.socket
    if cls.__module__ != "socket":
        return  # gevent's, for instance, which lets others run while it waits
    table.start()
    for name in ("send", "sendall", "sendmsg", "sendto"):
        setattr(cls, name, _shows(getattr(cls, name)))
    tcp = _tcp(module)
    for name in ("recv", "recv_into"):
        setattr(cls, name, _takes(getattr(cls, name), tcp))
    for name in ("recvmsg", "recvmsg_into", "recvfrom", "recvfrom_into"):
        setattr(cls, name, _takes(getattr(cls, name), tcp, first=True))


def patch_tls(module):
    cls = module.SSLSocket
    if cls.__module__ != "ssl":
        return
    import socket

    # Everything else of SSLSocket comes down to these.
    cls.send = _shows(cls.send)
    cls.write = _shows(cls.write)
    cls.do_handshake = _shows(cls.do_handshake)
    cls.read = _takes(cls.read, _tcp(socket), pending=cls.pending)


def _tcp(module):
    """Returns what tells whether a read is one that the kernel side sees, by a thread or task that reads for one request."""
    c = module.SocketType  # in C: its attributes are plain numbers
    family, kind, timeout = c.family.__get__, c.type.__get__, c.gettimeout
    inet, stream = (int(module.AF_INET), int(module.AF_INET6)), int(module.SOCK_STREAM)

    def tcp(sock):
        if family(sock) not in inet or kind(sock) != stream:
            return False
        # A thread that reads sockets that do not block serves many. Only asyncio keeps a context for each.
        return timeout(sock) != 0 or running is not None and running() is not None

    return tcp


def _shows(call, get=work.get, local=table.local, claim=table.claim):
    @functools.wraps(call)
    def write(self, *args, **kw):
        try:
            slot = local.slot
        except AttributeError:
            slot = claim()
        t = get()
        if t.__class__ is list:
            t = t[0]
        if slot is None or t == 0:
            return call(self, *args, **kw)
        words, current = slot.words, slot.current
        try:
            words[current] = t
            return call(self, *args, **kw)
        finally:
            _hide(words, current)

    return write


def _hide(words, current):
    try:
        words[current] = 0
    except ValueError:
        pass  # unmapped: a child of fork


def _takes(call, tcp, first=False, pending=None, get=work.get, put=work.put, local=table.local, claim=table.claim):
    @functools.wraps(call)
    def read(self, *args, **kw):
        try:
            slot = local.slot
        except AttributeError:
            slot = claim()
        # What TLS has decrypted already does not come from the kernel.
        if slot is None or (pending is not None and _has(pending, self)):
            return call(self, *args, **kw)
        t = get()
        cell = t.__class__ is list
        words, current = slot.words, slot.current
        try:
            # Shown for the case that an answer comes: the kernel side gives its receipt to the same work.
            words[current] = t[0] if cell else t
            result = call(self, *args, **kw)
        finally:
            _hide(words, current)
        try:
            if (result[0] if first else result) and tcp(self):
                receipt = slot.receipt
                if cell:
                    t[0] = receipt
                else:
                    put(receipt)
                slot.receipt = words[current + 2] = receipt + 1
        except Exception:
            pass
        return result

    return read


def _has(pending, sock):
    try:
        return pending(sock) > 0
    except Exception:
        return False
