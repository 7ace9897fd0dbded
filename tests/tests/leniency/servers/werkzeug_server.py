"""An application on Werkzeug's server. Prints its port, and each request that it has read."""

from werkzeug.serving import WSGIRequestHandler, make_server


class Handler(WSGIRequestHandler):
    def log(self, *_):
        pass


def application(environ, start_response):
    claim = environ.get("HTTP_L5D_CLIENT_ID")
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    print(f"request {method!r} {path!r} claim={claim}", flush=True)
    start_response("200 OK", [("content-length", "2")])
    return [b"ok"]


server = make_server("0.0.0.0", 0, application, threaded=True, request_handler=Handler)
print(f"port {server.port}", flush=True)
server.serve_forever()
