"""The table is where and what PROTOCOL.md says, and the application never notices when it is not there."""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

FIND = """
import os, re, struct
def tables():
    found = []
    with open("/proc/self/mem", "rb", 0) as mem, open("/proc/self/maps") as maps:
        for line in maps:
            m = re.match("([0-9a-f]+)-([0-9a-f]+) rw", line)
            if m:
                try:
                    mem.seek(int(m[1], 16))
                    if mem.read(17) == b"\\0tare-threads-v1\\0":
                        mem.seek(int(m[1], 16))
                        found.append((line.split()[4:], mem.read(int(m[2], 16) - int(m[1], 16))))
                except (OSError, OverflowError, ValueError):
                    pass
    return found
def records(table):
    n = struct.unpack_from("<I", table, 32)[0]
    return {r[0]: r[1:] for r in (struct.unpack_from("<IIQQQ", table, 64 + i * 64) for i in range(n)) if r[0]}
"""

ECHO = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
def serve():
    c = server.accept()[0]
    c.sendall(c.recv(100).upper())
    c.close()
t = threading.Thread(target=serve); t.start()
c = socket.create_connection(server.getsockname()); c.sendall(b"echo")
print(c.recv(100).decode()); c.close(); t.join(); server.close()
"""


def run(script, before="", env=None):
    echo = script.startswith(ECHO)
    script = (ECHO if echo else "") + textwrap.dedent(script[len(ECHO) if echo else 0:])
    script = f"import sys; sys.path.insert(0, {ROOT!r})\n{textwrap.dedent(before)}\nimport tare_trace_shim\n{FIND}\n{script}"
    return subprocess.run([sys.executable, "-W", "error::RuntimeWarning", "-c", script], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "TARE_SHIM": "", **(env or {})})


class Table(unittest.TestCase):
    def says(self, expected, script, before="", env=None):
        r = run(script, before, env)
        self.assertEqual((r.stdout.split(), r.stderr), (expected.split(), ""))

    def test_layout(self):
        self.says("ECHO True 9e3779b97f4a7c15f39cc0605cedc8 1024 (1, 0, 0) True", ECHO + """
            (where, table), = tables()
            print(where[1:] == ["/memfd:tare-threads", "(deleted)"], table[17:32].hex(), struct.unpack_from("<I", table, 32)[0])
            tid = threading.get_native_id()
            print(records(table)[tid][:3])
            at = ((tid * 0x9E3779B1 & 0xFFFFFFFF) * 1024) >> 32
            print(tid in [struct.unpack_from("<I", table, 64 + (at + i) % 1024 * 64)[0] for i in range(4)])
            """)

    def test_nothing_without_sockets(self):
        self.says("0 1", "print(len(tables()))\nimport socket\nprint(len(tables()))")

    def test_off(self):
        self.says("ECHO 0", ECHO + "print(len(tables()))", env={"TARE_SHIM": "off"})

    def test_fork(self):
        self.says("1 True 1 True True", """
            import socket, threading
            a, b = socket.socketpair(); a.send(b"x")
            from tare_trace_shim import table, work
            parent = tables()[0][1][64:]
            pid = os.fork()
            if pid == 0:
                a.send(b"x")
                mine = tables()
                print(len(mine), set(records(mine[0][1])) <= {os.getpid()} and mine[0][1][64:] != parent, flush=True)
                os._exit(0)
            os.waitpid(pid, 0)
            print(len(tables()), tables()[0][1][64:] == parent, set(records(tables()[0][1])) == {os.getpid()})
            """)

    def test_memfd_refused(self):
        self.says("ECHO 1", ECHO + "print(len(tables()))", before="""
            import os
            def refuse(*a): raise PermissionError(1, "refused")
            os.memfd_create = refuse""")

    def test_no_memory(self):
        self.says("ECHO 0", ECHO + "print(len(tables()))", before="""
            import os
            def refuse(*a): raise OSError(28, "full")
            os.posix_fallocate = refuse""")

    def test_mmap_refused(self):
        self.says("ECHO 0", ECHO + "print(len(tables()))", before="""
            import mmap
            def refuse(*a): raise OSError(12, "refused")
            mmap.mmap = refuse""")

    def test_table_full(self):
        self.says("4 True", """
            from tare_trace_shim import table
            table.SLOTS = 4
            import socket, threading
            ends = [threading.Event() for _ in range(8)]
            def use(end):
                a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
                a.close(); b.close(); done.release(); end.wait()
            done = threading.Semaphore(0)
            threads = [threading.Thread(target=use, args=(e,)) for e in ends]
            for t in threads: t.start(); done.acquire()
            print(len(records(tables()[0][1])))
            for e in ends: e.set()
            for t in threads: t.join()
            t = threading.Thread(target=use, args=(ends[0],)); t.start(); t.join()
            print(t.native_id in records(tables()[0][1]))  # the place of a thread that is gone
            """)

    def test_errors_inside(self):
        self.says("ECHO", ECHO, before="""
            from tare_trace_shim import table
            def fail(*a): raise RuntimeError("shim")
            table._Table.claim = fail""")
        self.says("ECHO", ECHO, before="""
            from tare_trace_shim import sockets
            def fail(*a): raise RuntimeError("shim")
            sockets._tcp = lambda module: fail""")
        self.says("ECHO", ECHO, before="""
            from tare_trace_shim import sockets
            def fail(*a): raise RuntimeError("shim")
            sockets.patch = sockets.patch_tls = fail""")

    def test_wheel(self):
        sys.path.insert(0, ROOT)
        import backend

        with tempfile.TemporaryDirectory() as d:
            name = backend.build_wheel(d)
            first = pathlib.Path(d, name).read_bytes()
            backend.build_wheel(d)
            self.assertEqual(first, pathlib.Path(d, name).read_bytes())
            zipfile.ZipFile(os.path.join(d, name)).extractall(d)
            script = f"import site; site.addsitedir({d!r}); import socket; print(open('/proc/self/maps').read().count('memfd:tare-threads'))"
            self.assertEqual(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout, "1\n")


if __name__ == "__main__":
    unittest.main()
