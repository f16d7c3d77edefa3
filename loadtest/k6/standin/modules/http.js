// HTTP that blocks its virtual user, as k6's does: the main thread sends the request while this thread waits.
import { exchange, record } from '../bridge.js';

let defaultCallback = expectedStatuses({ min: 200, max: 399 });

export function expectedStatuses(...wanted) {
  return (status) => wanted.some((w) => (typeof w === 'number' ? status === w : status >= w.min && status <= w.max));
}

export function setResponseCallback(callback) {
  defaultCallback = callback;
}

export function request(method, url, body = null, params = {}) {
  const headers = { ...params.headers };
  const sent = exchange({ method, url: String(url), body, headers, timeout: 60_000 });
  const expected = (params.responseCallback || defaultCallback)(sent.status);
  const tags = { name: String(url), method, status: String(sent.status), expected_response: String(expected), ...params.tags };
  record('http_reqs', 'counter', 1, tags);
  record('http_req_duration', 'trend', sent.duration, tags);
  record('http_req_failed', 'rate', expected ? 0 : 1, tags);
  return { ...sent, url, timings: { duration: sent.duration }, json: (path) => pick(sent.body, path) };
}

function pick(body, path) {
  let value = JSON.parse(body);
  for (const step of path ? path.split('.') : []) {
    value = value === null || value === undefined ? undefined : value[step];
  }
  return value;
}

export const get = (url, params) => request('GET', url, null, params);
export const post = (url, body, params) => request('POST', url, body, params);
export const put = (url, body, params) => request('PUT', url, body, params);
export const del = (url, body, params) => request('DELETE', url, body, params);

export default { request, get, post, put, del, expectedStatuses, setResponseCallback };
