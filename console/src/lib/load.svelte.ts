import { untrack } from 'svelte';
import { asProblem, isTemporary, type Problem, retryPause } from '../api/problem';
import { session } from './session.svelte';

// Loaded is what a page shows: data, or the problem. While it is loaded again the old data stays.
export class Loaded<T> {
  data = $state.raw<T>();
  problem = $state.raw<Problem>();
  loading = $state(true);
  private abort?: AbortController;
  private fetcher: (signal: AbortSignal) => Promise<T>;

  constructor(fetcher: (signal: AbortSignal) => Promise<T>) {
    this.fetcher = fetcher;
  }

  async run() {
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    this.loading = true;
    try {
      const data = await this.fetcher(abort.signal);
      if (abort.signal.aborted) return;
      this.data = data;
      this.problem = undefined;
    } catch (thrown) {
      if (abort.signal.aborted) return;
      this.problem = asProblem(thrown);
    } finally {
      if (this.abort === abort) this.loading = false;
    }
  }

  reload = () => this.run();
  stop() {
    this.abort?.abort();
  }
}

// load runs a request now, and again when something that it reads before its first await changes.
// every repeats it, in milliseconds, while the page is visible. A request that has failed is
// repeated until the server can answer it, and when the user has signed in again. Call it while a
// component is initialized.
export function load<T>(fetcher: (signal: AbortSignal) => Promise<T>, every = 0): Loaded<T> {
  const loaded = new Loaded(fetcher);
  $effect(() => {
    loaded.run();
    return () => loaded.stop();
  });
  if (every > 0) {
    $effect(() => {
      const timer = setInterval(
        () => document.visibilityState === 'visible' && session.state === 'in' && loaded.run(),
        every,
      );
      return () => clearInterval(timer);
    });
  }
  retry(loaded);
  return loaded;
}

// retry repeats a request that has failed.
function retry<T>(loaded: Loaded<T>) {
  let times = 0;
  $effect(() => {
    const { problem } = loaded;
    if (!problem) times = 0;
    else if (problem.status === 401 && session.state === 'in') untrack(() => loaded.run());
    else if (isTemporary(problem)) {
      const timer = setTimeout(() => loaded.run(), retryPause(times++, problem.retryAfter));
      return () => clearTimeout(timer);
    }
  });
}

// Action is something that a button or form does: it knows whether it runs and what went wrong.
export class Action<A extends unknown[]> {
  running = $state(false);
  problem = $state.raw<Problem>();
  private fn: (...args: A) => Promise<unknown>;

  constructor(fn: (...args: A) => Promise<unknown>) {
    this.fn = fn;
  }

  // run returns whether it succeeded. A second call while one runs does nothing.
  run = async (...args: A): Promise<boolean> => {
    if (this.running) return false;
    this.running = true;
    this.problem = undefined;
    try {
      await this.fn(...args);
      return true;
    } catch (thrown) {
      this.problem = asProblem(thrown);
      return false;
    } finally {
      this.running = false;
    }
  };
}
