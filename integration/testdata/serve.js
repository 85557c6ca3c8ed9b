// A server of one thread: GET /n/5 asks the backend at BACKEND about number 5, over connections that
// it keeps, with the x-request-id that it came with. WORKERS: so many processes do, which the first one
// passes connections on to.  node serve.js PORT
const cluster = require("node:cluster");
const http = require("node:http");

const agent = new http.Agent({ keepAlive: true });

function serve() {
  http.createServer((request, response) => {
    const number = request.url.split("/").pop();
    const headers = request.headers["x-request-id"] ? { "x-request-id": request.headers["x-request-id"] } : {};
    const asked = http.get({ host: "127.0.0.1", port: process.env.BACKEND, path: `/n/${number}`, headers, agent }, (answer) => {
      answer.resume().on("end", () => setTimeout(() => response.end("hello\n"), 1));
    });
    asked.on("error", () => response.destroy());
  }).listen({ port: Number(process.argv[2]), host: "127.0.0.1" });
}

if (process.env.WORKERS && cluster.isPrimary) {
  for (let n = 0; n < Number(process.env.WORKERS); n++) cluster.fork();
} else {
  serve();
}
