// Reserve -> call -> settle in TypeScript, on Node's own fetch.
//
//   npm ci && npm run build && WEIR_URL=http://127.0.0.1:18080 WEIR_KEY=wk_... npm start
//
// What to copy is the class Weir and the function complete(); the provider below is a stand-in that needs no network.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';

/** The tenant's budget is used up. Retrying cannot help: tell the user, and stop. */
class QuotaExceeded extends Error {}
/** Any other refusal, with its code. */
class Refused extends Error {}
/** The provider answered with an error before any token. */
class ProviderError extends Error {}
/** The stream broke: some tokens were used, and nobody knows how many. */
class StreamCut extends Error {}

interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
}

interface Reservation {
  reservation_id: string;
  provider: string;
  model: string;
  agent_id: string;
  estimate: { input_tokens: number; max_output_tokens: number };
}

interface Report {
  status: 'SUCCESS' | 'FAILED' | 'PARTIAL';
  usage?: Usage;
  api?: string;
  error_code?: string;
  response_id?: string;
}

interface Settled {
  state: string;
  status: string;
  cost_usd: string | null;
  estimated: boolean;
}

type Provider = (model: string, prompt: string, maxTokens: number) => Promise<{ id: string; usage: Usage }>;

class Weir {
  /** Called whenever a call is told to wait. */
  onWait: () => void = () => {};

  constructor(
    private readonly url: string,
    private readonly key: string,
  ) {}

  /** Asks until admitted. The id stays the same, so a repeat never reserves twice. */
  async reserve(body: Reservation): Promise<{ receipt: string; model: string }> {
    return this.insist('/v1/reservations', body, 10);
  }

  /** Reports what was used. It must arrive, so it is repeated until Weir has it; a repeat counts once. */
  async settle(id: string, receipt: string, report: Report): Promise<Settled> {
    return this.insist(`/v1/reservations/${id}/settle`, { ...report, receipt }, 20);
  }

  private async insist<T>(path: string, body: object, attempts: number): Promise<T> {
    for (let attempt = 0; attempt < attempts; attempt++) {
      let response: Response;
      let answer: { code?: string; limit?: string; detail?: string };
      try {
        response = await fetch(this.url + path, {
          method: 'POST',
          headers: { Authorization: `Bearer ${this.key}`, 'Content-Type': 'application/json' },
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(10_000),
        });
        answer = (await response.json()) as typeof answer;
      } catch {
        await pause(500); // an answer that was lost: ask again, the same
        continue;
      }
      if (response.ok) {
        return answer as T;
      }
      if (answer.code === 'tenant_quota_exceeded') {
        throw new QuotaExceeded(answer.detail); // has no Retry-After, and must not be retried
      }
      const wait = response.headers.get('retry-after');
      if (wait === null) {
        throw new Refused(answer.code);
      }
      console.log('waiting', answer.code, answer.limit ?? '');
      this.onWait();
      await pause(Math.min(Number(wait), 5) * 1000);
    }
    throw new Refused(`still refused after ${attempts} attempts`);
  }
}

const newId = () => `ts-${randomUUID()}`;

const reservation = (id: string, input: number, maxOutput: number): Reservation => ({
  reservation_id: id,
  provider: 'openai',
  model: 'gpt-4o',
  agent_id: 'example-typescript',
  estimate: { input_tokens: input, max_output_tokens: maxOutput },
});

/** One call of an agent: ask, call, report. Whatever happens to the call, the reservation is ended. */
async function complete(weir: Weir, provider: Provider, prompt: string, maxTokens = 600): Promise<Settled> {
  const id = newId();
  // The model granted: when the budget runs low it is the cheaper one of the plan, and that is the one to call.
  const { receipt, model } = await weir.reserve(reservation(id, prompt.length, maxTokens));
  let report: Report;
  try {
    const { usage, id: response_id } = await provider(model, prompt, maxTokens);
    report = { status: 'SUCCESS', api: 'chat.completions', usage, response_id };
  } catch (error) {
    if (error instanceof ProviderError) {
      report = { status: 'FAILED', error_code: error.message }; // nothing was generated: a row at $0
    } else if (error instanceof StreamCut) {
      report = { status: 'PARTIAL' }; // no usage: the estimate is charged, and one correction may follow
    } else {
      throw error; // a defect of ours: the lease runs out, and Weir books the hold as UNSETTLED
    }
  }
  return weir.settle(id, receipt, report);
}

const answers: Provider = async (_model, prompt, maxTokens) => {
  const [prompt_tokens, completion_tokens] = [prompt.length, Math.floor(maxTokens / 2)];
  return { id: `chatcmpl-${randomUUID()}`, usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens } };
};
const isDown: Provider = () => Promise.reject(new ProviderError('overloaded_error'));
const breaksOff: Provider = () => Promise.reject(new StreamCut());

async function main(): Promise<number> {
  const { WEIR_URL, WEIR_KEY } = process.env;
  if (!WEIR_URL || !WEIR_KEY) {
    throw new Error('set WEIR_URL and WEIR_KEY');
  }
  const weir = new Weir(WEIR_URL, WEIR_KEY);
  const prompt = 'Summarise this page. '.repeat(20);
  const show = (name: string, s: Settled) => console.log(name, s.state, s.status, s.cost_usd, s.estimated ? 'estimated' : '');

  show('ok', await complete(weir, answers, prompt));
  show('error', await complete(weir, isDown, prompt));
  show('cut', await complete(weir, breaksOff, prompt));

  // A tenant with one call at a time: the second waits until the first has settled, which ends when the second waits.
  const first = newId();
  const { receipt } = await weir.reserve(reservation(first, 100, 100));
  const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };
  const secondWaits = new Promise<void>((resolve) => {
    weir.onWait = resolve;
  });
  const [waited] = await Promise.all([
    complete(weir, answers, prompt),
    secondWaits.then(() => weir.settle(first, receipt, { status: 'SUCCESS', api: 'chat.completions', usage })),
  ]);
  show('waited', waited);

  // And then until the budget is gone. The provider is not called for the one that is refused.
  for (let n = 0; n < 100; n++) {
    try {
      await complete(weir, answers, prompt);
    } catch (error) {
      if (error instanceof QuotaExceeded) {
        console.log('quota', n, error.message);
        return 0;
      }
      throw error;
    }
  }
  console.log('no quota in sight');
  return 1;
}

process.exitCode = await main();
