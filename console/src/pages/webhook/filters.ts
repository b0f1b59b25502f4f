// The filters of receipts and deliveries, which are in the address.

// statuses are those of GET /webhook/delivery-list. waiting is a part of pending: what waits for a
// retry.
export const statuses = ['waiting', 'pending', 'success', 'failed'] as const;

// states are those of GET /webhook/receipt-list, by status.
const states = {
  waiting: 'failing',
  pending: 'pending',
  success: 'succeeded',
  failed: 'failing',
} as const;

// noFilters removes all filters from the address.
export const noFilters = { q: null, since: null, until: null, status: null, destination: null };

// filtersOf returns the filters of an address. receipts are those of GET /webhook/receipt-list.
export function filtersOf(query: URLSearchParams) {
  const q = query.get('q') || undefined;
  const status = statuses.find((s) => s === query.get('status'));
  const destinationId = query.get('destination') || undefined;
  const receipts = {
    q,
    state: status && states[status],
    destinationId,
    since: query.get('since') || undefined,
    until: query.get('until') || undefined,
  };
  const { since, until } = receipts;
  const any = Object.values(receipts).some((value) => value !== undefined);
  // Without a text to search for, the deliveries with a status or destination are found much sooner
  // than their receipts.
  const byDelivery = !q && (status !== undefined || destinationId !== undefined);
  return { since, until, receipts, status, destinationId, byDelivery, any };
}
