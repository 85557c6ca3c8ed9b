"""eventlet's own server: a greenlet for each connection."""

import eventlet

eventlet.monkey_patch()

import eventlet.wsgi  # noqa: E402: after the patch, as what follows

from peers import HOST, PORT  # noqa: E402
from wsgi import application  # noqa: E402

eventlet.wsgi.server(eventlet.listen((HOST, PORT), backlog=4096), application, max_size=4096, log_output=False)
