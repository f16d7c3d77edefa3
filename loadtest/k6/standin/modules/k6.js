import { record } from '../bridge.js';

export function sleep(seconds) {
  const nothing = new Int32Array(new SharedArrayBuffer(4));
  Atomics.wait(nothing, 0, 0, seconds * 1000);
}

export function check(value, sets, tags = {}) {
  let all = true;
  for (const [name, test] of Object.entries(sets)) {
    const ok = Boolean(typeof test === 'function' ? test(value) : test);
    record('checks', 'rate', ok ? 1 : 0, { ...tags, check: name });
    all = all && ok;
  }
  return all;
}

export function group(_name, run) {
  return run();
}

export function fail(message = '') {
  throw new Error(message);
}
