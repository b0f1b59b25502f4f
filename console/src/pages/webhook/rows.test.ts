import { describe, expect, test } from 'vitest';
import type { Schemas } from '../../api/client';
import { delivered, outcomesOf, rowOf, stateOf, statusOf, worst } from './rows';

const delivery = (fields: Partial<Schemas['WebhookDelivery']>) =>
  ({
    id: 'd',
    webhook_receipt_id: 'r',
    webhook_destination_id: 'a',
    status: 'success',
    retries: 0,
    ...fields,
  }) as Schemas['WebhookDelivery'];

describe('the preview of a receipt', () => {
  const preview = (fields: Partial<Schemas['WebhookReceipt']>) =>
    rowOf({ size: 10, ...fields } as Schemas['WebhookReceipt']).preview;

  test.each([
    [{ size: 0 }, 'no body'],
    [{ payload: null, payload_omitted: true }, 'large body'],
    [{ payload: 'AAE=', payload_encoding: 'base64' as const }, 'binary body'],
    [{ payload: { order: 1 } }, '{"order":1}'],
    [{ payload: 'plain' }, 'plain'],
    [{ payload: 'x'.repeat(500) }, 'x'.repeat(160)],
  ])('of %j', (fields, want) => expect(preview(fields)).toBe(want));
});

test('the state of a listed receipt is that of its deliveries', () => {
  const state = (succeeded: number, failing: number, pending: number) =>
    stateOf({ deliveries: { succeeded, failing, pending } } as Schemas['WebhookReceipt']);
  expect(state(0, 0, 0)).toBeUndefined();
  expect(state(2, 0, 0)).toBe('success');
  expect(state(2, 0, 1)).toBe('pending');
  expect(state(2, 1, 1)).toBe('failed');
});

test.each([
  [undefined, 'no longer kept'],
  [{ content_type: '', size: 0, preview: '' }, 'no body'],
  [{ content_type: '', size: 9, preview: '' }, 'binary body'],
  [{ content_type: 'application/json', size: 9, preview: '{"a":1}' }, '{"a":1}'],
])('a delivery of %j shows what it delivers', (receipt, want) =>
  expect(delivered(delivery({ receipt }))).toBe(want),
);

test('a row shows the worst of its states', () => {
  expect(worst({ a: 'success', b: 'failed', c: 'pending' })).toBe('failed');
  expect(worst({ a: 'success', b: 'pending' })).toBe('pending');
  expect(worst({ a: 'success' })).toBe('success');
  expect(worst(undefined)).toBeUndefined();
});

test('a delivery waits if it is pending after an attempt', () => {
  expect(statusOf(delivery({ status: 'pending', retries: 1 }))).toBe('waiting');
  expect(statusOf(delivery({ status: 'pending', retries: 0 }))).toBe('pending');
  expect(statusOf(delivery({ status: 'failed', retries: 1 }))).toBe('failed');
});

test('each receipt has one outcome, that of its newest attempt', () => {
  const newestFirst = [
    delivery({ id: 'd4', webhook_receipt_id: 'r3', status: 'pending' }),
    delivery({ id: 'd3', webhook_receipt_id: 'r2', status: 'pending', retries: 1 }),
    delivery({ id: 'd2', webhook_receipt_id: 'r1', status: 'success', retries: 1 }),
    delivery({ id: 'd1', webhook_receipt_id: 'r1', status: 'failed' }),
  ];
  expect(outcomesOf(newestFirst)).toEqual([
    { id: 'd3', succeeded: false },
    { id: 'd2', succeeded: true },
  ]);
});
