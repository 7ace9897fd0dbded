"""An application on Python's http.server. Prints its port, and each request that it has read."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        claim = self.headers.get("l5d-client-id") if hasattr(self, "headers") else None
        print(f"request {self.command!r} {self.path!r} claim={claim}", flush=True)
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_CONNECT = answer

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
print(f"port {server.server_address[1]}", flush=True)
server.serve_forever()
