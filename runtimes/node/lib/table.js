// The table of runtimes/PROTOCOL.md, with one slot: JavaScript runs in the main thread, whose id is the process's.
//
// It is the memory of WebAssembly, because V8 gives that a mapping of its own, which begins with our magic; other
// memory of JavaScript lies somewhere inside of a mapping, where the agent would not find it.
'use strict';

const MAGIC = Buffer.concat([
  Buffer.from('\0tare-threads-v1\0', 'latin1'),
  Buffer.from('9e3779b97f4a7c15f39cc0605cedc8', 'hex'),
]);
const HEADER = 64; // bytes
const CURRENT = 1; // in words of 8 bytes
const RECEIPT = 3;

// create maps the table and returns the main thread's record. Tokens are doubles, which cost nothing to write; the
// kernel side sees their bits. They count 1, 2, 3, which is exact up to 2^53.
function create() {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1 });
  const words = new Float64Array(memory.buffer, HEADER, 8);
  const record = {
    memory,
    // The work that is shown while a socket is written; 0 for none.
    show(token) { words[CURRENT] = token; },
    // The token for what this thread received last. The next is published at once.
    take() {
      const token = words[RECEIPT];
      words[RECEIPT] = token + 1;
      return token;
    },
  };
  words[RECEIPT] = 1;
  new Uint32Array(memory.buffer, HEADER, 1)[0] = process.pid;
  new Uint32Array(memory.buffer, 32, 1)[0] = 1; // slots
  new Uint8Array(memory.buffer).set(MAGIC); // last: who sees it may read the rest
  return record;
}

module.exports = { create };
