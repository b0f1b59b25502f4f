// An application with the platform's runtime: an agent with two evaluations behind a router. Its
// threads, sessions and runs of evaluations must be in the installation that STEWARD_FIXTURE names; the
// runtime itself is configured by the environment that docs/sdk.md describes. It runs in a directory of
// its own, on Bun only.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { client, orgId, sdk, tag, until } from './sdk.mjs';

// The build of an application writes the ids of its evaluations and routes. This file takes its place.
const projectId = process.env.AGENTUITY_CLOUD_PROJECT_ID;
const evaluation = (name) => ({ id: `evalid_${tag}_${name}`, identifier: `eval_${name}`, name, filename: 'agent.ts', version: '1' });
mkdirSync('.agentuity', { recursive: true });
writeFileSync('.agentuity/agentuity.metadata.json', JSON.stringify({
	project: { id: projectId, name: 'app', orgId },
	deployment: { id: 'deploy_1', date: '2026-01-01T00:00:00Z', build: { bun: '1', agentuity: '2', arch: 'x', platform: 'x' } },
	routes: [{ id: 'route_greet', filename: 'api.ts', path: '/api/greet', method: 'post', version: '1' }],
	agents: [{ id: 'agent_greeter', agentId: 'agent_greeter', name: 'greeter', filename: 'agent.ts', version: '1', evals: ['polite', 'broken'].map(evaluation) }],
}));
const { createAgent, createApp, createRouter, runShutdown } = await import('@agentuity/runtime');
const { z } = await import('zod');

const agent = createAgent('greeter', {
	schema: { input: z.object({ name: z.string() }), output: z.string() },
	handler: async (ctx, input) => {
		if (input.name === 'nobody') throw new Error('there is nobody to greet');
		await ctx.thread.state.push('names', input.name, 2);
		ctx.session.state.set('greeted', input.name);
		return `Hello ${input.name}`;
	},
});
agent.createEval('polite', { description: 'Says hello', handler: async (_ctx, _input, output) => ({ passed: output.startsWith('Hello'), score: 1, reason: 'it says hello' }) });
agent.createEval('broken', { description: 'Fails', handler: async () => { throw new Error('no judge'); } });

const router = createRouter();
router.post('/greet', async (c) => c.json(await agent.run(await c.req.json())));
router.get('/state', async (c) => c.json({ names: await c.var.thread.state.get('names'), title: (await c.var.thread.getMetadata()).title }));
router.put('/state', async (c) => {
	const { state } = c.var.thread;
	assert.deepEqual(await state.keys(), ['names']); // loads it, so that the whole state is saved
	await state.set('mood', 'good');
	await c.var.thread.setMetadata({ title: 'Greetings' });
	return c.text('saved');
});
router.post('/edit', async (c) => {
	await c.var.thread.state.delete('mood');
	await c.var.thread.state.set('n', 1);
	return c.text('merged');
});
router.post('/end', async (c) => {
	await c.var.thread.destroy();
	return c.text('ended');
});
const app = await createApp({ router, agents: [agent], analytics: false, workbench: false });

// call sends a request to the application in a thread, whose signed id is in the header of responses. It
// waits for the end of the session, which comes after the response and after the thread is saved.
let thread = '';
let session = '';
async function call(method, path, body) {
	const headers = { 'Content-Type': 'application/json', ...(thread && { 'x-thread-id': thread }) };
	const got = await app.fetch(new Request(`http://localhost${path}`, { method, headers, body: body && JSON.stringify(body) }));
	thread = got.headers.get('x-thread-id') ?? thread;
	session = got.headers.get('x-session-id');
	await until(() => sdk.sessionGet(client, { id: session }).catch(() => undefined), (found) => found?.session.pending === false);
	return got;
}
const greet = async (name) => (await call('POST', '/api/greet', { name })).json();
const state = async () => JSON.parse((await sdk.threadGet(client, { id: thread.split(';')[0] })).user_data);

// Threads: new ones are merged into, loaded ones saved, and read back.
assert.equal(await greet('Ada'), 'Hello Ada');
const threadId = thread.split(';')[0];
const greeting = session;
assert.deepEqual(await state(), { state: { names: ['Ada'] } });
await greet('Bob');
await greet('Cleo');
assert.deepEqual(await (await call('GET', '/api/state')).json(), { names: ['Bob', 'Cleo'] });
assert.equal((await call('PUT', '/api/state')).status, 200);
assert.deepEqual(await (await call('GET', '/api/state')).json(), { names: ['Bob', 'Cleo'], title: 'Greetings' });
await call('POST', '/api/edit');
const { state: flat, metadata } = await state();
assert.deepEqual([flat, metadata], [{ names: ['Bob', 'Cleo'], n: 1 }, { title: 'Greetings' }]);
const stored = await sdk.threadGet(client, { id: threadId });
assert.deepEqual([stored.project_id, stored.org_id, stored.metadata], [projectId, orgId, { title: 'Greetings' }]);
assert.deepEqual((await sdk.threadList(client, { metadata: { title: 'Greetings' }, projectId })).map((entry) => entry.id), [threadId]);

// Sessions, with the runs of evaluations.
const detail = await sdk.sessionGet(client, { id: greeting });
assert.deepEqual(detail.evalRuns.map((run) => run.pending), [false, false]);
const { session: shown } = detail;
assert.deepEqual(
	[shown.pending, shown.success, shown.thread_id, shown.project_id, shown.deployment_id, shown.trigger, shown.method, shown.url, shown.env],
	[false, true, threadId, projectId, 'deploy_1', 'api', 'POST', 'http://localhost/api/greet', 'development'],
);
assert.deepEqual(detail.route, { id: 'route_greet', method: 'POST', path: '/api/greet' });
assert.deepEqual(JSON.parse(shown.user_data), { greeted: 'Ada' });
assert.deepEqual(detail.agents, [{ name: 'agent_greeter', identifier: 'agent_greeter' }]);
const runs = Object.fromEntries((await sdk.evalRunList(client, { sessionId: greeting })).map((run) => [run.evalIdentifier, run]));
assert.deepEqual([runs.eval_polite.success, runs.eval_polite.error, runs.eval_polite.result], [true, null, { success: true, passed: true, score: 1, reason: 'it says hello' }]);
assert.deepEqual([runs.eval_broken.success, runs.eval_broken.error], [false, 'no judge']);
assert.equal(runs.eval_polite.evalId, `evalid_${tag}_polite`);

// A handler that fails.
assert.equal((await call('POST', '/api/greet', { name: 'nobody' })).status, 500);
const { session: failed } = await sdk.sessionGet(client, { id: session });
assert.equal(failed.success, false);
assert.match(failed.error, /nobody to greet/);

// Deletion.
assert.equal((await call('POST', '/api/end')).status, 200);
await assert.rejects(sdk.threadGet(client, { id: threadId }), { status: 404 });

await runShutdown();
process.exit(0);
