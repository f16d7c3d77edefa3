// Samples in, the summary's metrics and the thresholds' verdicts out.

// MAX_SAMPLES bounds what one metric keeps; beyond it the run fails rather than forget.
const MAX_SAMPLES = 2_000_000;

export class Results {
  constructor(thresholds = {}) {
    this.metrics = new Map();
    this.thresholds = thresholds;
    this.watched = Object.keys(thresholds).filter((name) => name.includes('{')).map((name) => ({ name, ...selector(name) }));
  }

  add(sample) {
    this.keep(sample.name, sample);
    for (const sub of this.watched) {
      if (sub.metric === sample.name && Object.entries(sub.tags).every(([tag, value]) => String(sample.tags[tag]) === value)) {
        this.keep(sub.name, sample);
      }
    }
  }

  keep(name, { type, value }) {
    const metric = this.metrics.get(name) || { type, samples: [] };
    this.metrics.set(name, metric);
    if (metric.samples.push(value) > MAX_SAMPLES) {
      throw new Error(`${name} has more than ${MAX_SAMPLES} samples`);
    }
  }

  // summary is handleSummary's argument; a threshold on a metric without samples holds, as in k6.
  summary(milliseconds) {
    const metrics = {};
    for (const [name, metric] of this.metrics) {
      metrics[name] = { type: metric.type, contains: name.includes('duration') ? 'time' : 'default', values: values(metric, milliseconds) };
    }
    for (const [name, list] of Object.entries(this.thresholds)) {
      if (!metrics[name]) {
        continue;
      }
      metrics[name].thresholds = Object.fromEntries([list].flat().map((t) => {
        const text = typeof t === 'string' ? t : t.threshold;
        return [text, { ok: holds(text, this.metrics.get(name), metrics[name].values) }];
      }));
    }
    return { metrics, root_group: { name: '', path: '', groups: [], checks: [] }, options: {}, state: { isStdErrTTY: false, isStdOutTTY: false, testRunDurationMs: milliseconds } };
  }
}

export function failed(summary) {
  return Object.entries(summary.metrics).flatMap(([name, metric]) =>
    Object.entries(metric.thresholds || {}).filter(([, verdict]) => !verdict.ok).map(([text]) => `${name} ${text}`));
}

function selector(name) {
  const [, metric, inside] = /^([^{]+)\{(.*)\}$/.exec(name);
  return { metric, tags: Object.fromEntries(inside.split(',').map((pair) => pair.split(':').map((part) => part.trim()))) };
}

function values({ type, samples }, milliseconds) {
  const sum = samples.reduce((a, b) => a + b, 0);
  switch (type) {
    case 'counter':
      return { count: sum, rate: sum / (milliseconds / 1000) };
    case 'rate': {
      const passes = samples.filter((s) => s !== 0).length;
      return { rate: samples.length ? passes / samples.length : 0, passes, fails: samples.length - passes };
    }
    case 'gauge':
      return { value: samples.at(-1), min: Math.min(...samples), max: Math.max(...samples) };
    default: {
      const sorted = [...samples].sort((a, b) => a - b);
      return { avg: sum / samples.length, min: sorted[0], med: percentile(sorted, 50), max: sorted.at(-1), 'p(90)': percentile(sorted, 90), 'p(95)': percentile(sorted, 95) };
    }
  }
}

function percentile(sorted, p) {
  const at = (sorted.length - 1) * (p / 100);
  const below = sorted[Math.floor(at)];
  return below + (sorted[Math.ceil(at)] - below) * (at - Math.floor(at));
}

function holds(text, metric, computed) {
  const parsed = /^\s*([a-z]+(?:\((\d+(?:\.\d+)?)\))?)\s*(<=|>=|===|==|!=|<|>)\s*(-?\d+(?:\.\d+)?)\s*$/.exec(text);
  if (!parsed) {
    throw new Error(`threshold not understood: ${text}`);
  }
  const [, name, p, operator, bound] = parsed;
  const value = p ? percentile([...metric.samples].sort((a, b) => a - b), Number(p)) : computed[name];
  if (value === undefined) {
    throw new Error(`threshold ${text}: a ${metric.type} has no ${name}`);
  }
  const limit = Number(bound);
  return { '<': value < limit, '<=': value <= limit, '>': value > limit, '>=': value >= limit, '==': value === limit, '===': value === limit, '!=': value !== limit }[operator];
}
