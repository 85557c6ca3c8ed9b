// service.js BACKEND_PORT: answers /a/N after it called the backend for /b/N three times. Prints its port.
'use strict';

const http = require('node:http');

const port = process.argv[2];
const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
const call = (n) => new Promise((resolve, reject) => {
  http.get({ host: '127.0.0.1', port, agent, path: `/b/${n}` }, (r) => r.resume().on('end', resolve)).on('error', reject);
});

const server = http.createServer((req, res) => {
  req.resume().on('end', async () => {
    const n = req.url.split('/')[2];
    await call(n);
    await new Promise((resolve) => setTimeout(resolve, 1));
    await Promise.all([call(n), fetch(`http://127.0.0.1:${port}/b/${n}`).then((r) => r.text())]);
    res.end(`ok ${n}`);
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
