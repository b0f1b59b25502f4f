import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { granularityOf, spans, windowOf } from './span';

beforeEach(() => vi.useFakeTimers({ now: Date.parse('2026-03-01T12:00:20Z') }));
afterEach(() => vi.useRealTimers());

const of = (query: string, fallback?: string) => {
  const { start, end, name, granularity } = windowOf(new URLSearchParams(query), fallback);
  return [start.toISOString(), end.toISOString(), name, granularity];
};

test('without a span it is the last 24 hours, until the end of the minute', () => {
  expect(of('')).toEqual(['2026-02-28T12:01:00.000Z', '2026-03-01T12:01:00.000Z', '24h', 'hour']);
});

test('a page may have another span than 24 hours', () =>
  expect(of('', '1h')).toEqual([
    '2026-03-01T11:01:00.000Z',
    '2026-03-01T12:01:00.000Z',
    '1h',
    'minute',
  ]));

test('a span that is not known is 24 hours', () => expect(of('span=2h')).toEqual(of('span=24h')));

test('from and to win over the span', () => {
  expect(of('span=7d&from=2026-01-01T00:00:00Z&to=2026-01-01T02:00:00Z')).toEqual([
    '2026-01-01T00:00:00.000Z',
    '2026-01-01T02:00:00.000Z',
    '',
    'minute',
  ]);
});

test.each([
  'from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z',
  'from=x&to=y',
  'from=2026-01-01T00:00:00Z',
])('%s is no span', (query) => {
  expect(of(query)).toEqual(of(''));
});

test('no span is drawn with more than 400 bars', () => {
  const length = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };
  for (const { ms } of spans) expect(ms / length[granularityOf(ms)]).toBeLessThanOrEqual(400);
});
