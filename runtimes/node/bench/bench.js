// What the shim costs, ns each: the best of 12 rounds. Run twice, for the difference: node bench.js; node --require ../tare.js bench.js
'use strict';

const { channel } = require('diagnostics_channel');
const { Socket } = require('net');
const { AsyncLocalStorage } = require('async_hooks');

const shim = process.execArgv.some((a) => a.includes('tare')) || (process.env.NODE_OPTIONS ?? '').includes('tare');
const show = (name, ns) => console.log(`  ${name.padEnd(40)} ${ns.toFixed(1).padStart(7)} ns`);

async function time(name, n, f) {
  let best = Infinity;
  for (let i = 0; i < 12; i++) {
    const t = process.hrtime.bigint();
    await f(n);
    best = Math.min(best, Number(process.hrtime.bigint() - t) / n);
  }
  show(name, best);
}

(async () => {
  console.log(`${process.version}, ${shim ? 'with' : 'without'} the shim`);
  // A socket whose handle does nothing: what is left is Node's own work, and the shim's.
  const socket = new Socket();
  socket._handle = { writeLatin1String: () => 0, getAsyncId: () => 0, bytesRead: 0, close() {} };
  const start = channel('http.server.request.start');
  const message = { request: {}, socket: { bytesRead: 0 } };
  const done = () => {};
  const writes = (n) => { for (let i = 0; i < n; i++) socket._writeGeneric(false, 'x', 'latin1', done); };
  await time('a write, no request', 1e6, writes);
  await time('a request begins', 1e6, (n) => { for (let i = 0; i < n; i++) { message.socket.bytesRead++; start.publish(message); } });
  start.publish({ request: {}, socket: { bytesRead: 1 } });
  writes(1);
  message.socket.bytesRead++;
  await time('a write, of a request', 1e6, (n) => { message.socket.bytesRead++; start.publish(message); writes(n); });
  await time('await null', 1e6, async (n) => { for (let i = 0; i < n; i++) await null; });
  if (!shim) {
    new AsyncLocalStorage().enterWith(1);
    await time('await null, if anybody uses such storage', 1e6, async (n) => { for (let i = 0; i < n; i++) await null; });
  }
})();
