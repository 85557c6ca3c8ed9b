// Pools that call back whoever waits for a connection, from within the request that returns one. The callback must
// run for the request that asked. Pools that use promises, and Node's own Agent, do that by themselves.
'use strict';

const { AsyncResource } = require('async_hooks');
const Module = require('module');

// The end of a module's file name, and the method of the class it exports whose last argument is the callback.
const POOLS = [
  ['/pg-pool/index.js', 'connect'],
  ['/mysql2/lib/base/pool.js', 'getConnection'],
  ['/mysql2/lib/pool.js', 'getConnection'], // before 3.11
  ['/mysql/lib/Pool.js', 'getConnection'],
];

function bind(prototype, method) {
  if (!prototype || !Object.hasOwn(prototype, method)) return;
  const original = prototype[method];
  prototype[method] = function (...args) {
    const last = args.length - 1;
    if (typeof args[last] === 'function') args[last] = AsyncResource.bind(args[last]);
    return original.apply(this, args);
  };
}

function follow() {
  const load = Module.prototype.load;
  Module.prototype.load = function (filename) {
    const result = load.call(this, filename);
    try {
      const pool = POOLS.find(([end]) => filename.endsWith(end));
      if (pool) bind(this.exports?.prototype, pool[1]);
    } catch {
      // Not a pool of the shape that is known.
    }
    return result;
  };
}

module.exports = { follow };
