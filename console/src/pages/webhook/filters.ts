// The filters of receipts and deliveries, which are in the address.

// statuses are those of GET /webhook/delivery-list. waiting is a part of pending: what waits for a
// retry.
export const statuses = ['waiting', 'pending', 'success', 'failed'] as const;

// noFilters removes all filters from the address.
export const noFilters = { since: null, until: null, status: null, destination: null };

// filtersOf returns the filters of an address. receipts are those of GET /webhook/receipt-list.
export function filtersOf(query: URLSearchParams) {
  const status = statuses.find((s) => s === query.get('status'));
  const destinationId = query.get('destination') || undefined;
  const receipts = {
    since: query.get('since') || undefined,
    until: query.get('until') || undefined,
  };
  // A receipt has no status of its own and goes to all destinations: those filters are about its
  // deliveries.
  const byDelivery = status !== undefined || destinationId !== undefined;
  const any = byDelivery || Object.values(receipts).some((value) => value !== undefined);
  return { ...receipts, receipts, status, destinationId, byDelivery, any };
}
