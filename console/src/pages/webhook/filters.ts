// The filters of receipts and deliveries, which are in the address.

// statuses are those of GET /webhook/delivery-list. waiting is a part of pending: what waits for a retry.
export const statuses = ['waiting', 'pending', 'success', 'failed'] as const;

export function filtersOf(query: URLSearchParams) {
  const status = statuses.find((s) => s === query.get('status'));
  const destinationId = query.get('destination') || undefined;
  const since = query.get('since') || undefined;
  const until = query.get('until') || undefined;
  // A receipt has no status of its own and goes to all destinations: those filters are about its deliveries.
  const byDelivery = status !== undefined || destinationId !== undefined;
  return { status, destinationId, since, until, byDelivery, any: byDelivery || since !== undefined || until !== undefined };
}
