// OAuth clients, consents, activity, scopes, members and signing keys, and the functions with which
// applications sign users in.
import assert from 'node:assert/strict';
import { ask, client, fails, fixture, orgId, refused, sdk, stranger, tag, time, until, viewer } from './sdk.mjs';

const details = { name: `App ${tag}`, description: 'For tests', homepage_url: 'https://app.example.com' };
const redirect = 'http://127.0.0.1:9/callback';

// Catalogue and members.
const { scopes, permissions } = await sdk.oauthScopes(client);
assert.ok(scopes.some((scope) => scope.name === 'openid' && scope.required));
assert.ok(permissions.length > 0 && permissions[0].groups[0].levels.length > 1);
const [owner] = (await sdk.oauthOrgMembers(client)).filter((member) => member.role === 'owner');
assert.match(owner.id, /^usr_/);

// Clients.
const { client: made, client_secret } = await sdk.oauthClientCreate(client, {
	...details, icon: null, client_type: 'confidential', redirect_uris: [redirect], post_logout_redirect_uris: ['https://app.example.com/bye'],
	grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'], scopes: ['openid', 'profile', 'email', 'offline_access'],
	project_id: `prj_${tag}`, access_token_lifetime_seconds: 600, refresh_token_lifetime_seconds: 3600, id_token_lifetime_seconds: 300,
	allowed_user_ids: [owner.id], is_public: false,
});
assert.match(client_secret, /^\w{43}$/);
assert.match(made.created_at, time);
assert.deepEqual(
	[made.org_id, made.project_id, made.client_type, made.internal, made.is_public, made.icon, made.allowed_user_ids],
	[orgId, `prj_${tag}`, 'confidential', false, false, null, [owner.id]],
);
const minimal = await sdk.oauthClientCreate(client, { ...details, client_type: 'public' });
assert.equal(minimal.client_secret, '');
const shown = await sdk.oauthClientGet(client, made.id);
assert.deepEqual(shown, { ...made, user_count: 0, last_activity: null, link: `${fixture.url}/console/oauth/clients/${made.id}` });
assert.deepEqual((await sdk.oauthClientList(client)).slice(0, 2).map((entry) => entry.id), [minimal.client.id, made.id]);

const updated = await sdk.oauthClientUpdate(client, made.id, { name: 'Renamed', icon: 'https://app.example.com/icon.png' });
assert.deepEqual(updated.client, { ...made, name: 'Renamed', icon: 'https://app.example.com/icon.png', updated_at: updated.client.updated_at });
assert.equal(updated.client_secret, undefined);
const converted = await sdk.oauthClientUpdate(client, minimal.client.id, { client_type: 'confidential' });
assert.match(converted.client_secret, /^\w{43}$/);

const rotated = await sdk.oauthClientRotateSecret(client, made.id);
assert.equal(rotated.client_id, made.id);
assert.notEqual(rotated.client_secret, client_secret);

// A user signs in with the functions for applications.
const config = { clientId: made.id, clientSecret: rotated.client_secret, issuer: fixture.url, scopes: 'openid profile email offline_access' };
async function signIn() {
	const code = await ask(`authorize ${sdk.buildAuthorizeUrl(redirect, config)}`);
	return sdk.exchangeToken(code, redirect, config);
}
const tokens = await signIn();
assert.equal(tokens.expires_in, 600);
const user = await sdk.fetchUserInfo(tokens.access_token, config);
assert.deepEqual([user.sub, user.email], [owner.id, owner.email]);
const refreshed = await sdk.refreshToken(tokens.refresh_token, config);
assert.equal((await sdk.fetchUserInfo(refreshed.access_token, config)).sub, owner.id);
assert.equal(sdk.isTokenExpired({ access_token: refreshed.access_token, expires_at: 4e9 }), false);
await fails('OAuthResponseError', /Token exchange failed \(400\)/, () => sdk.exchangeToken('wrong', redirect, config));

