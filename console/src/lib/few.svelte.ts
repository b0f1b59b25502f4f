// Few loads a value for each key that a page shows, a few at a time: a list with hundreds of rows
// asks for those on the screen. What is no longer wanted when its turn comes is left out.
const parallel = 4;
const most = 1000;
// again is when a value that could not be loaded is asked for again, in milliseconds.
const again = 15_000;

export class Few<T> {
  values = $state.raw<ReadonlyMap<string, T>>(new Map());
  private wanted: string[] = [];
  private asked = new Set<string>();
  private running = 0;
  private abort = new AbortController();
  private fetcher: (key: string, signal: AbortSignal) => Promise<T>;

  constructor(fetcher: (key: string, signal: AbortSignal) => Promise<T>) {
    this.fetcher = fetcher;
  }

  // want replaces the keys that are wanted. Those that were asked for before are not asked for
  // again.
  want(keys: string[]) {
    this.wanted = keys;
    this.fill();
  }

  // renew asks for some keys again. Their values stay until they are there.
  renew(keys: string[]) {
    for (const key of keys) this.asked.delete(key);
    this.fill();
  }

  stop() {
    this.wanted = [];
    this.abort.abort();
  }

  private fill() {
    while (this.running < parallel) {
      const key = this.wanted.find((k) => !this.asked.has(k));
      if (key === undefined) return;
      this.asked.add(key);
      this.running++;
      this.load(key);
    }
  }

  private async load(key: string) {
    try {
      const value = await this.fetcher(key, this.abort.signal);
      if (!this.abort.signal.aborted) this.keep(key, value);
    } catch {
      // The row stays without it for a while: the list itself says what is wrong with the server.
      setTimeout(() => this.renew([key]), again);
    }
    this.running--;
    this.fill();
  }

  // keep forgets what is not wanted before it has too many values.
  private keep(key: string, value: T) {
    const next = new Map(this.values);
    if (next.size >= most) {
      const wanted = new Set(this.wanted);
      for (const old of next.keys()) {
        if (wanted.has(old)) continue;
        next.delete(old);
        this.asked.delete(old);
      }
    }
    this.values = next.set(key, value);
  }
}

// few returns a Few that ends with the component. Call it while a component is initialized.
export function few<T>(fetcher: (key: string, signal: AbortSignal) => Promise<T>): Few<T> {
  const values = new Few(fetcher);
  $effect(() => () => values.stop());
  return values;
}

// onScreen returns an attachment for rows, which calls changed with the keys of those that are on
// the screen.
export function onScreen(
  changed: (keys: string[]) => void,
): (key: string) => (row: Element) => () => void {
  const keys = new Map<Element, string>();
  const shown = new Set<Element>();
  const observer = new IntersectionObserver((entries) => {
    for (const e of entries) {
      if (e.isIntersecting) shown.add(e.target);
      else shown.delete(e.target);
    }
    changed([...shown].map((row) => keys.get(row)!));
  });
  return (key) => (row) => {
    keys.set(row, key);
    observer.observe(row);
    return () => {
      observer.unobserve(row);
      keys.delete(row);
      shown.delete(row);
    };
  };
}
