import { api, ok, type Schemas } from '../../api/client';
import { done, failed } from '../../lib/notice.svelte';

// retry has a failed delivery attempted again.
export async function retry(d: Schemas['WebhookDelivery'], then: () => unknown) {
  try {
    const path = { webhookId: d.webhook_id, deliveryId: d.id };
    await ok(api.POST('/webhook/delivery-retry/{webhookId}/{deliveryId}', { params: { path }, body: {} }));
    done('The delivery is attempted again.');
    then();
  } catch (thrown) {
    failed(thrown);
  }
}

export const tones = { pending: 'warn', success: 'good', failed: 'bad' } as const;

export const targetOf = (destinations: Schemas['WebhookDestination'][], id: string) =>
  destinations.find((d) => d.id === id)?.config.url ?? id;
