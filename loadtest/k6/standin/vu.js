// One virtual user: a thread that has loaded the script and runs what the main thread tells it to.
import { register } from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';
import { position, record } from './bridge.js';

globalThis.__ENV = workerData.env;
globalThis.__VU = workerData.vu;
globalThis.__ITER = 0;
register('./hooks.js', import.meta.url);

const script = await import(workerData.script);

function run(task) {
  switch (task.kind) {
    case 'iterate': {
      Object.assign(position, { scenario: task.scenario, iteration: task.iteration });
      globalThis.__ITER = position.own;
      const started = performance.now();
      try {
        script[task.exec](task.data);
      } finally {
        record('iteration_duration', 'trend', performance.now() - started, {});
        record('iterations', 'counter', 1, {});
        position.own++;
      }
      return null;
    }
    case 'summary':
      return script.handleSummary ? script.handleSummary(task.data) : null;
    default: // setup, teardown
      return script[task.kind] ? script[task.kind](task.data) : undefined;
  }
}

parentPort.on('message', (task) => {
  try {
    parentPort.postMessage({ kind: 'done', value: run(task) });
  } catch (error) {
    parentPort.postMessage({ kind: 'done', error: String(error.stack || error) });
  }
});
parentPort.postMessage({ kind: 'done', value: { options: script.options || {}, summary: Boolean(script.handleSummary) } });
