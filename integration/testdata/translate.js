// A server of one thread: GET /n/5 asks the next about number 5, with the x-request-id that it came with, over
// connections that it keeps. Each side speaks http1 or http2.  node translate.js http1 PORT http2 NEXT
const http = require("node:http");
const http2 = require("node:http2");

const [incoming, port, outgoing, next] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true });
const sessions = [];
let turn = 0;

// One of four connections, which are opened when they are needed.
function session() {
  const i = turn++ % 4;
  if (!sessions[i] || sessions[i].closed || sessions[i].destroyed) {
    sessions[i] = http2.connect(`http://127.0.0.1:${next}`).on("error", () => {});
  }
  return sessions[i];
}

function ask(path, id, done, failed) {
  const headers = id ? { "x-request-id": id } : {};
  if (outgoing === "http2") {
    session().request({ ":path": path, ...headers }).on("error", failed).resume().on("end", done).end();
  } else {
    const asked = http.get({ host: "127.0.0.1", port: next, path, headers, agent }, (answer) => answer.resume().on("end", done));
    asked.on("error", failed);
  }
}

const server = (incoming === "http2" ? http2 : http).createServer((request, response) => {
  const path = "/n/" + request.url.split("/").pop();
  ask(path, request.headers["x-request-id"], () => setTimeout(() => response.end("hello\n"), 1), () => response.destroy());
});
server.listen({ port: Number(port), host: "127.0.0.1" });
