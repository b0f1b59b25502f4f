// What the lists of receipts show of a receipt, and how its deliveries stand.
import type { Schemas } from '../../api/client';

type Receipt = Schemas['WebhookReceipt'];
type Delivery = Schemas['WebhookDelivery'];
export type Status = Delivery['status'];

// Row is what a list shows of a receipt. The payload is not kept: those of a thousand may be 64 MB.
export interface Row {
  id: string;
  date: string;
  method: string;
  preview: string;
  from: string;
  size: number;
  filtered: number; // destinations whose filter did not match
}

const previewLength = 160;

export const rowOf = (r: Receipt): Row => ({
  id: r.id,
  date: r.date,
  method: r.method,
  preview: preview(r),
  from: r.remote_addr,
  size: r.size,
  filtered: r.filtered ?? r.deliveries?.filtered ?? 0,
});

// delivered returns what a list shows of the receipt of a delivery.
export function delivered({ receipt: r }: Delivery): string {
  if (!r) return 'no longer kept';
  if (r.size === 0) return 'no body';
  return r.preview.slice(0, previewLength) || 'binary body';
}

function preview(r: Receipt): string {
  if (r.size === 0) return 'no body';
  if (r.payload_omitted) return 'large body';
  if (r.payload_encoding) return 'binary body';
  const text = typeof r.payload === 'string' ? r.payload : JSON.stringify(r.payload);
  // Joined from parts, since a part of a text would keep the whole of it in memory.
  return Array.from((text ?? '').slice(0, previewLength)).join('');
}

// States is how the deliveries of a receipt stand, by destination: the last attempt that has ended.
export type States = Record<string, Status>;

// stateOf returns the state that a row shows of a listed receipt, if it has deliveries.
export function stateOf({ deliveries: d }: Receipt): Status | undefined {
  if (d?.failing) return 'failed';
  if (d?.pending) return 'pending';
  return d?.succeeded ? 'success' : undefined;
}

// worst returns the state that a row shows: failed, else pending, else success.
export function worst(states: States | undefined): Status | undefined {
  const all = new Set(Object.values(states ?? {}));
  return (['failed', 'pending', 'success'] as const).find((s) => all.has(s));
}

export const tones = { pending: 'warn', success: 'good', failed: 'bad' } as const;
export const words = {
  pending: 'not delivered yet',
  success: 'delivered',
  failed: 'the last attempt failed',
} as const;

// isWaiting reports whether a delivery waits for its turn after an attempt that failed.
export const isWaiting = (d: Delivery) => d.status === 'pending' && d.retries > 0;
export const statusOf = (d: Delivery) => (isWaiting(d) ? 'waiting' : d.status);

const chainOf = (d: Delivery) => d.webhook_receipt_id + ' ' + d.webhook_destination_id;

// outcomesOf returns whether the last attempt of each chain succeeded, the newest chain first. What
// waits for a retry has failed; what was never attempted has no outcome.
export function outcomesOf(deliveries: Delivery[]): { id: string; succeeded: boolean }[] {
  const found = new Map<string, { id: string; succeeded: boolean }>();
  for (const d of deliveries) {
    if (found.has(chainOf(d)) || (d.status === 'pending' && !isWaiting(d))) continue;
    found.set(chainOf(d), { id: d.id, succeeded: d.status === 'success' });
  }
  return [...found.values()];
}
