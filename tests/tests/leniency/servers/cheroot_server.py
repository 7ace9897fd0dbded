"""An application on cheroot, the server of CherryPy. Prints its port, and each request that it has read."""

from cheroot import wsgi


def application(environ, start_response):
    claim = environ.get("HTTP_L5D_CLIENT_ID")
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    print(f"request {method!r} {path!r} claim={claim}", flush=True)
    start_response("200 OK", [("content-length", "2")])
    return [b"ok"]


server = wsgi.Server(("0.0.0.0", 0), application)
server.prepare()
print(f"port {server.bind_addr[1]}", flush=True)
server.serve()
