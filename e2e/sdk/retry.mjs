// What the client repeats: 502 and 503 until the service is back, 409 three times. A proxy before the
// installation makes it unavailable for a request.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { clientAt, fixture, orgId, refused, sdk, tag } from './sdk.mjs';

const unavailable = JSON.stringify({ success: false, code: 'unavailable', message: 'the server is overloaded; try again later' });
let outages = [];
let seen = [];
const proxy = createServer(async (request, response) => {
	const chunks = [];
	for await (const chunk of request) chunks.push(chunk);
	seen.push(`${request.method} ${request.url}`);
	const status = outages.shift();
	if (status) {
		response.writeHead(status, { 'Content-Type': 'application/json', 'Retry-After': '1' }).end(unavailable);
		return;
	}
	const { method, headers } = request;
	const body = chunks.length ? Buffer.concat(chunks) : undefined;
	const got = await fetch(fixture.url + request.url, { method, headers: { authorization: headers.authorization, 'content-type': headers['content-type'] }, body });
	response.writeHead(got.status, { 'Content-Type': got.headers.get('content-type') }).end(await got.text());
});
await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
const client = clientAt(`http://127.0.0.1:${proxy.address().port}`, fixture.key);

// requests returns what the proxy has seen of a call, which meets these outages.
async function requests(statuses, call) {
	outages = statuses;
	seen = [];
	const result = await call();
	assert.deepEqual(outages, []);
	return [seen.length, result];
}

const [count, made] = await requests([503, 502], () => sdk.createWebhook(client, { name: `retry ${tag}` }));
assert.equal(count, 3);
const [again, found] = await requests([503], () => sdk.getWebhook(client, made.id));
assert.deepEqual([again, found.name], [2, `retry ${tag}`]);

const name = `retry-${tag}`;
await sdk.createResources(client, orgId, 'local', [{ type: 's3', name }]);
const [tries] = await requests([], () => refused(409, /taken|exists/, () => sdk.createResources(client, orgId, 'local', [{ type: 's3', name }])));
assert.equal(tries, 4);

// Other errors are reported at once, and 503 when the time that the client allows is over.
for (const [status, call] of [[404, () => sdk.getWebhook(client, 'wh_none')], [422, () => sdk.createWebhook(client, { name: '' })]]) {
	const [once] = await requests([], () => assert.rejects(call));
	assert.equal(once, 1, `${status} is repeated`);
}
const impatient = new sdk.APIClient(`http://127.0.0.1:${proxy.address().port}/sdk`, { trace() {}, debug() {}, info() {}, warn() {}, error() {} }, fixture.key, { serviceUnavailableTimeoutMs: 0 });
const [once] = await requests([503], () => refused(503, /overloaded/, () => sdk.listWebhooks(impatient)));
assert.equal(once, 1);
await sdk.deleteResources(client, orgId, 'local', [{ type: 's3', name }]);
await sdk.deleteWebhook(client, made.id);
proxy.close();
