// Threads, sessions, evaluations and their runs. The SDK only reads and deletes them; runtimes write
// them (runtime.mjs), here with plain requests.
import assert from 'node:assert/strict';
import { client, fixture, orgId, refused, sdk, stranger, tag, time, viewer } from './sdk.mjs';

const projectId = `prj_${tag}`;
async function write(method, path, body) {
	const headers = { Authorization: `Bearer ${fixture.key}`, 'Content-Type': 'application/json' };
	const got = await fetch(fixture.url + path, { method, headers, body: JSON.stringify(body) });
	assert.ok(got.ok, `${method} ${path}: ${got.status} ${await got.text()}`);
}

// Threads.
const threads = ['a', 'b', 'c'].map((letter) => `thrd_${tag}_${letter}`);
for (const [i, id] of threads.entries()) {
	await write('PUT', `/thread/${id}`, { project_id: projectId, user_data: `{"n":${i}}`, metadata: { n: i, even: i % 2 === 0 } });
}
const thread = await sdk.threadGet(client, { id: threads[0] });
assert.match(thread.created_at, time);
assert.deepEqual({ ...thread, created_at: '', updated_at: '' }, {
	id: threads[0], created_at: '', updated_at: '', deleted: false, deleted_at: null, deleted_by: null, org_id: orgId,
	project_id: projectId, user_data: '{"n":0}', metadata: { n: 0, even: true },
});
const list = async (options) => (await sdk.threadList(client, { projectId, ...options })).map((entry) => threads.indexOf(entry.id));
assert.deepEqual(await list(), [2, 1, 0]);
assert.deepEqual(await list({ limit: 1, offset: 1 }), [1]);
assert.deepEqual(await list({ count: 2, sort: 'updated', direction: 'asc' }), [0, 1]);
assert.deepEqual(await list({ metadata: { even: true } }), [2, 0]);
assert.deepEqual(await list({ orgId: 'org_other' }), []);
await sdk.threadDelete(client, { id: threads[0] });
assert.deepEqual(await list(), [2, 1]);
await refused(404, new RegExp(`thread ${threads[0]} not found`), () => sdk.threadGet(client, { id: threads[0] }));
await refused(404, /not found/, () => sdk.threadDelete(client, { id: threads[0] }));
await refused(403, /role/, () => sdk.threadDelete(viewer, { id: threads[1] }));
await refused(401, /API key/, () => sdk.threadList(stranger));
await refused(422, /query\.limit/, () => sdk.threadList(client, { limit: 5000 }));

// Sessions.
const session = { threadId: threads[1], orgId, projectId, routeId: 'route_1', environment: 'production', devmode: false, url: '/api/chat', method: 'POST', trigger: 'api' };
const [done, failed, open] = ['done', 'failed', 'open'].map((name) => `sess_${tag}_${name}`);
const started = Date.now() - 5000;
for (const id of [done, failed, open]) await write('POST', '/session', { ...session, id, timestamp: started, metadata: { lang: 'en' } });
await write('PUT', '/session', { id: done, threadId: threads[1], statusCode: 200, agentIds: ['agent_1'], userData: '{"x":1}', timestamp: started + 2000 });
await write('PUT', '/session', { id: failed, threadId: null, statusCode: 500, error: 'it broke' });

// Evaluations and runs.
const evalId = `evalid_${tag}`;
const definition = { name: `Polite ${tag}`, identifier: 'eval_1', projectId, agentIdentifier: `agent_${tag}`, description: 'Is it polite?' };
await write('PUT', `/cli/eval/${evalId}`, definition);
const runs = ['passed', 'failed', 'pending'].map((name) => `evalrun_${tag}_${name}`);
for (const id of runs) await write('POST', '/evalrun', { id, sessionId: done, evalId, evalIdentifier: 'eval_1', orgId, projectId, devmode: false });
await write('PUT', '/evalrun', { id: runs[0], result: { success: true, reason: 'polite' } });
await write('PUT', '/evalrun', { id: runs[1], error: 'no answer' });

