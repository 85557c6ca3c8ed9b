"""gRPC by its C core: `rpc.py serve PORT`, and `rpc.py ask PORT REQUESTS THREADS` (lines on standard input begin a round)."""

import concurrent.futures
import sys

import grpc

KINDS = ("Say", "Watch", "Fail")


def say(message, context):
    return message


def watch(message, context):
    for _ in range(3):
        yield message


def fail(message, context):
    context.abort(grpc.StatusCode.INTERNAL, "as asked")


def serve(port):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=16))
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "tare.Echo",
                {
                    "Say": grpc.unary_unary_rpc_method_handler(say),
                    "Watch": grpc.unary_stream_rpc_method_handler(watch),
                    "Fail": grpc.unary_unary_rpc_method_handler(fail),
                },
            ),
        )
    )
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    print("serving", flush=True)
    server.wait_for_termination()


def ask(port, requests, threads):
    """Metadata of the requests is of many lengths, and half of it comes again."""
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    say, fail = (channel.unary_unary(f"/tare.Echo/{name}") for name in ("Say", "Fail"))
    watch = channel.unary_stream("/tare.Echo/Watch")

    def call(n):
        metadata = (("x-text", "x" * (n * 37 % 1500)), ("x-number", str(n)), ("x-again", "y" * (n % 7 * 100)))
        body = b"z" * (n * 101 % 3000)
        kind = KINDS[n % len(KINDS)]
        if kind == "Say":
            assert say(body, metadata=metadata) == body
        elif kind == "Watch":
            assert list(watch(body, metadata=metadata)) == [body] * 3
        else:
            try:
                fail(body, metadata=metadata)
            except grpc.RpcError as e:
                assert e.code() == grpc.StatusCode.INTERNAL

    with concurrent.futures.ThreadPoolExecutor(max_workers=threads) as pool:
        for _ in sys.stdin:
            list(pool.map(call, range(requests)))
            print("asked", flush=True)


if sys.argv[1] == "serve":
    serve(sys.argv[2])
else:
    ask(*(int(n) for n in sys.argv[2:]))
