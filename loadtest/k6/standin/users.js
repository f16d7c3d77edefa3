// Virtual users as the main thread sees them: it runs tasks on them and does their HTTP.
import http from 'node:http';
import { MessageChannel, Worker } from 'node:worker_threads';

const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });

// MAX_BODY bounds an answer, in bytes.
const MAX_BODY = 8 << 20;

function send(request) {
  const started = performance.now();
  return new Promise((resolve) => {
    const end = (answer) => resolve({ body: '', headers: {}, error: '', ...answer, duration: performance.now() - started });
    const body = request.body === null || request.body === undefined ? '' : String(request.body);
    const headers = body ? { ...request.headers, 'Content-Length': Buffer.byteLength(body) } : request.headers;
    const out = http.request(request.url, { method: request.method, headers, agent, timeout: request.timeout }, (answer) => {
      const chunks = [];
      let size = 0;
      answer.on('data', (chunk) => {
        size += chunk.length;
        size > MAX_BODY ? out.destroy(new Error('answer too large')) : chunks.push(chunk);
      });
      answer.on('end', () => end({ status: answer.statusCode, headers: canonical(answer.headers), body: Buffer.concat(chunks).toString() }));
    });
    out.on('timeout', () => out.destroy(new Error('timeout')));
    out.on('error', (error) => end({ status: 0, error: String(error) }));
    out.end(body);
  });
}

// k6 gives header names in Go's canonical form: Retry-After.
function canonical(headers) {
  const upper = (name) => name.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [upper(name), String(value)]));
}

export class User {
  constructor(vu, script, env, onSample) {
    const { port1, port2 } = new MessageChannel();
    const signal = new SharedArrayBuffer(4);
    const wake = new Int32Array(signal);
    port1.on('message', async (request) => {
      port1.postMessage(await send(request));
      Atomics.store(wake, 0, 1);
      Atomics.notify(wake, 0);
    });
    this.pending = null;
    this.worker = new Worker(new URL('./vu.js', import.meta.url), {
      workerData: { vu, script, env, port: port2, signal },
      transferList: [port2],
    });
    this.worker.on('message', (m) => (m.kind === 'sample' ? onSample(m) : this.settle(m.error, m.value)));
    this.worker.on('error', (error) => this.settle(String(error.stack || error)));
    this.loaded = this.wait();
  }

  wait() {
    return new Promise((resolve, reject) => {
      this.pending = { resolve, reject };
    });
  }

  settle(error, value) {
    const { resolve, reject } = this.pending || {};
    this.pending = null;
    if (error && reject) {
      reject(new Error(error));
    } else if (resolve) {
      resolve(value);
    }
  }

  // run gives the user one task; it takes one at a time.
  run(task) {
    const done = this.wait();
    this.worker.postMessage(task);
    return done;
  }

  stop() {
    return this.worker.terminate();
  }
}
