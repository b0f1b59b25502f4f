import { describe, expect, test } from 'vitest';
import {
  bytes,
  clock,
  compact,
  cost,
  dateTime,
  day,
  duration,
  number,
  percent,
  plural,
  relative,
  shellQuote,
  usd,
} from './format';

test.each([
  [number(1234567), '1,234,567'],
  [compact(1250), '1.3K'],
  [percent(0.98765), '98.8%'],
  [plural(1, 'receipt'), '1 receipt'],
  [plural(0, 'receipt'), '0 receipts'],
  [plural(1200, 'entry', 'entries'), '1,200 entries'],
])('numbers have separators and units: %s', (got, want) => expect(got).toBe(want));

test('a price below a cent is not shown as nothing', () => {
  expect(usd(0)).toBe('$0.00');
  expect(usd(0.00123)).toBe('$0.0012');
  expect(usd(1234.5)).toBe('$1,234.50');
  expect(cost(0)).toBe('$0.00');
  expect(cost(0.00123)).toBe('< $0.01');
  expect(cost(0.01)).toBe('$0.01');
});

// internal/cli/output/units_test.go expects the same of the command line.
test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1000, '1.0 kB'],
  [1250, '1.3 kB'],
  [9950, '9.9 kB'],
  [9999, '10.0 kB'],
  [10_500, '11 kB'],
  [999_499, '999 kB'],
  [999_500, '1.0 MB'],
  [5e9, '5.0 GB'],
  [25e11, '2.5 TB'],
  [5e18, '5000 PB'],
])('the size %d is written %s', (n, want) => expect(bytes(n)).toBe(want));

test.each([
  [0, '0 ms'],
  [999, '999 ms'],
  [1249, '1.2 s'],
  [9999, '10.0 s'],
  [59_999, '60 s'],
  [60_000, '1 min'],
  [90_000, '2 min'],
  [3_600_000, '1 h'],
  [172_799_999, '48 h'],
  [172_800_000, '2 days'],
])('the duration %d is written %s', (ms, want) => expect(duration(ms)).toBe(want));

test.each([
  [0, 'now'],
  [-4999, 'now'],
  [-5000, '5 s ago'],
  [-59_499, '59 s ago'],
  [-7_200_000, '2 h ago'],
  [2_940_000, 'in 49 min'],
])('a time %d ms from now is written %s', (ms, want) => {
  const now = Date.parse('2026-03-01T12:00:00Z');
  expect(relative(now + ms, now)).toBe(want);
});

test('what is no time has no relative time', () => expect(relative('soon')).toBe(''));

test('times are written in the time zone of the browser', () => {
  const t = '2026-03-01T20:15:30Z';
  expect(dateTime(t)).toBe('2 Mar 2026, 01:45:30');
  expect(day(t)).toBe('2 Mar 2026');
  expect(clock(t)).toBe('01:45:30');
});

describe('shellQuote', () => {
  test.each([
    ['https://steward.test/a?', `'https://steward.test/a?'`],
    ['name=value', 'name=value'],
    ['', `''`],
    ['two words', `'two words'`],
    ["it's", `'it'\\''s'`],
    ['$HOME `id` "x"', `'$HOME \`id\` "x"'`],
    ['two\nlines', `'two\nlines'`],
    ['escape \x1b and \x00', `$'escape \\x1b and \\x00'`],
    ["\x07it's a \\", `$'\\x07it\\'s a \\\\'`],
    ['\x85', `$'\\xc2\\x85'`],
  ])('writes %j as one word', (text, want) => expect(shellQuote(text)).toBe(want));
});