// Consents and activity.
const [grant] = await sdk.oauthClientUsers(client, made.id);
assert.deepEqual([grant.user_id, grant.scopes.includes('offline_access')], [owner.id, true]);
assert.match(grant.created_at, time);
const consent = (await sdk.oauthUserConsent(client)).find((entry) => entry.client_id === made.id);
assert.deepEqual(
	[consent.client_name, consent.client_description, consent.client_icon, consent.client_homepage_url, consent.scopes],
	['Renamed', 'For tests', 'https://app.example.com/icon.png', 'https://app.example.com', grant.scopes],
);
const accesses = 4; // two tokens and two answers with claims of the user
const [day] = await until(() => sdk.oauthClientActivity(client, made.id, 7), (days) => days[0]?.total_access === accesses);
assert.deepEqual(day, { activity_date: day.activity_date, total_access: accesses, unique_users: 1 });
assert.match(day.activity_date, /^\d{4}-\d\d-\d\d$/);
assert.deepEqual(await sdk.oauthClientActivity(client, made.id), [day]);
const bulk = (await sdk.oauthBulkActivity(client, 30)).find((entry) => entry.client_id === made.id);
assert.deepEqual(bulk, { client_id: made.id, activity_date: day.activity_date, unique_users: 1 });
const counted = await sdk.oauthClientGet(client, made.id);
assert.equal(counted.user_count, 1);
assert.match(counted.last_activity, time);

// Logout revokes tokens; each way to revoke a consent ends them too.
await sdk.logout(refreshed.refresh_token, config);
await fails('OAuthResponseError', /Token refresh failed \(400\)/, () => sdk.refreshToken(refreshed.refresh_token, config));
for (const revoke of [
	() => sdk.oauthUserConsentRevoke(client, made.id),
	() => sdk.oauthClientRevokeUser(client, made.id, owner.id),
	() => sdk.oauthClientRevokeAllUsers(client, made.id),
]) {
	const { access_token } = await signIn();
	assert.equal((await sdk.fetchUserInfo(access_token, config)).sub, owner.id);
	assert.deepEqual(await revoke(), { deleted: true });
	await fails('OAuthResponseError', /Failed to fetch user info \(401\)/, () => sdk.fetchUserInfo(access_token, config));
	assert.deepEqual(await sdk.oauthClientUsers(client, made.id), []);
}
await refused(404, /not found/, () => sdk.oauthUserConsentRevoke(client, made.id));
await refused(404, /not found/, () => sdk.oauthClientRevokeUser(client, made.id, 'usr_none'));
assert.deepEqual(await sdk.oauthClientRevokeAllUsers(client, made.id), { deleted: true });

// Keys. A rotation within a minute of the last two is not made, which this SDK reports as an error.
if (fixture.rotate) {
	assert.deepEqual(await sdk.oauthKeysRotate(client), { rotated: true });
	await until(() => sdk.oauthKeysRotate(client).then(() => undefined, (err) => err), (err) => err?._tag === 'ValidationOutputError');
}

// Errors.
await refused(422, /body\.redirect_uris\[0\]: expected/, () => sdk.oauthClientCreate(client, { ...details, redirect_uris: ['/relative'] }));
await refused(422, /body\.scopes\[0\]: expected/, () => sdk.oauthClientUpdate(client, made.id, { scopes: ['unknown'] }));
await fails('ValidationInputError', /input/, () => sdk.oauthClientUpdate(client, made.id, { client_type: 'secret' }));
await refused(403, /role/, () => sdk.oauthClientCreate(viewer, details));
await refused(403, /role/, () => sdk.oauthOrgMembers(viewer));
await refused(403, /role/, () => sdk.oauthKeysRotate(viewer));
await refused(401, /API key/, () => sdk.oauthClientList(stranger));
for (const { id } of [made, minimal.client]) assert.deepEqual(await sdk.oauthClientDelete(client, id), { deleted: true });
for (const call of [sdk.oauthClientGet, sdk.oauthClientDelete, sdk.oauthClientRotateSecret, sdk.oauthClientUsers, sdk.oauthClientActivity]) {
	await refused(404, new RegExp(`${made.id} not found`), () => call(client, made.id));
}
