// A server of one thread: GET /n/5 asks the backend at BACKEND about number 5, over connections that
// it keeps, with the x-request-id that it came with.  node serve.js PORT
const http = require("node:http");

const agent = new http.Agent({ keepAlive: true });

http.createServer((request, response) => {
  const number = request.url.split("/").pop();
  const headers = request.headers["x-request-id"] ? { "x-request-id": request.headers["x-request-id"] } : {};
  const asked = http.get({ host: "127.0.0.1", port: process.env.BACKEND, path: `/n/${number}`, headers, agent }, (answer) => {
    answer.resume().on("end", () => setTimeout(() => response.end("hello\n"), 1));
  });
  asked.on("error", () => response.destroy());
}).listen({ port: Number(process.argv[2]), host: "127.0.0.1" });
