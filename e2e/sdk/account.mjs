// Organizations, projects, regions and API keys.
import assert from 'node:assert/strict';
import { client, clientWith, fails, orgId, refused, sdk, stranger, tag, time } from './sdk.mjs';

// The current user, organizations, regions.
const me = await sdk.whoami(client);
assert.equal(typeof me.firstName, 'string');
assert.equal(typeof me.lastName, 'string');
const organizations = await sdk.listOrganizations(client);
assert.deepEqual(me.organizations, organizations);
assert.deepEqual(organizations.map((organization) => organization.id), [orgId]);
assert.deepEqual(await sdk.listRegions(client), [{ region: 'local', description: 'This machine' }]);
for (const call of [sdk.whoami, sdk.listOrganizations, sdk.listRegions, sdk.projectList, sdk.apikeyList]) {
	await refused(401, /API key/, () => call(stranger));
}

// API keys.
const projectId = `prj_${tag}`;
const expiresAt = '2099-12-31T23:59:59.000Z';
const made = await sdk.apikeyCreate(client, { name: `key ${tag}`, expiresAt, orgId });
assert.match(made.value, /^sk_\w{49}$/);
const confined = await sdk.apikeyCreate(client, { name: 'confined', expiresAt: '2099-12-31T23:59:59+01:00', projectId, orgId: null });
const key = await sdk.apikeyGet(client, made.id);
assert.match(key.createdAt, time);
assert.deepEqual({ ...key, createdAt: '', lastUsedAt: null }, {
	id: made.id, name: `key ${tag}`, orgId, type: 'user', expiresAt, lastUsedAt: null, createdAt: '', project: null,
});
const confinedKey = await sdk.apikeyGet(client, confined.id);
assert.deepEqual(confinedKey.project, { id: projectId, name: projectId });
assert.deepEqual([confinedKey.type, confinedKey.expiresAt], ['project', '2099-12-31T22:59:59.000Z']);

const ids = async (request) => (await sdk.apikeyList(client, request)).map((entry) => entry.id);
assert.deepEqual((await ids()).slice(0, 2).sort(), [made.id, confined.id].sort());
assert.deepEqual(await ids({ projectId }), [confined.id]);
assert.ok((await ids({ orgId })).includes(made.id));
assert.deepEqual(await ids({ orgId: 'org_other' }), []);

assert.deepEqual(await sdk.listOrganizations(clientWith(made.value)), organizations);
assert.equal(await sdk.apikeyDelete(client, made.id), 1);
await refused(401, /API key/, () => sdk.listOrganizations(clientWith(made.value)));
await refused(404, new RegExp(`API key ${made.id} not found`), () => sdk.apikeyGet(client, made.id));
await refused(404, /not found/, () => sdk.apikeyDelete(client, made.id));
await refused(422, /body\.expiresAt: expected/, () => sdk.apikeyCreate(client, { name: 'late', expiresAt: '2001-01-01T00:00:00Z' }));
await refused(422, /body\.name: expected/, () => sdk.apikeyCreate(client, { name: '', expiresAt }));
await refused(403, /organization/, () => sdk.apikeyCreate(client, { name: 'x', expiresAt, orgId: 'org_other' }));
await fails('ValidationInputError', /input/, () => sdk.apikeyCreate(client, { expiresAt }));

// Projects: a key, as a runtime does, has registered one.
const project = (await sdk.projectList(client)).find((entry) => entry.id === projectId);
assert.deepEqual(project, { id: projectId, name: projectId, orgId, orgName: organizations[0].name, latestDeploymentId: null });
assert.deepEqual((await sdk.projectList(clientWith(confined.value))).map((entry) => entry.id), [projectId]);
assert.equal((await sdk.projectList(client, false, 1)).length, 1);
await refused(403, /project/, () => sdk.oauthClientList(clientWith(confined.value)));
