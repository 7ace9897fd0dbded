// An application on Node.js, with its lenient parser. Prints its port, and each request that it has read.
"use strict";

const http = require("node:http");

const seen = (request) => {
  const claim = request.headers["l5d-client-id"];
  console.log(`request ${request.method} ${request.url} claim=${claim}`);
};
const server = http.createServer({ insecureHTTPParser: true }, (request, response) => {
  seen(request);
  response.end("ok");
});
// A server that answers CONNECT like any other method.
server.on("connect", (request, socket) => {
  seen(request);
  socket.end("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
});
server.listen(0, "0.0.0.0", () => console.log(`port ${server.address().port}`));
