// Deliveries: attempting one again, and how they are written.
import { api, ok, type Schemas } from '../../api/client';
import { done, failed } from '../../lib/notice.svelte';

type Delivery = Schemas['WebhookDelivery'];

// retry has a failed delivery attempted again.
export async function retry(d: Delivery, then: () => unknown) {
  try {
    const path = { webhookId: d.webhook_id, deliveryId: d.id };
    await ok(
      api.POST('/webhook/delivery-retry/{webhookId}/{deliveryId}', { params: { path }, body: {} }),
    );
    done('The delivery is attempted again.');
    then();
  } catch (thrown) {
    failed(thrown);
  }
}

export const targetOf = (destinations: Schemas['WebhookDestination'][], id: string) =>
  destinations.find((d) => d.id === id)?.config.url ?? id;

// errorOf returns what went wrong, unless the status of the answer says it.
export const errorOf = (d: Delivery) =>
  d.error && d.error !== `the destination answered ${d.response?.status}` ? d.error : '';
