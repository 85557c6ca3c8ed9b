// The table is where and what PROTOCOL.md says, and the application never notices when it is not there.
'use strict';

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const path = require('node:path');
const test = require('node:test');

const SHIM = path.join(__dirname, '../tare.js');

// run starts a Node with the shim and returns what the script prints.
const run = (script, { flags = [], env = {} } = {}) => execFileSync(process.execPath, ['--require', SHIM, ...flags, '-e', script],
  { encoding: 'utf8', env: { ...process.env, NODE_OPTIONS: '', ...env } });

// In the process itself: which mappings begin with the magic, and the record behind it.
const FIND = `
  const fs = require('fs');
  function tables() {
    const mem = fs.openSync('/proc/self/mem'), found = [];
    for (const line of fs.readFileSync('/proc/self/maps', 'latin1').split('\\n')) {
      const m = /^([0-9a-f]+)-[0-9a-f]+ rw/.exec(line);
      if (!m) continue;
      const head = Buffer.alloc(128);
      try { fs.readSync(mem, head, 0, 128, parseInt(m[1], 16)); } catch { continue; }
      if (head.toString('latin1', 0, 17) === '\\0tare-threads-v1\\0') found.push(head);
    }
    return found;
  }`;

const SERVE = `
  const http = require('http');
  const server = http.createServer((q, s) => http.get({ port: back.address().port }, (r) => r.resume().on('end', () => s.end('served'))));
  const back = http.createServer((q, s) => s.end());
  back.listen(0, () => server.listen(0, () => fetch('http://127.0.0.1:' + server.address().port).then((r) => r.text())
    .then((text) => { console.log(text); process.exit(0); })));`;

test('exactly one mapping begins with the magic, and has the main thread\'s record', () => {
  const [n, magic, slots, tid, flags, current, receipt] = run(`${FIND}
    const [t] = tables();
    console.log([tables().length, t.toString('hex', 17, 32), t.readUInt32LE(32), t.readUInt32LE(64) === process.pid,
      t.readUInt32LE(68), t.readBigUInt64LE(72), t.readDoubleLE(88)].join(' '));`).trim().split(' ');
  assert.deepEqual([n, magic, slots, tid, flags, current, receipt],
    ['1', '9e3779b97f4a7c15f39cc0605cedc8', '1', 'true', '0', '0', '1']);
});

test('a worker thread makes no table of its own', () => {
  assert.equal(run(`${FIND}
    const { Worker } = require('worker_threads');
    new Worker('1', { eval: true }).on('exit', (code) => console.log(code, tables().length));`).trim(), '0 1');
});

test('TARE_SHIM=off', () => {
  assert.equal(run(`${FIND} console.log(tables().length)`, { env: { TARE_SHIM: 'off' } }).trim(), '0');
});

for (const [name, options] of Object.entries({
  'with the shim': {},
  'without WebAssembly': { flags: ['--jitless'] },
  'memory is refused': { flags: ['--require', path.join(__dirname, 'fixtures/no-memory.js')], first: true },
})) {
  test(`the application serves: ${name}`, () => {
    const env = { NODE_OPTIONS: options.first ? options.flags.join(' ') : '' };
    // NODE_OPTIONS are applied before the command line's.
    assert.equal(run(name === 'without WebAssembly' ? SERVE.replace(/fetch\(.*\)\.then\(\(r\) => r\.text\(\)\)/s,
      "new Promise((ok) => http.get({ port: server.address().port }, (r) => { r.setEncoding('utf8'); r.on('data', ok); }))") : SERVE,
      { flags: options.first ? [] : options.flags, env }).trim(), 'served');
  });
}

test('an error inside of the shim does not reach the application', () => {
  // The subscriber fails at every request: whoever reads bytesRead throws.
  assert.equal(run(`${SERVE}
    server.on('connection', (s) => Object.defineProperty(s, 'bytesRead', { get() { throw new Error('shim'); } }));`).trim(), 'served');
});
