// Server-sent events read with fetch, since EventSource cannot send the header of the console.
import { send } from '../api/client';
import { problemOf } from '../api/problem';

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

// follow reads events until signal is aborted, and reconnects after the last one that it has seen.
// onState is called when the connection opens and when it breaks.
export async function follow(
  path: string,
  signal: AbortSignal,
  onEvent: (e: ServerEvent) => void,
  onState: (state: 'open' | 'waiting') => void,
): Promise<void> {
  let last = '';
  let pause = 500;
  while (!signal.aborted) {
    try {
      const response = await send(path, {
        signal,
        headers: { Accept: 'text/event-stream', ...(last ? { 'Last-Event-ID': last } : {}) },
      });
      if (!response.ok || !response.body) {
        if (response.status < 500 && response.status !== 429) throw problemOf(await response.json().catch(() => null), response);
      } else {
        onState('open');
        pause = 500;
        for await (const e of parse(response.body)) {
          if (e.id) last = e.id;
          onEvent(e);
        }
      }
    } catch (thrown) {
      if (signal.aborted) return;
      if (thrown instanceof Error && 'status' in thrown && (thrown.status as number) >= 400) throw thrown;
    }
    onState('waiting');
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, 15_000);
  }
}

async function* parse(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let buffer = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      buffer += value;
      const blocks = buffer.split(/\r?\n\r?\n/);
      buffer = blocks.pop() ?? '';
      for (const block of blocks) {
        const e = event(block);
        if (e) yield e;
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function event(block: string): ServerEvent | undefined {
  const e: ServerEvent = { id: '', event: 'message', data: '' };
  let seen = false;
  for (const line of block.split(/\r?\n/)) {
    const [, name, value] = /^([^:]+):? ?(.*)$/.exec(line) ?? [];
    if (name === 'data') {
      e.data += (seen ? '\n' : '') + value;
      seen = true;
    } else if (name === 'id') e.id = value ?? '';
    else if (name === 'event') e.event = value ?? '';
  }
  return seen ? e : undefined;
}
