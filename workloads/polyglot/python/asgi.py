"""FastAPI: an endpoint that is a coroutine, and one that runs in a pool of threads."""

import httpx
import redis
import redis.asyncio
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from peers import BACKEND, REDIS

# A small pool, since what httpx does for each request grows with its square, and patience for it.
CLIENT = {
    "limits": httpx.Limits(max_connections=32, max_keepalive_connections=32, keepalive_expiry=300),
    "timeout": 60,
    "trust_env": False,
}


def served(endpoint):
    app = FastAPI()
    app.get("/n/{n}", response_class=PlainTextResponse)(endpoint)
    return app


def coroutine():
    http, store = httpx.AsyncClient(**CLIENT), redis.asyncio.Redis(**REDIS)

    async def ask(n: str):
        return "%s %s" % ((await http.get(BACKEND + n)).text, await store.get("n:" + n) or "")

    return served(ask)


def threads():
    http, store = httpx.Client(**CLIENT), redis.Redis(**REDIS)

    def ask(n: str):
        return "%s %s" % (http.get(BACKEND + n).text, store.get("n:" + n) or "")

    return served(ask)
