"""What a service sends is linked to the request that caused it, whatever carries the work there."""

import collections
import http.client
import http.server
import importlib.util
import json
import os
import random
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CONCURRENCY, REQUESTS = 32, 256


class Backend(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        time.sleep(random.random() * 0.003)
        text = self.path.split("/")[-1].encode()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))

    def log_message(self, *args):
        pass


class Carry(unittest.TestCase):
    def drive(self, kind, body=None, tls=False, env=None):
        """Sends numbered requests to a service, many at a time, over kept connections. Returns its calls by number."""
        certificate = []
        if tls:
            certificate = [os.path.join(tempfile.mkdtemp(), "pem")]
            self.addCleanup(shutil.rmtree, os.path.dirname(certificate[0]))
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-days", "2",
                            "-keyout", certificate[0] + ".key", "-out", certificate[0]], check=True, capture_output=True)
            with open(certificate[0], "a") as f, open(certificate[0] + ".key") as key:
                f.write(key.read())
        backend = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend)
        backend.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate[0])
            backend.socket = context.wrap_socket(backend.socket, server_side=True)
        threading.Thread(target=backend.serve_forever, daemon=True).start()
        self.addCleanup(backend.server_close)
        self.addCleanup(backend.shutdown)
        service = subprocess.Popen([sys.executable, os.path.join(HERE, "service.py"), kind, str(backend.server_address[1]), *certificate],
                                   stdout=subprocess.PIPE, start_new_session=True, env={**os.environ, **(env or {})})
        self.addCleanup(service.stdout.close)
        self.addCleanup(service.wait)
        self.addCleanup(os.killpg, service.pid, signal.SIGKILL)  # with the child of fork
        port = int(service.stdout.readline())
        numbers = iter(range(1, REQUESTS + 1))
        errors = []

        def connect():
            if tls:
                return http.client.HTTPSConnection("127.0.0.1", port, context=ssl._create_unverified_context(), timeout=30)
            return http.client.HTTPConnection("127.0.0.1", port, timeout=30)

        def client():
            c = connect()
            try:
                for n in numbers:
                    c.request("POST" if body else "GET", f"/a/{n}", body=body)
                    text = c.getresponse().read().decode()
                    if text != f"ok {n}":
                        errors.append(text)
            except Exception as e:
                errors.append(repr(e))
            c.close()

        threads = [threading.Thread(target=client) for _ in range(CONCURRENCY)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors[:3], [])
        c = connect()
        c.request("GET", "/report")
        calls = json.loads(c.getresponse().read())
        c.close()
        return calls

    def right(self, calls, each):
        verdicts = collections.Counter("right" if linked == n else f"{linked}" if not isinstance(linked, int) else "WRONG" for n, linked in calls)
        self.assertEqual(dict(verdicts), {"right": REQUESTS * each})

    def none(self, calls, each):
        self.assertEqual(collections.Counter(linked for _, linked in calls), {None: REQUESTS * each})

    def test_threads(self):
        self.right(self.drive("threads"), 1)

    def test_threads_with_bodies(self):
        self.right(self.drive("threads", body=b"x" * 200000), 1)

    @unittest.skipUnless(shutil.which("openssl"), "openssl")
    def test_tls(self):
        self.right(self.drive("tls", tls=True, body=b"x" * 50000), 1)

    def test_executors(self):
        self.right(self.drive("pool"), 3)

    def test_queue_of_workers_is_not_linked(self):
        self.none(self.drive("workers"), 1)

    def test_fork(self):
        self.right(self.drive("fork"), 1)

    def test_asyncio_streams(self):
        self.right(self.drive("streams"), 6)

    def test_asyncio_streams_with_bodies(self):
        self.right(self.drive("streams", body=b"x" * 200000), 6)

    def test_asyncio_protocol(self):
        self.right(self.drive("protocol", body=b"x" * 200000), 6)

    def test_select_is_not_linked(self):
        self.none(self.drive("select"), 1)

    def test_without_shim(self):
        self.assertEqual({linked for _, linked in self.drive("plain")}, {"no record"})

    @unittest.skipUnless(importlib.util.find_spec("uvicorn") and importlib.util.find_spec("fastapi"), "uvicorn, fastapi")
    def test_uvicorn(self):
        self.right(self.drive("uvicorn"), 6)

    @unittest.skipUnless(importlib.util.find_spec("uvicorn") and importlib.util.find_spec("fastapi"), "uvicorn, fastapi")
    def test_anyio_threads(self):
        self.right(self.drive("fastapi-threads"), 1)

    @unittest.skipUnless(importlib.util.find_spec("uvloop") and importlib.util.find_spec("fastapi"), "uvloop, fastapi")
    def test_uvloop_is_never_wrong(self):
        calls = self.drive("uvicorn", env={"LOOP": "uvloop"})
        self.assertEqual([c for c in calls if isinstance(c[1], int) and c[1] != c[0]], [])

    @unittest.skipUnless(importlib.util.find_spec("aiohttp"), "aiohttp")
    def test_aiohttp(self):
        self.right(self.drive("aiohttp"), 6)


if __name__ == "__main__":
    unittest.main()
