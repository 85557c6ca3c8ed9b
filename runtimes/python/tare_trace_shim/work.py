"""Which request the running code works for.

A context holds a token, or a cell: a list with the token of what an accepted connection of asyncio received last. A task
that serves a connection for all of its life keeps the cell, and what is started from it for one request gets the token."""

from contextvars import ContextVar
from functools import wraps

_work = ContextVar("tare", default=0)
get, put, reset = _work.get, _work.set, _work.reset


def token():
    t = get()
    return t[0] if t.__class__ is list else t


def run(t, f, *args, **kw):
    """Calls f for t."""
    before = put(t)
    try:
        return f(*args, **kw)
    finally:
        reset(before)


def settled(call):
    """Wraps a function that copies the context: the copy gets the cell's token, once a request has come."""

    @wraps(call)
    def wrapper(*args, **kw):
        t = get()
        if t.__class__ is list and t[0]:
            return run(t[0], call, *args, **kw)
        return call(*args, **kw)

    return wrapper
