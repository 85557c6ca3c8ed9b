"""ClickHouse's engine, behind as much of its HTTP interface as a collector and a test need.

    server.py ADDRESS DIRECTORY

chdb is that engine without the server. It runs each query as it came; rows go back in the format
Native, as the server writes it for a client that names its version of the protocol.
"""

import http.server
import json
import signal
import struct
import sys
import tempfile
import threading
import urllib.parse

from chdb import session

READS = ("SELECT", "DESC", "DESCRIBE", "EXISTS", "SHOW")
NUMBERS = {"UInt8": "<B", "UInt16": "<H", "UInt32": "<I", "UInt64": "<Q"}


def varint(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def text(s):
    b = s.encode()
    return varint(len(b)) + b


def native(result):
    """A block of strings and unsigned numbers: what clients ask for of themselves."""
    rows = result["data"]
    if not rows:
        return b""
    out = bytearray(b"\x01\x00\x02\xff\xff\xff\xff\x00")  # no overflow, no bucket
    out += varint(len(result["meta"])) + varint(len(rows))
    for i, column in enumerate(result["meta"]):
        out += text(column["name"]) + text(column["type"]) + b"\x00"  # no serialization of its own
        for row in rows:
            if column["type"] == "String":
                out += text(row[i])
            else:
                out += struct.pack(NUMBERS[column["type"]], int(row[i]))
    return bytes(out)


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, address, directory):
        host, _, port = address.rpartition(":")
        super().__init__((host, int(port)), Handler)
        self.engine = session.Session(directory)
        self.alone = threading.Lock()  # a session runs one query at a time

    def run(self, query, body, form):
        with self.alone:
            if query:  # the body is what to insert
                into, _, _ = query.rpartition("FORMAT Native")
                with tempfile.NamedTemporaryFile() as f:
                    f.write(body)
                    f.flush()
                    self.engine.query(f"{into} FROM INFILE '{f.name}' FORMAT Native")
                return b""
            query = body.decode()
            if query.split(None, 1)[0].upper() not in READS:
                self.engine.query(query)
                return b""
            if form != "Native":
                return self.engine.query(query, form).bytes()
            return native(json.loads(self.engine.query(query, "JSONCompact").bytes()))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def do_POST(self):
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        query, form = asked.get("query", [""])[0], asked.get("default_format", ["TabSeparated"])[0]
        body = self.body()
        try:
            status, answer = 200, self.server.run(query, body, form)
        except Exception as e:  # whatever it is: a server says it and goes on
            status, answer = 500, str(e).encode()
            print(f"{query or body.decode(errors='replace')}: {e}", file=sys.stderr, flush=True)
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = Server(sys.argv[1], sys.argv[2])
    try:
        print("listening", flush=True)
        server.serve_forever()
    finally:
        with server.alone:
            server.engine.close()


main()
