# A server with Datadog's tracer: in each request one span, and one for the call that it makes, whose ids
# are in the path that it asks for.
import http.client
import http.server
import os
import signal
import socketserver
import sys
import threading

from ddtrace import tracer

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # else it tries to send its spans
port, upstream = int(sys.argv[1]), int(sys.argv[2])
local = threading.local()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with tracer.trace("server"):
            if upstream:
                if not hasattr(local, "to"):
                    local.to = http.client.HTTPConnection("127.0.0.1", upstream)
                with tracer.trace("client") as call:
                    local.to.request("GET", f"{self.path}/{call.trace_id:032x}/{call.span_id:016x}")
                    local.to.getresponse().read()
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 1024


Server(("127.0.0.1", port), Handler).serve_forever()
