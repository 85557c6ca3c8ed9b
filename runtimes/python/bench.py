"""What the shim adds to a read and a write of a socket, ns each: the best of 7 rounds, around calls that do nothing."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import socket

import tare_trace_shim
from tare_trace_shim import sockets, table, work


def best(f, n=100_000):
    least = float("inf")
    for _ in range(7):
        t = time.perf_counter_ns()
        for _ in range(n):
            f()
        least = min(least, (time.perf_counter_ns() - t) / n)
    return least


class Plain(socket.socket):
    def send(self, data):
        return 1

    def recv(self, n):
        return b"x"


class Shown(Plain):
    send = sockets._shows(Plain.send)
    recv = sockets._takes(Plain.recv, sockets._tcp(socket))


assert table.claim() is not None
plain, shown = Plain(), Shown()
data = b"x"
work.put(0)
print(f"Python {sys.version.split()[0]}")
print(f"  a write, no request    {best(lambda: shown.send(data)) - best(lambda: plain.send(data)):6.0f} ns")
print(f"  a read, token taken    {best(lambda: shown.recv(1)) - best(lambda: plain.recv(1)):6.0f} ns")
print(f"  a write, of a request  {best(lambda: shown.send(data)) - best(lambda: plain.send(data)):6.0f} ns")
f = len
print(f"  a job of an executor   {best(lambda: work.run(work.token(), f, data)) - best(lambda: f(data)):6.0f} ns")
