// Webhooks with destinations, receipts, deliveries and analytics: by the functions, and by the
// service class that applications use.
import { WebhookService } from '@agentuity/core';
import { buildClientHeaders, createServerFetchAdapter } from '@agentuity/server';
import assert from 'node:assert/strict';
import { client, fails, fixture, logger, orgId, refused, sdk, stranger, tag, time, until, viewer } from './sdk.mjs';

const base64 = (text) => Buffer.from(text).toString('base64');
const options = { orgId };

// Webhooks.
const hook = await sdk.createWebhook(client, { name: `hook ${tag}`, description: 'For tests' }, options);
assert.match(hook.id, /^wh_/);
assert.match(hook.created_at, time);
assert.ok(hook.url.startsWith(`${fixture.url}/in/${hook.id}/`));
const { url, ...stored } = hook;
assert.deepEqual(await sdk.getWebhook(client, hook.id), stored);
assert.deepEqual([stored.internal, stored.metadata, stored.description], [false, null, 'For tests']);
const other = await sdk.createWebhook(client, { name: 'other' });
assert.equal(other.description, null);
const names = async (params) => (await sdk.listWebhooks(client, params, options)).webhooks.map((entry) => entry.name);
assert.deepEqual(await names({ limit: 2 }), ['other', `hook ${tag}`]);
assert.deepEqual(await names({ limit: 1, offset: 1 }), [`hook ${tag}`]);
const renamed = await sdk.updateWebhook(client, hook.id, { name: `new ${tag}`, description: 'changed' });
assert.deepEqual(renamed, { ...stored, name: `new ${tag}`, description: 'changed', updated_at: renamed.updated_at });
const system = await sdk.createWebhook(client, { name: 'system', internal: true });
assert.equal(system.internal, true);
await refused(403, /system/, () => sdk.deleteWebhook(client, system.id));

// Destinations: one that works, one that fails.
const config = { url: `${fixture.sink}/ok-${tag}`, headers: { 'X-Token': 'secret' } };
const destination = await sdk.createWebhookDestination(client, hook.id, { type: 'url', config });
assert.match(destination.id, /^whds_/);
assert.deepEqual([destination.webhook_id, destination.type, destination.config.url], [hook.id, 'url', config.url]);
const failing = await sdk.createWebhookDestination(client, hook.id, { type: 'url', config: { url: `${fixture.sink}/none` } });
const changed = await sdk.updateWebhookDestination(client, hook.id, failing.id, { config: { url: `${fixture.sink}/failing`, max_retries: 0 } });
assert.equal(changed.config.url, `${fixture.sink}/failing`);
assert.deepEqual((await sdk.listWebhookDestinations(client, hook.id)).map((entry) => entry.id).sort(), [destination.id, failing.id].sort());

// A destination of another type, made by another client, is shown with the type that SDKs know.
const headers = { Authorization: `Bearer ${fixture.key}`, 'Content-Type': 'application/json' };
const body = JSON.stringify({ type: 'webhook', config: { url: `${fixture.sink}/typed` } });
assert.equal((await fetch(`${fixture.url}/webhook/destination-create/${other.id}`, { method: 'POST', headers, body })).status, 201);
assert.deepEqual((await sdk.listWebhookDestinations(client, other.id)).map((entry) => entry.type), ['url']);

// Receipts: JSON is a value; text and binary payloads are base64 of what was sent.
async function send(body, type) {
	const got = await fetch(url, { method: 'POST', body, headers: { 'Content-Type': type, 'X-Tag': tag } });
	assert.equal(got.status, 200);
	return (await got.json()).id;
}
const binary = new Uint8Array([0, 255, 128, 10, 13]);
const payloads = {
	[await send('{"a": [1, "ü"]}', 'application/json')]: { a: [1, 'ü'] },
	[await send('plain text, ü', 'text/plain')]: base64('plain text, ü'),
	[await send('"a string"', 'application/json')]: base64('"a string"'),
	[await send(binary, 'application/octet-stream')]: base64(binary),
};
for (const [id, payload] of Object.entries(payloads)) {
	const receipt = await sdk.getWebhookReceipt(client, hook.id, id);
	assert.deepEqual(receipt.payload, payload);
	assert.deepEqual([receipt.id, receipt.webhook_id, receipt.headers['x-tag']], [id, hook.id, tag]);
	assert.match(receipt.date, time);
}
const { receipts } = await sdk.listWebhookReceipts(client, hook.id);
assert.deepEqual(Object.fromEntries(receipts.map((receipt) => [receipt.id, receipt.payload])), payloads);
const page = await sdk.listWebhookReceipts(client, hook.id, { limit: 1, offset: 1 }, options);
assert.deepEqual(page.receipts, [receipts[1]]);

// Deliveries and their repetition.
const { deliveries } = await until(
	() => sdk.listWebhookDeliveries(client, hook.id, { limit: 100 }),
	(list) => list.deliveries.length === 8 && list.deliveries.every((entry) => entry.status !== 'pending'),
);
const failed = deliveries.filter((entry) => entry.webhook_destination_id === failing.id);
assert.deepEqual(deliveries.map((entry) => entry.status).sort(), [...Array(4).fill('failed'), ...Array(4).fill('success')]);
assert.ok(failed.every((entry) => entry.status === 'failed' && entry.response.status === 500 && entry.error !== null));
assert.equal((await sdk.listWebhookDeliveries(client, hook.id, { limit: 3, offset: 6 })).deliveries.length, 2);
const again = await sdk.retryWebhookDelivery(client, hook.id, failed[0].id);
assert.deepEqual([again.webhook_receipt_id, again.webhook_destination_id], [failed[0].webhook_receipt_id, failing.id]);
assert.match(again.id, /^whdv_/);
assert.notEqual(again.id, failed[0].id);
const good = deliveries.find((entry) => entry.status === 'success');
await refused(409, /failed/, () => sdk.retryWebhookDelivery(client, hook.id, good.id));