const evaluation = await sdk.evalGet(client, evalId);
assert.match(evaluation.createdAt, time);
assert.deepEqual({ ...evaluation, createdAt: '', updatedAt: '' }, { ...definition, id: evalId, orgId, devmode: false, createdAt: '', updatedAt: '' });
const { orgId: _, ...listed } = evaluation;
for (const filter of [{ projectId }, { agentId: `agent_${tag}` }, { orgId, projectId }]) {
	assert.deepEqual(await sdk.evalList(client, filter), [listed]);
}
assert.deepEqual(await sdk.evalList(client, { orgId: 'org_other' }), []);
assert.ok((await sdk.evalList(client)).length >= 1);

const run = await sdk.evalRunGet(client, runs[0]);
assert.deepEqual({ ...run, createdAt: '', updatedAt: '' }, {
	id: runs[0], sessionId: done, evalId, evalIdentifier: 'eval_1', evalName: definition.name, agentIdentifier: `agent_${tag}`,
	projectId, orgId, deploymentId: null, devmode: false, pending: false, success: true, error: null,
	result: { success: true, reason: 'polite' }, createdAt: '', updatedAt: '',
});
for (const filter of [{ projectId }, { evalId }, { sessionId: done }, { agentId: `agent_${tag}` }]) {
	const got = await sdk.evalRunList(client, filter);
	assert.deepEqual(Object.fromEntries(got.map((entry) => [entry.id, [entry.pending, entry.success, entry.error]])), {
		[runs[0]]: [false, true, null], [runs[1]]: [false, false, 'no answer'], [runs[2]]: [true, false, null],
	});
}
await refused(404, /evaluation \S+ not found/, () => sdk.evalGet(client, `evalid_${tag}_none`));
await refused(404, /run \S+ not found/, () => sdk.evalRunGet(client, 'evalrun_none'));
for (const call of [sdk.evalList, sdk.evalRunList, sdk.sessionList]) await refused(401, /API key/, () => call(stranger));

// Sessions, with their runs.
const detail = await sdk.sessionGet(client, { id: done });
assert.deepEqual(detail.agents, [{ name: 'agent_1', identifier: 'agent_1' }]);
assert.deepEqual(detail.route, { id: 'route_1', method: 'POST', path: '/api/chat' });
assert.deepEqual(detail.evalRuns.map((entry) => entry.id).sort(), [...runs].sort());
assert.deepEqual(detail.evalRuns.find((entry) => entry.id === runs[0]).result, { success: true, reason: 'polite' });
assert.equal(detail.timeline, null);
const { session: shown } = detail;
assert.deepEqual({ ...shown, created_at: '', updated_at: '' }, {
	id: done, created_at: '', updated_at: '', deleted: false, deleted_at: null, deleted_by: null,
	start_time: new Date(started).toISOString(), end_time: new Date(started + 2000).toISOString(), duration: 2e9,
	org_id: orgId, project_id: projectId, deployment_id: '', agent_ids: ['agent_1'], trigger: 'api', env: 'production',
	devmode: false, pending: false, success: true, error: null, metadata: { lang: 'en' }, cpu_time: null, llm_cost: null,
	llm_prompt_token_count: null, llm_completion_token_count: null, total_cost: null, method: 'POST',
	url: 'http://localhost/api/chat', route_id: 'route_1', thread_id: threads[1], user_data: '{"x":1}',
});
const sessions = await sdk.sessionList(client, { projectId });
assert.deepEqual(Object.fromEntries(sessions.map((entry) => [entry.id, [entry.pending, entry.success, entry.error]])), {
	[done]: [false, true, null], [failed]: [false, false, 'it broke'], [open]: [true, false, null],
});
assert.deepEqual((await sdk.sessionList(client, { projectId, limit: 1, offset: 1 })).length, 1);
assert.equal((await sdk.sessionList(client, { threadId: threads[1] })).length, 3);
assert.deepEqual(await sdk.sessionList(client, { orgId: 'org_other' }), []);
await refused(404, /session sess_none not found/, () => sdk.sessionGet(client, { id: 'sess_none' }));
