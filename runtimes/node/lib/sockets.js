// Shows the work while a socket is written: plain or TLS, at once or after the connection is there.
'use strict';

const { Socket } = require('net');
const { TOKEN, on, work } = require('./requests');

const FIRST = Symbol('tare.first');

function follow(record) {
  // undici and fetch write a request when its turn on a connection comes, in whatever context that is.
  on('undici:request:create', ({ request }) => { request[TOKEN] = work.getStore() ?? 0; });
  on('undici:client:sendHeaders', ({ request, socket }) => { socket[TOKEN] = request[TOKEN] ?? 0; });

  const write = Socket.prototype._writeGeneric;
  const connect = Socket.prototype.connect;
  if (typeof write !== 'function' || typeof connect !== 'function') return;

  Socket.prototype._writeGeneric = function _writeGeneric(writev, data, encoding, cb) {
    let token = this[TOKEN] ?? work.getStore();
    if (this.connecting) {
      this[FIRST] = token; // Node calls again with the same when it is connected
    } else if (this[FIRST] !== undefined) {
      token = this[FIRST];
      this[FIRST] = undefined;
    }
    if (!token) return write.call(this, writev, data, encoding, cb);
    record.show(token);
    try {
      return write.call(this, writev, data, encoding, cb);
    } finally {
      record.show(0);
    }
  };

  // What a connection receives is not the work of the request that opened it: pools lend it to others. Code that only
  // has the connection's context (a queue inside of a driver) writes for nobody, and not for the one that came first.
  Socket.prototype.connect = function (...args) {
    if (!work.getStore()) return connect.apply(this, args);
    return work.run(undefined, () => connect.apply(this, args));
  };
}

module.exports = { follow };
