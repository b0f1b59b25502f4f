import { expect, test } from 'vitest';
import { filtersOf } from './filters';

const of = (query: string) => filtersOf(new URLSearchParams(query));

test('a status that is not known is no filter', () => {
  expect(of('status=exploded')).toMatchObject({ status: undefined, byDelivery: false, any: false });
  expect(of('status=waiting')).toMatchObject({ status: 'waiting', byDelivery: true, any: true });
});

test('times filter receipts, destinations filter deliveries', () => {
  expect(of('since=2026-01-01T00:00:00Z')).toMatchObject({ byDelivery: false, any: true });
  expect(of('destination=whds_1')).toMatchObject({
    destinationId: 'whds_1',
    byDelivery: true,
    any: true,
  });
});

test('a search is among receipts, whatever else filters them', () => {
  expect(of('q=a&status=waiting&destination=whds_1')).toMatchObject({
    receipts: { q: 'a', state: 'failing', destinationId: 'whds_1' },
    byDelivery: false,
    any: true,
  });
});
