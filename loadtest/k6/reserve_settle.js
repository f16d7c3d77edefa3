// Reserve -> settle against a running Weir, by several tenants at once.
//
//   k6 run -e WEIR_URL=http://127.0.0.1:18080 -e WEIR_KEYS=wk_a,wk_b loadtest/k6/reserve_settle.js
//
// WEIR_URL       admission's address (weir env prints it)
// WEIR_KEYS      one API key a tenant, separated by commas; iterations take turns
// WEIR_RATE      iterations a second (20)        WEIR_DURATION  how long (10s)
// WEIR_P95       most milliseconds of a reserve, 95th percentile (500)
// WEIR_SUMMARY   file for the summary in JSON (none)
import http from 'k6/http';
import { check, fail, sleep } from 'k6';
import { SharedArray } from 'k6/data';
import exec from 'k6/execution';
import { Counter, Rate, Trend } from 'k6/metrics';

const url = __ENV.WEIR_URL || 'http://127.0.0.1:18080';
const keys = new SharedArray('keys', () => (__ENV.WEIR_KEYS || '').split(',').filter((key) => key !== ''));

const settled = new Counter('weir_settled');
const refused = new Counter('weir_refused');
const broken = new Rate('weir_broken'); // iterations that ended neither settled nor refused
const reserveToSettle = new Trend('weir_reserve_to_settle', true);

const rate = Number(__ENV.WEIR_RATE || 20);

/** @type {import('k6/options').Options} */
export const options = {
  scenarios: {
    agents: {
      executor: 'constant-arrival-rate',
      rate,
      timeUnit: '1s',
      duration: __ENV.WEIR_DURATION || '10s',
      preAllocatedVUs: Math.max(4, Math.ceil(rate / 4)),
      maxVUs: Math.max(8, rate),
    },
  },
  thresholds: {
    http_req_failed: ['rate<0.01'],
    'http_req_duration{name:reserve}': [`p(95)<${__ENV.WEIR_P95 || 500}`],
    weir_broken: ['rate<0.01'],
    weir_settled: ['count>0'],
  },
};

// A refusal is an answer, not a failure of the request.
http.setResponseCallback(http.expectedStatuses({ min: 200, max: 299 }, 403, 429));

export function setup() {
  if (keys.length === 0) {
    fail('WEIR_KEYS names no key: weir keys create --tenant T');
  }
  const ready = http.get(`${url}/readyz`, { tags: { name: 'ready' } });
  if (ready.status !== 200) {
    fail(`${url} is not ready: ${ready.status}`);
  }
  return { run: Date.now().toString(36) };
}

/** @param {{run: string}} data */
export default function (data) {
  const n = exec.scenario.iterationInTest;
  const id = `k6-${data.run}-${n}`;
  const input = 200 + ((n * 37) % 1800);
  const output = 20 + ((n * 13) % 300);
  const headers = { Authorization: `Bearer ${keys[n % keys.length]}`, 'Content-Type': 'application/json' };

  const started = Date.now();
  const admitted = reserve(headers, {
    reservation_id: id,
    provider: 'openai',
    model: 'gpt-4o-mini',
    agent_id: 'k6',
    estimate: { input_tokens: input, max_output_tokens: 512 },
  });
  if (!admitted) {
    return;
  }
  sleep(0.01); // the provider's call
  const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
  const answer = http.post(
    `${url}/v1/reservations/${id}/settle`,
    JSON.stringify({ usage, api: 'chat.completions', status: 'SUCCESS' }),
    { headers, tags: { name: 'settle' } },
  );
  const ok = check(answer, { settled: (r) => r.status === 200 && r.json('state') === 'settled' });
  broken.add(!ok);
  if (ok) {
    settled.add(1);
    reserveToSettle.add(Date.now() - started);
  }
}

/**
 * Reserves one call; what says Retry-After is asked again under the same id, a quota never.
 * @param {Record<string, string>} headers
 * @param {object} body
 */
function reserve(headers, body) {
  for (let attempt = 0; attempt < 5; attempt++) {
    const answer = http.post(`${url}/v1/reservations`, JSON.stringify(body), { headers, tags: { name: 'reserve' } });
    if (answer.status === 200 || answer.status === 201) {
      return true;
    }
    const code = answer.status === 0 ? 'no_answer' : String(answer.json('code'));
    refused.add(1, { code });
    const wait = Number(answer.headers['Retry-After']);
    if (!wait) {
      broken.add(answer.status !== 403 && answer.status !== 429);
      return false;
    }
    sleep(Math.min(wait, 5));
  }
  return false;
}

/** @param {any} data */
export function handleSummary(data) {
  /** @type {(name: string, key: string) => number} */
  const value = (name, key) => (data.metrics[name] ? data.metrics[name].values[key] : 0);
  const lines = [
    `settled ${value('weir_settled', 'count')}, refused ${value('weir_refused', 'count')}, dropped ${value('dropped_iterations', 'count')}`,
    `reserve p95 ${value('http_req_duration{name:reserve}', 'p(95)').toFixed(1)} ms, reserve to settle p95 ${value('weir_reserve_to_settle', 'p(95)').toFixed(1)} ms`,
  ];
  for (const [name, metric] of Object.entries(data.metrics)) {
    for (const [threshold, result] of Object.entries(metric.thresholds || {})) {
      lines.push(`${result.ok ? 'ok  ' : 'FAIL'} ${name} ${threshold}`);
    }
  }
  /** @type {Record<string, string>} */
  const out = { stdout: `${lines.join('\n')}\n` };
  if (__ENV.WEIR_SUMMARY) {
    out[__ENV.WEIR_SUMMARY] = JSON.stringify(data, null, 2);
  }
  return out;
}
