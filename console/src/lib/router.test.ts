import { beforeEach, describe, expect, test } from 'vitest';
import { go, href, match, nextPage, previousPage, router, setQuery } from './router.svelte';

describe('match', () => {
  test.each([
    ['/', '/', {}],
    ['/webhooks', '/webhooks', {}],
    ['/webhooks', '/webhooks/', {}],
    ['/webhooks/:id', '/webhooks/wh_1', { id: 'wh_1' }],
    [
      '/webhooks/:id/receipts/:receiptId',
      '/webhooks/wh_1/receipts/r%2F1',
      { id: 'wh_1', receiptId: 'r/1' },
    ],
  ])('%s matches %s', (pattern, path, want) => expect(match(pattern, path)).toEqual(want));

  test.each([
    ['/', '/webhooks'],
    ['/webhooks', '/'],
    ['/webhooks', '/webhooks/wh_1'],
    ['/webhooks/:id', '/webhooks'],
    ['/webhooks/:id', '/threads/wh_1'],
    ['/webhooks/:id', '/webhooks/%zz'],
  ])('%s does not match %s', (pattern, path) => expect(match(pattern, path)).toBeUndefined());
});

test('the address of a page is below /console', () =>
  expect(href('/webhooks')).toBe('/console/webhooks'));

describe('the address', () => {
  beforeEach(() => go('/webhooks?status=failed&cursor=c1'));

  test('has the path and the query of the page', () => {
    expect(location.pathname).toBe('/console/webhooks');
    expect(router.path).toBe('/webhooks');
    expect(router.query.get('status')).toBe('failed');
  });

  test('loses its cursor when a filter changes', () => {
    setQuery({ status: 'success' });
    expect(location.search).toBe('?status=success');
  });

  test('keeps its other filters when one is removed', () => {
    setQuery({ find: 'a&b' });
    setQuery({ status: null });
    expect(location.search).toBe('?find=a%26b');
    expect(router.query.get('find')).toBe('a&b');
  });

  test('has no question mark without filters', () => {
    setQuery({ status: '' });
    expect(location.href).toBe('https://steward.test/console/webhooks');
  });

  test('is replaced in the history where no entry is wanted', () => {
    const entries = history.length;
    setQuery({ status: 'success' }, 'replace');
    expect(history.length).toBe(entries);
    setQuery({ status: 'failed' });
    expect(history.length).toBe(entries + 1);
  });
});

test('previous pages of a list are those that were shown before', () => {
  go('/webhooks?status=failed');
  nextPage('c1');
  nextPage('c2');
  expect(location.search).toBe('?status=failed&cursor=c2');
  expect(router.before).toEqual(['', 'c1']);
  previousPage();
  expect(location.search).toBe('?status=failed&cursor=c1');
  previousPage();
  expect(location.search).toBe('?status=failed');
  expect(router.before).toEqual([]);
});

test('pages of a list before the current one are kept, up to 200', () => {
  go('/webhooks');
  for (let n = 1; n <= 210; n++) nextPage(`c${n}`);
  expect(router.before).toHaveLength(200);
  expect(router.before.at(-1)).toBe('c209');
});

test('another page begins without pages before it', () => {
  go('/webhooks');
  nextPage('c1');
  go('/threads');
  expect(router.before).toEqual([]);
});
