// What a service sends is linked to the request that caused it, whatever carries the work there.
'use strict';

const { sends, words, numberOf } = require('./kernel');
const assert = require('node:assert/strict');
const { once } = require('node:events');
const http = require('node:http');
const http2 = require('node:http2');
const net = require('node:net');
const { setTimeout: sleep, setImmediate: turn } = require('node:timers/promises');
const test = require('node:test');

const CONCURRENCY = 64;
const REQUESTS = 512;

// listen starts a server for the duration of a test and returns its port.
async function listen(t, server) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.closeAllConnections?.(); server.close(); });
  return server.address().port;
}

// Answers late and out of order, so that requests mix.
const backend = (t) => listen(t, http.createServer(async (req, res) => {
  await sleep(Math.random() * 3);
  res.end(String(numberOf(req.url)));
}));

function get(options) {
  return new Promise((resolve, reject) => {
    const req = http.request({ host: '127.0.0.1', ...options }, (res) => {
      let text = '';
      res.on('data', (d) => { text += d; });
      res.on('end', () => resolve(text));
    });
    req.on('error', reject);
    req.end(options.body);
  });
}

// drive sends numbered requests to a service, CONCURRENCY at a time, over connections that are kept.
async function drive(t, handler, { method = 'GET', body } = {}) {
  const port = await listen(t, http.createServer((req, res) => {
    Promise.resolve(handler(req, res, numberOf(req.url))).catch((err) => { res.statusCode = 500; res.end(String(err)); });
  }));
  const agent = new http.Agent({ keepAlive: true, maxSockets: CONCURRENCY });
  t.after(() => agent.destroy());
  sends.length = 0;
  let next = 1;
  await Promise.all(Array.from({ length: CONCURRENCY }, async () => {
    for (let n = next++; n <= REQUESTS; n = next++) {
      assert.equal(await get({ port, agent, method, body, path: `/a/${n}` }), `ok ${n}`);
    }
  }));
  assert.equal(words()[1], 0, 'nothing is shown outside of writes');
  return sends.slice();
}

// right asserts that every call was linked, and rightly.
function right(calls, each = 1) {
  assert.equal(calls.length, REQUESTS * each);
  const bad = calls.filter((c) => c.linked !== c.number);
  assert.deepEqual(bad.slice(0, 5), [], `${bad.length} of ${calls.length} are not right`);
}

// neverWrong asserts that every call was linked rightly or not at all.
function neverWrong(calls) {
  assert.equal(calls.length, REQUESTS);
  assert.deepEqual(calls.filter((c) => c.linked !== c.number && c.linked !== 'none'), []);
}

test('http.request over a pool of 8 connections: await, timers, promises, nextTick', async (t) => {
  const port = await backend(t);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  t.after(() => agent.destroy());
  right(await drive(t, async (req, res, n) => {
    await get({ port, agent, path: `/b/${n}` });
    await sleep(Math.random() * 2);
    await turn();
    await new Promise((resolve) => setTimeout(() => process.nextTick(() => queueMicrotask(resolve)), 1));
    await Promise.all([get({ port, agent, path: `/b/${n}` }), Promise.resolve().then(() => get({ port, agent, path: `/b/${n}` }))]);
    res.end(`ok ${n}`);
  }), 3);
});

test('callbacks only, no promise', async (t) => {
  const port = await backend(t);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  t.after(() => agent.destroy());
  right(await drive(t, (req, res, n) => {
    setTimeout(() => http.get({ host: '127.0.0.1', port, agent, path: `/b/${n}` }, (r) => {
      r.on('data', () => {});
      r.on('end', () => setImmediate(() => http.get({ host: '127.0.0.1', port, agent, path: `/b/${n}` }, (r2) => {
        r2.resume().on('end', () => res.end(`ok ${n}`));
      })));
    }), 1);
  }), 2);
});

test('fetch', async (t) => {
  const port = await backend(t);
  right(await drive(t, async (req, res, n) => {
    await (await fetch(`http://127.0.0.1:${port}/b/${n}`)).text();
    res.end(`ok ${n}`);
  }));
});

