// Executors: when which virtual user runs an iteration. constant-vus, shared-iterations and constant-arrival-rate.
import { setTimeout as pause } from 'node:timers/promises';

// milliseconds reads k6's durations: 1m30s, 500ms.
export function milliseconds(text) {
  const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
  const parts = [...String(text).matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  if (parts.length === 0 || parts.map((p) => p[0]).join('') !== String(text)) {
    throw new Error(`duration not understood: ${text}`);
  }
  return parts.reduce((sum, [, n, unit]) => sum + Number(n) * units[unit], 0);
}

// users is how many virtual users a scenario needs.
export function users(scenario) {
  return scenario.executor === 'constant-arrival-rate' ? scenario.maxVUs || scenario.preAllocatedVUs : scenario.vus || 1;
}

// play runs one scenario on its pool to its end. iterate(user, n) runs iteration n; dropped() counts one that found no
// free user.
export async function play(scenario, pool, iterate, dropped) {
  let next = 0;
  const loop = (more) => Promise.all(pool.map(async (user) => {
    while (more()) {
      await iterate(user, next++);
    }
  }));
  switch (scenario.executor) {
    case 'constant-vus': {
      const end = performance.now() + milliseconds(scenario.duration);
      return loop(() => performance.now() < end);
    }
    case 'shared-iterations':
      return loop(() => next < (scenario.iterations || 1));
    case 'constant-arrival-rate': {
      const every = milliseconds(scenario.timeUnit || '1s') / scenario.rate;
      const total = Math.floor(milliseconds(scenario.duration) / every);
      const free = [...pool];
      const busy = new Set();
      const start = performance.now();
      for (let i = 0; i < total; i++) {
        await pause(Math.max(0, start + i * every - performance.now()));
        const user = free.pop();
        if (!user) {
          dropped();
          continue;
        }
        const run = iterate(user, next++).finally(() => {
          busy.delete(run);
          free.push(user);
        });
        busy.add(run);
      }
      return Promise.all(busy);
    }
    default:
      throw new Error(`executor not known here: ${scenario.executor}`);
  }
}
