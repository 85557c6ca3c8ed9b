// Which request the running code works for: AsyncLocalStorage carries it over promises, timers and callbacks.
'use strict';

const { AsyncLocalStorage } = require('async_hooks');
const { channel } = require('diagnostics_channel');
const { EventEmitter } = require('events');
const { IncomingMessage } = require('http');

const TOKEN = Symbol('tare.token');
const READ = Symbol('tare.read');
const work = new AsyncLocalStorage();

// Channels are kept here: some versions of Node forget one that nobody holds.
const channels = [];

// on subscribes to a channel of Node's. What f throws would end the process, so it ends here.
function on(name, f) {
  const c = channel(name);
  channels.push(c);
  c.subscribe((message) => {
    try {
      f(message);
    } catch {
      // Not linked.
    }
  });
}

function follow(record) {
  on('http.server.request.start', ({ request, socket }) => {
    // This runs inside of the read that completed the request's header, so the last receipt is the request's. If no
    // byte came since the connection's last request, both came in one read, and the second may be parsed any time later.
    const read = socket.bytesRead;
    if (socket[READ] === read) {
      work.enterWith(undefined);
      return;
    }
    socket[READ] = read;
    request[TOKEN] = record.take();
    work.enterWith(request[TOKEN]);
  });

  // The rest of a body comes in reads of its own, and 'data' and 'end' in their context: from Node 24 on that is the
  // connection's, and before the last request's.
  IncomingMessage.prototype.emit = function emit(...args) {
    const token = this[TOKEN];
    if (token === undefined || token === work.getStore()) {
      return EventEmitter.prototype.emit.apply(this, args);
    }
    return work.run(token, () => EventEmitter.prototype.emit.apply(this, args));
  };
}

module.exports = { TOKEN, follow, on, work };
