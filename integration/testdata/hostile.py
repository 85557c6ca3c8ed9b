"""A service that listens, and shows what exhausts who reads it: a library of 64 MB whose sections are
all of one table, 60,000 mappings with long names, or arguments of 128 KiB in 300 processes."""
import ctypes
import mmap
import os
import socket
import struct
import sys

kind, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if kind == "arguments" and len(sys.argv) < 5:
    os.execv(sys.executable, [sys.executable, *sys.argv, *["-"] * 60000])
listener = socket.create_server(("127.0.0.1", port))

PAGE, SECTIONS, TABLE = 4096, 1000, 60 << 20
KINDS = [11, 2, 4, 3]  # SHT_DYNSYM, SHT_SYMTAB, SHT_RELA, SHT_STRTAB
kept = []
if kind == "library":
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, PAGE, 0, 64, 56, 1, 64, SECTIONS, 0)
    head += struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, PAGE, PAGE, PAGE)
    with open(path, "wb") as f:
        f.write(head.ljust(PAGE, b"\0"))
        for i in range(SECTIONS):
            f.write(struct.pack("<IIQQQQIIQQ", 0, KINDS[i % 4], 2, 0, PAGE + 64 * SECTIONS, TABLE, i, 0, 8, 24))
        f.write(b"\x01" * TABLE)
    with open(path, "rb") as f:
        kept.append(mmap.mmap(f.fileno(), PAGE, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC))
elif kind == "mappings":
    long = os.path.join(os.path.dirname(path), *["x" * 200] * 15)
    os.makedirs(long)
    with open(os.path.join(long, "libjvm.so"), "wb") as f:
        f.write(b"\x7fELF".ljust(2 * PAGE, b"\0"))
    with open(os.path.join(long, "libjvm.so"), "rb") as f:
        libc = ctypes.CDLL(None)
        libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        for i in range(60000):  # at another offset than the one before, so that they are not one
            if libc.mmap(None, PAGE, mmap.PROT_READ, mmap.MAP_PRIVATE, f.fileno(), PAGE * (i % 2)) in (None, 2**64 - 1):
                sys.exit("mmap")
elif kind == "arguments":
    for _ in range(300):
        if os.fork() == 0:
            break
    else:
        print("ready", flush=True)
    while True:
        listener.accept()
print("ready", flush=True)
while True:
    listener.accept()