// Analytics.
const window = { start: new Date(Date.now() - 3600e3).toISOString(), granularity: 'minute', orgId };
const analytics = await until(() => sdk.getWebhookOrgAnalytics(client, window), (got) => got.summary.total_failed >= 5);
assert.ok(analytics.summary.total_received >= 4 && analytics.summary.total_delivered >= 4);
assert.match(analytics.period.start, time);
const timeseries = await sdk.getWebhookOrgTimeSeries(client, window);
assert.equal(timeseries.period.granularity, 'minute');
assert.ok(timeseries.series.reduce((sum, point) => sum + point.received, 0) >= 4);
assert.equal((await sdk.getWebhookOrgTimeSeries(client)).period.granularity, 'hour');
await refused(422, /query\.start/, () => sdk.getWebhookOrgAnalytics(client, { start: 'yesterday' }));

// Errors have classes of their own.
const missing = async (tagName, call) => {
	await assert.rejects(call, (err) => {
		assert.equal(err._tag, tagName, String(err));
		assert.ok(err instanceof sdk[tagName]);
		assert.match(err.message, /not found/);
		return true;
	});
};
await missing('WebhookNotFoundError', () => sdk.getWebhook(client, 'wh_none'));
await missing('WebhookNotFoundError', () => sdk.updateWebhook(client, 'wh_none', { name: 'x' }));
await missing('WebhookNotFoundError', () => sdk.listWebhookReceipts(client, 'wh_none'));
await missing('WebhookDestinationNotFoundError', () => sdk.updateWebhookDestination(client, hook.id, 'whds_none', {}));
await missing('WebhookDestinationNotFoundError', () => sdk.deleteWebhookDestination(client, hook.id, 'whds_none'));
await missing('WebhookReceiptNotFoundError', () => sdk.getWebhookReceipt(client, hook.id, 'whrc_none'));
await missing('WebhookDeliveryNotFoundError', () => sdk.retryWebhookDelivery(client, hook.id, 'whdv_none'));
await refused(401, /API key/, () => sdk.listWebhooks(stranger));
await refused(403, /role/, () => sdk.createWebhook(viewer, { name: 'x' }));
await refused(403, /X-Agentuity-Orgid/, () => sdk.listWebhooks(client, {}, { orgId: 'org_other' }));
await refused(422, /body\.name: expected/, () => sdk.createWebhook(client, { name: ' ' }));
await refused(422, /body\.config\.url: expected/, () => sdk.createWebhookDestination(client, hook.id, { type: 'url', config: { url: 'nowhere' } }));
await refused(422, /query\.limit/, () => sdk.listWebhooks(client, { limit: 1001 }));
await fails('ValidationInputError', /input/, () => sdk.createWebhookDestination(client, hook.id, { type: 'queue', config: {} }));

// The service class.
const adapter = createServerFetchAdapter({ headers: buildClientHeaders({ apiKey: fixture.key, orgId }) }, logger);
const service = new WebhookService(`${fixture.url}/sdk`, adapter);
const { webhook } = await service.create({ name: `service ${tag}` });
assert.deepEqual((await service.list({ limit: 1 })).webhooks.map((entry) => entry.id), [webhook.id]);
const added = (await service.createDestination(webhook.id, { type: 'url', config: { url: `${fixture.sink}/failing`, max_retries: 0 } })).destination;
assert.deepEqual((await service.get(webhook.id)).destinations.map((entry) => entry.id), [added.id]);
assert.equal((await service.update(webhook.id, { name: 'updated' })).webhook.name, 'updated');
assert.equal((await service.listDestinations(webhook.id)).destinations.length, 1);
await fetch(webhook.url, { method: 'POST', body: 'text' });
const [receipt] = (await service.listReceipts(webhook.id, { limit: 1 })).receipts;
assert.equal((await service.getReceipt(webhook.id, receipt.id)).payload, base64('text'));
const [delivery] = (await until(() => service.listDeliveries(webhook.id, { limit: 1 }), (list) => list.deliveries[0]?.status === 'failed')).deliveries;
await service.retryDelivery(webhook.id, delivery.id);
assert.ok((await service.getOrgAnalytics(window)).summary.total_received >= 5);
assert.ok((await service.getOrgTimeSeries()).series.length > 0);
await service.deleteDestination(webhook.id, added.id);
await service.delete(webhook.id);
await assert.rejects(() => service.get(webhook.id), (err) => {
	assert.ok(err instanceof sdk.ServiceException, String(err));
	assert.deepEqual([err._tag, err.statusCode], ['ServiceException', 404]);
	return true;
});

// Deletion.
await sdk.deleteWebhookDestination(client, hook.id, destination.id);
await sdk.deleteWebhook(client, hook.id, options);
await sdk.deleteWebhook(client, other.id);
await missing('WebhookNotFoundError', () => sdk.getWebhook(client, hook.id));
await missing('WebhookNotFoundError', () => sdk.deleteWebhook(client, hook.id));
