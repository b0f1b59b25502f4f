// The address of the page. Paths are without /console; filters are in the query.
//
//   router.path, router.query.get('status'), router.params.id
//   go('/webhooks/wh_1'), setQuery({ status: 'failed', cursor: null })
//
// Links are ordinary <a href={href('/webhooks')}>.

import { tick } from 'svelte';

const prefix = '/console';
// mostBefore is how many pages of a list one can go back with "Previous page".
const mostBefore = 200;

function readBefore(): string[] {
  const before: unknown = (history.state as { before?: unknown } | null)?.before;
  return Array.isArray(before) ? before : [];
}

class Router {
  url = $state.raw(new URL(location.href));
  params = $state.raw<Record<string, string>>({});
  // before are the cursors of the pages of a list before the one that is shown, '' for the first
  // page. They are in the entry of the history, so that reloading and going back keep them.
  before = $state.raw<string[]>(readBefore());
  path = $derived(this.url.pathname.slice(prefix.length) || '/');
  query = $derived(this.url.searchParams);

  constructor() {
    addEventListener('popstate', () => this.read());
    document.addEventListener('click', (e) => this.click(e));
  }

  read() {
    this.url = new URL(location.href);
    this.before = readBefore();
  }

  private click(e: MouseEvent) {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey)
      return;
    const a = (e.target as Element).closest?.('a');
    if (!a || a.target || a.hash || a.hasAttribute('download') || a.origin !== location.origin)
      return;
    if (!a.pathname.startsWith(prefix + '/') || /^\/console\/(api|sign-in|assets)/.test(a.pathname))
      return;
    e.preventDefault();
    go(a.pathname.slice(prefix.length) + a.search);
  }
}

export const router = new Router();

// href returns the address of a page.
export function href(path: string): string {
  return prefix + path;
}

// go opens a page. keep leaves the entry of the current one out of the history. before are the
// cursors of the pages before it, if it is a page of a list.
export function go(path: string, keep: 'push' | 'replace' = 'push', before: string[] = []) {
  const left = location.pathname;
  const state = before.length ? { before: before.slice(-mostBefore) } : null;
  history[keep === 'push' ? 'pushState' : 'replaceState'](state, '', prefix + path);
  router.read();
  if (location.pathname !== left) {
    scrollTo(0, 0);
    // What covers the page, such as a dialog, must be gone before the page can have the focus.
    tick().then(() => document.getElementById('content')?.focus({ preventScroll: true }));
  }
}

// setQuery changes filters in the address. null removes one; changing a filter removes the cursor.
export function setQuery(
  changes: Record<string, string | null | undefined>,
  keep: 'push' | 'replace' = 'push',
  before: string[] = [],
) {
  const query = new URLSearchParams(location.search);
  if (!('cursor' in changes)) query.delete('cursor');
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  go(router.path + (text ? '?' + text : ''), keep, before);
}

// nextPage and previousPage move in a list whose page is in the address.
export const nextPage = (cursor: string) =>
  setQuery({ cursor }, 'push', [...router.before, router.query.get('cursor') ?? '']);
export const previousPage = () =>
  setQuery({ cursor: router.before.at(-1) }, 'push', router.before.slice(0, -1));

// match returns the values of a pattern such as /webhooks/:id, or undefined.
export function match(pattern: string, path: string): Record<string, string> | undefined {
  const want = pattern.split('/');
  const got = path.replace(/\/$/, '').split('/');
  if (want.length !== got.length && !(pattern === '/' && path === '/')) return undefined;
  const params: Record<string, string> = {};
  for (const [i, part] of want.entries()) {
    const value = got[i] ?? '';
    if (part.startsWith(':')) {
      try {
        params[part.slice(1)] = decodeURIComponent(value);
      } catch {
        return undefined;
      }
    } else if (part !== value) return undefined;
  }
  return params;
}
