// What the scripts of this directory share: the SDK under test, its clients, and how it reports
// errors. STEWARD_FIXTURE says which installation to use:
//
//   {"package": "@agentuity/core" or "@agentuity/server", "url", "key", "viewer": key of a viewer,
//    "sink": URL that takes webhooks, "tag": unlike that of any other run}
import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';

export const fixture = JSON.parse(process.env.STEWARD_FIXTURE);
export const sdk = await import(fixture.package);

const silent = () => {};
export const logger = { trace: silent, debug: silent, info: silent, warn: silent, error: silent };
export const clientAt = (url, key) => new sdk.APIClient(url + '/sdk', logger, key, { retryDelayMs: 1 });
export const clientWith = (key) => clientAt(fixture.url, key);
export const client = clientWith(fixture.key);
export const viewer = clientWith(fixture.viewer);
export const stranger = clientWith('sk_wrong');
export const [{ id: orgId }] = await sdk.listOrganizations(client);
export const tag = fixture.tag;
export const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

// refused checks that a call fails with a status and a message of the API.
export async function refused(status, message, call) {
	await assert.rejects(call, (err) => {
		assert.ok(err instanceof sdk.APIError, String(err));
		assert.equal(err._tag, 'APIErrorResponse');
		assert.equal(err.status, status, err.message);
		assert.match(err.message, message);
		return true;
	});
}

// fails checks that a call fails with an error of the SDK, named by its tag.
export async function fails(name, message, call) {
	await assert.rejects(call, (err) => {
		assert.equal(err._tag, name, String(err));
		assert.match(err.message, message);
		return true;
	});
}

// until repeats a call until its result is accepted. The test that runs the script has the time limit.
export async function until(call, accepted) {
	for (;;) {
		const result = await call();
		if (accepted(result)) return result;
		await new Promise((resolve) => setTimeout(resolve, 10));
	}
}

// ask prints a request to the test that runs the script, and returns the answer.
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
export async function ask(request) {
	console.log(request);
	return (await answers.next()).value;
}