test('fetch, where requests wait for one of two connections: those that waited are not linked, rather than wrong', async (t) => {
  const port = await backend(t);
  await (await fetch(`http://127.0.0.1:${port}/b/0`)).text();
  const symbol = Symbol.for('undici.globalDispatcher.1');
  const before = globalThis[symbol];
  globalThis[symbol] = new before.constructor({ connections: 2 });
  t.after(() => { globalThis[symbol].destroy(); globalThis[symbol] = before; });
  neverWrong(await drive(t, async (req, res, n) => {
    await (await fetch(`http://127.0.0.1:${port}/b/${n}`, { method: 'POST', body: 'x'.repeat(5) })).text();
    await sleep(5);
    res.end(`ok ${n}`);
  }));
});

test('a body that comes after its header, heard by events', async (t) => {
  const port = await backend(t);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  t.after(() => agent.destroy());
  right(await drive(t, (req, res, n) => {
    req.on('data', () => {});
    req.on('end', () => get({ port, agent, path: `/b/${n}` }).then(() => res.end(`ok ${n}`)));
  }, { method: 'POST', body: 'x'.repeat(200000) }));
});

test('a pool that calls back whoever waits', async (t) => {
  const Module = require('node:module');
  const path = require('node:path');
  const { Pool } = Module.createRequire(path.join(__dirname, 'fixtures/'))('pg-pool');
  const port = await backend(t);
  const agents = [new http.Agent({ keepAlive: true, maxSockets: 1 }), new http.Agent({ keepAlive: true, maxSockets: 1 })];
  const pool = new Pool(agents);
  t.after(() => agents.forEach((a) => a.destroy()));
  right(await drive(t, (req, res, n) => new Promise((resolve) => {
    pool.connect((agent, release) => get({ port, agent, path: `/b/${n}` }).then(() => {
      release();
      res.end(`ok ${n}`);
      resolve();
    }));
  })));
});

test('a driver that writes its queue from its connection\'s events: not linked, rather than wrong', async (t) => {
  // One connection, opened by a request, with requests that wait in an array of the driver's own.
  const answering = net.createServer((s) => { s.on('error', () => {}); s.on('data', () => setTimeout(() => s.write('.'), 1)); });
  const port = await listen(t, answering);
  const queue = [];
  let socket;
  const pump = () => { if (queue.length) socket.write(`QUERY /b/${queue[0].n}\n`); };
  const query = (n) => new Promise((done) => {
    queue.push({ n, done });
    if (!socket) {
      socket = net.connect(port, '127.0.0.1', pump);
      socket.on('data', () => { queue.shift().done(); pump(); });
    } else if (queue.length === 1) pump();
  });
  const calls = await drive(t, async (req, res, n) => { await query(n); await sleep(5); res.end(`ok ${n}`); });
  socket.destroy();
  neverWrong(calls);
});

test('two requests in one read: the second is not linked', async (t) => {
  const port = await backend(t);
  const service = await listen(t, http.createServer(async (req, res) => {
    await get({ port, path: `/b/${numberOf(req.url)}` });
    res.end('ok');
  }));
  sends.length = 0;
  const socket = net.connect(service, '127.0.0.1');
  const one = (n) => `GET /a/${n} HTTP/1.1\r\nHost: x\r\n\r\n`;
  socket.write(one(7001) + one(7002));
  let text = '';
  for await (const d of socket) {
    text += d;
    if (text.match(/200 OK/g)?.length === 2) break;
  }
  assert.deepEqual(sends.filter((s) => s.number > 7000).sort((a, b) => a.number - b.number),
    [{ number: 7001, linked: 7001 }, { number: 7002, linked: 'none' }]);
});

test('what no request caused is not linked', async (t) => {
  const port = await backend(t);
  sends.length = 0;
  await get({ port, path: '/b/1' });
  assert.deepEqual(sends, [{ number: 1, linked: 'none' }]);
});

test('HTTP/2 is left alone', async (t) => {
  const server = http2.createServer((req, res) => res.end('ok'));
  const port = await listen(t, server);
  const client = http2.connect(`http://127.0.0.1:${port}`);
  const receipt = words()[3];
  const stream = client.request({ ':path': '/a/1' });
  let text = '';
  for await (const d of stream) text += d;
  client.close();
  assert.equal(text, 'ok');
  assert.equal(words()[3], receipt);
});
