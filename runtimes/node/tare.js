// node --require @tare-trace/node app.js, or NODE_OPTIONS=--require=/path/to/tare.js
//
// Whatever goes wrong here, the application runs as it would without.
'use strict';

const { isMainThread } = require('worker_threads');

// A worker thread cannot learn its thread id: what it sends is not linked.
if (isMainThread && process.platform === 'linux' && process.env.TARE_SHIM !== 'off') {
  try {
    const record = require('./lib/table').create();
    require('./lib/requests').follow(record);
    require('./lib/pools').follow();
    require('./lib/sockets').follow(record);
  } catch {
    // WebAssembly disabled, or a Node without what is patched: nothing is linked.
  }
}
