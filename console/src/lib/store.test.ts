import { expect, test } from 'vitest';
import { fieldsOf, milliseconds, named, namedItem, shown, sizeOf, tree } from './store';

test('durations', () => {
  expect(milliseconds('90s')).toBe(90_000);
  expect(milliseconds(' 1.5h ')).toBe(5_400_000);
  expect(milliseconds('30d')).toBe(2_592_000_000);
  for (const text of ['', '0s', '5', 'soon', '-1s', '1h30m'])
    expect(milliseconds(text)).toBeUndefined();
});

test('keys and items are named as text if they can be', () => {
  expect(named({ key: 'a/b' })).toEqual({ key: 'a/b' });
  expect(named({ key: '�', key_base64: '/w==' })).toEqual({ key: '/w==', encoding: 'base64' });
  expect(namedItem({ key: 'k' }, { field: 'ü' })).toEqual({ key: 'k', item: 'ü' });
  expect(namedItem({ key: 'k' }, { index: 0, value: 'v' })).toEqual({ key: 'k', item: '0' });
  const bytes = { key: 'w7w=', item: '/w==', encoding: 'base64' };
  expect(namedItem({ key: 'ü' }, { member: { base64: '/w==' } })).toEqual(bytes);
});

test('values as they are shown', () => {
  expect(shown('')).toBe('(empty)');
  expect(shown({ base64: '/w==' })).toBe('base64: /w==');
  expect(sizeOf({ type: 'stream', size: 2 })).toBe('2 entries');
  expect(sizeOf({ type: 'string', size: 5 })).toBe('5 B');
  expect(tree('{"a":1}')).toEqual({ a: 1 });
  expect(tree('7')).toBeUndefined();
});

test('fields of an entry', () => {
  expect(fieldsOf('a=1\n\n b = x=y')).toEqual([
    { field: 'a', value: '1' },
    { field: 'b', value: ' x=y' },
  ]);
});
