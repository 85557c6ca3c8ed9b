"""Whom the services ask, as the environment says."""

import os

HOST = os.environ.get("HOST", "127.0.0.1")
PORT = int(os.environ["PORT"])
BACKEND = "http://%s:%s/n/" % (HOST, os.environ["BACKEND"])
REDIS = {"host": HOST, "port": int(os.environ["REDIS"]), "max_connections": 1024, "decode_responses": True}


def blocking():
    """asks by requests and redis-py, over connections that all requests share"""
    import redis
    import requests

    session = requests.Session()
    session.trust_env = False  # no proxy
    session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=1024))
    store = redis.Redis(**REDIS)

    def ask(n):
        return "%s %s" % (session.get(BACKEND + n).text, store.get("n:" + n) or "")

    return ask
