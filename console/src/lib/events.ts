// Server-sent events read with fetch, since EventSource cannot send the header of the console.
import { send } from '../api/client';
import { isTemporary, Problem, problemOf, retryPause } from '../api/problem';
import { session } from './session.svelte';

export interface ServerEvent {
  // id is the position of the stream after the event. An event without data has nothing else.
  id: string;
  event: string;
  data: string;
}

export interface Follower {
  event: (e: ServerEvent) => void;
  // state is called when the connection opens and when it breaks. clock is how far the clock of the
  // server is ahead of this one, in milliseconds.
  state: (state: 'open' | 'waiting', clock: number) => void;
}

// A connection that is silent for so long is broken: the server sends a comment every 15 s.
const longestSilence = 40_000;

// follow reads events until signal is aborted, and reconnects after the last one that it has seen.
// It throws a Problem when the server refuses the stream, as it does after the session has ended.
export async function follow(path: string, signal: AbortSignal, to: Follower): Promise<void> {
  let last = '';
  let times = 0;
  while (!signal.aborted) {
    const connection = new Connection(signal);
    try {
      const headers = { Accept: 'text/event-stream', ...(last ? { 'Last-Event-ID': last } : {}) };
      const response = await send(path, { signal: connection.signal, headers });
      if (response.ok && response.body) {
        to.state('open', Date.parse(response.headers.get('Date') ?? '') - Date.now() || 0);
        times = 0;
        for await (const e of parse(response.body)) {
          connection.used();
          if (e.id) last = e.id;
          if (e.data) to.event(e);
        }
      } else await refused(response);
    } catch (thrown) {
      if (thrown instanceof Problem && thrown.status >= 400 && !isTemporary(thrown)) throw thrown;
    } finally {
      connection.close();
    }
    if (signal.aborted) return;
    to.state('waiting', 0);
    await new Promise((resolve) => setTimeout(resolve, retryPause(times++)));
  }
}

// Connection is a request that is aborted when it is silent for too long, or the device goes
// offline: neither ends it by itself.
class Connection {
  signal: AbortSignal;
  private abort = new AbortController();
  private last = Date.now();
  private timer = setInterval(() => Date.now() - this.last > longestSilence && this.close(), 5_000);

  constructor(outer: AbortSignal) {
    this.signal = AbortSignal.any([outer, this.abort.signal]);
    addEventListener('offline', this.close);
  }

  used() {
    this.last = Date.now();
  }

  close = () => {
    this.abort.abort();
    clearInterval(this.timer);
    removeEventListener('offline', this.close);
  };
}

// refused throws the problem of a response.
async function refused(response: Response): Promise<never> {
  if (response.status === 401) session.ended();
  throw problemOf(await response.json().catch(() => null), response);
}

async function* parse(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = body
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .getReader();
  let buffer = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      buffer += value;
      const blocks = buffer.split(/\r?\n\r?\n/);
      buffer = blocks.pop() ?? '';
      for (const block of blocks) yield event(block);
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function event(block: string): ServerEvent {
  const e: ServerEvent = { id: '', event: 'message', data: '' };
  for (const line of block.split(/\r?\n/)) {
    const [, name, value = ''] = /^([^:]+):? ?(.*)$/.exec(line) ?? [];
    if (name === 'data') e.data += (e.data ? '\n' : '') + value;
    else if (name === 'id') e.id = value;
    else if (name === 'event') e.event = value;
  }
  return e;
}
