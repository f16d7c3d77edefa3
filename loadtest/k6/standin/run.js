// A small stand-in for `k6 run`, for checking that our scripts run: node run.js [-e NAME=VALUE]… SCRIPT
//
// It knows what our scripts use and refuses the rest. Its figures are no benchmark. Exit codes are k6's: 0, 99 when a
// threshold failed, 107 when the script threw outside an iteration.
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { failed, Results } from './results.js';
import { play, users } from './scenarios.js';
import { User } from './users.js';

const EXIT_THRESHOLDS = 99;
const EXIT_SCRIPT = 107;

function parse(args) {
  const env = { ...process.env };
  let script = '';
  for (let i = 0; i < args.length; i++) {
    if (args[i] === '-e') {
      const [name, ...value] = String(args[++i]).split('=');
      env[name] = value.join('=');
    } else if (args[i].startsWith('-') || script) {
      throw new Error(`argument not known here: ${args[i]}`);
    } else {
      script = args[i];
    }
  }
  return { env, script: pathToFileURL(resolve(script)).href };
}

function write(outputs) {
  for (const [to, text] of Object.entries(outputs)) {
    if (to === 'stdout' || to === 'stderr') {
      process[to].write(text);
    } else {
      writeFileSync(to, text);
    }
  }
}

async function main() {
  const { env, script } = parse(process.argv.slice(2));
  let results = new Results();
  const user = (vu) => new User(vu, script, env, (sample) => results.add(sample));
  const first = user(0);
  const { options, summary: own } = await first.loaded;
  results = new Results(options.thresholds);

  const data = await first.run({ kind: 'setup' });
  const started = performance.now();
  let count = 0;
  await Promise.all(Object.entries(options.scenarios || {}).map(async ([name, scenario]) => {
    const pool = Array.from({ length: users(scenario) }, () => user(++count));
    await Promise.all(pool.map((u) => u.loaded));
    const iterate = (u, iteration) => u.run({ kind: 'iterate', scenario: name, exec: scenario.exec || 'default', iteration, data })
      .catch((error) => console.error(`iteration ${iteration}: ${error.message}`));
    await play(scenario, pool, iterate, () => results.add({ name: 'dropped_iterations', type: 'counter', value: 1, tags: {} }));
    await Promise.all(pool.map((u) => u.stop()));
  }));
  const summary = results.summary(performance.now() - started);
  await first.run({ kind: 'teardown', data });
  write(own ? await first.run({ kind: 'summary', data: summary }) : { stdout: `${JSON.stringify(summary.metrics, null, 2)}\n` });
  const broken = failed(summary);
  if (broken.length > 0) {
    console.error(`thresholds failed: ${broken.join(', ')}`);
  }
  return broken.length > 0 ? EXIT_THRESHOLDS : 0;
}

main().then((code) => process.exit(code), (error) => {
  console.error(error.message);
  process.exit(EXIT_SCRIPT);
});
