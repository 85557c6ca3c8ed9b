"""stream.py PORT: responses with pauses between their parts. GET /WAY/N, a thread for each
connection. WAY: chunks, one-write (the last part and the end of the body together), length,
until (the connection closes), switch (to messages that are sent once the peer has sent some)."""

import socket
import sys
import threading
import time

PARTS, PAUSE = 5, 0.7  # longer than the agent waits for more of a response that shows no end


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def answer(sock, way):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    parts = [b"data: part %d\n\n" % i for i in range(PARTS)]
    if way in ("chunks", "one-write"):
        head += b"Transfer-Encoding: chunked\r\n"
        parts = [chunk(p) for p in parts]
    elif way == "length":
        head += b"Content-Length: %d\r\n" % sum(map(len, parts))
    else:
        head += b"Connection: close\r\n"
    sock.sendall(head + b"\r\n")
    for i, part in enumerate(parts):
        time.sleep(PAUSE)
        if way == "one-write" and i == PARTS - 1:
            part += b"0\r\n\r\n"
        sock.sendall(part)
    if way == "chunks":
        sock.sendall(b"0\r\n\r\n")


def switch(sock, file):
    sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    while file.read(1):
        sock.sendall(b"\x81\x05hello")


def serve(sock):
    with sock, sock.makefile("rb") as file:
        while line := file.readline():
            while file.readline() != b"\r\n":
                pass
            way = line.split(b"/")[1].decode()
            if way == "switch":
                return switch(sock, file)
            answer(sock, way)
            if way == "until":
                return


listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128)
while True:
    accepted, _ = listener.accept()
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve, args=(accepted,), daemon=True).start()
