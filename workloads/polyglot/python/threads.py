"""A thread for each connection, by the standard library."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from peers import HOST, PORT, blocking

ask = blocking()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one segment for headers and body

    def do_GET(self):
        text = ask(self.path.rpartition("/")[2]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


ThreadingHTTPServer.request_queue_size = 4096
ThreadingHTTPServer((HOST, PORT), Handler).serve_forever()
