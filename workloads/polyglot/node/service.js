// GET /n/5 asks the backend by fetch, and redis over one connection that all requests share:
// service.js http, or service.js express.
import http from "node:http";
import express from "express";
import { createClient } from "redis";

const { HOST = "127.0.0.1", PORT, BACKEND, REDIS } = process.env;
const redis = await createClient({ socket: { host: HOST, port: Number(REDIS) } }).connect();

async function ask(path) {
  const n = path.slice(path.lastIndexOf("/") + 1);
  const told = await (await fetch(`http://${HOST}:${BACKEND}/n/${n}`)).text();
  return `${told} ${(await redis.get(`n:${n}`)) ?? ""}`;
}

let listener = (request, response) => ask(request.url).then((text) => response.end(text));
if (process.argv[2] === "express") {
  listener = express().get("/n/:n", async (request, response) => response.send(await ask(request.path)));
}
http.createServer({ keepAliveTimeout: 300_000 }, listener).listen({ host: HOST, port: Number(PORT), backlog: 4096 });
