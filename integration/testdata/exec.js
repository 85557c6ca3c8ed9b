// node exec.js LISTEN: GET /n/5 has a program ask the backend, at the port BACKEND, about number 5.
const {createServer} = require('node:http');
const {execFile} = require('node:child_process');
const [host, port] = process.argv[2].split(':');
const script = `exec 3<>/dev/tcp/${host}/${process.env.BACKEND}; printf 'GET /n/%s HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n' "$0" >&3; read -r <&3`;
createServer((request, response) => {
  execFile('bash', ['--norc', '-c', script, String(parseInt(request.url.split('/').pop()))], (error) => {
    response.statusCode = error ? 502 : 200;
    response.end();
  });
}).listen(port, host);
