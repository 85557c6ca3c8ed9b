// Stands for the kernel side: binds receipts to the number in each request, and reads the record at each write. It has
// to be loaded before anything else, and loads the shim: its functions are inside of the shim's.
'use strict';

const { Socket } = require('net');
const { channel } = require('diagnostics_channel');

const create = WebAssembly.Memory;
let memory;
WebAssembly.Memory = function (options) {
  memory = new create(options);
  return memory;
};

const bindings = new Map(); // receipt → number of the request
const sends = []; // { number: of the call, linked: number of the request that it was linked to }
const words = () => new Float64Array(memory.buffer, 64, 8);

// Every test request is GET or POST /ROLE/NUMBER: "a" is received by the service under test, "b" is its call.
const numberOf = (url) => Number(/^\/[a-z]+\/(\d+)/.exec(url)?.[1]);

const start = channel('http.server.request.start');
start.subscribe(({ request }) => {
  if (request.url.startsWith('/a/')) bindings.set(words()[3], numberOf(request.url));
  else bindings.delete(words()[3]); // the test's own server, in the same process
});

const write = Socket.prototype._writeGeneric;
Socket.prototype._writeGeneric = function (writev, data, encoding, cb) {
  if (!this.connecting) {
    const text = writev ? data.map((d) => d.chunk.toString('latin1')).join('') : data.toString('latin1');
    for (const [, path] of text.matchAll(/^(?:GET|POST|QUERY) (\/b\/\d+)/gm)) {
      const current = words()[1];
      sends.push({ number: numberOf(path), linked: current === 0 ? 'none' : bindings.get(current) ?? 'unbound' });
    }
  }
  return write.call(this, writev, data, encoding, cb);
};

require('../tare.js');
WebAssembly.Memory = create;

module.exports = { memory: () => memory, words, sends, numberOf };
