"""WSGI: GET /n/5 asks about number 5."""

from peers import blocking

ask = blocking()


def application(environ, start_response):
    text = ask(environ["PATH_INFO"].rpartition("/")[2]).encode()
    headers = [("Content-Length", str(len(text))), ("Content-Type", "text/plain")]
    if "uwsgi.version" in environ:  # it closes every connection, and does not say so
        headers.append(("Connection", "close"))
    start_response("200 OK", headers)
    return [text]
