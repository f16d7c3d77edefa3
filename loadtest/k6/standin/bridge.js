// The virtual user's side of the line to the main thread: requests that block, samples that do not.
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';

export const position = { scenario: '', iteration: 0, vu: workerData.vu, own: 0 };

const signal = new Int32Array(workerData.signal);

// exchange hands one request to the main thread and waits for the answer. Status 0 is no answer.
export function exchange(request) {
  Atomics.store(signal, 0, 0);
  workerData.port.postMessage(request);
  Atomics.wait(signal, 0, 0);
  return receiveMessageOnPort(workerData.port).message;
}

export function record(name, type, value, tags) {
  parentPort.postMessage({ kind: 'sample', name, type, value, tags: { scenario: position.scenario, ...tags } });
}
