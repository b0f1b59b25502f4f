// Databases and key-value stores: as resources, and the contents of databases.
import assert from 'node:assert/strict';
import { client, fails, fixture, orgId, refused, sdk, stranger, tag, viewer } from './sdk.mjs';

const name = tag.replaceAll('-', '_');
const request = { database: name, orgId, region: 'local' };

// Resources.
const [made, unnamed] = await sdk.createResources(client, orgId, 'local', [{ type: 'db', name, description: 'made by an SDK' }, { type: 'db' }]);
assert.deepEqual([made.type, made.name, Object.keys(made.env).sort()], ['db', name, ['DATABASE_AUTH_TOKEN', 'DATABASE_URL']]);
assert.notEqual(unnamed.name, '');
const inRegion = (await sdk.listResources(client, orgId, 'local')).db.find((entry) => entry.name === name);
assert.equal(inRegion.url, made.env.DATABASE_URL);
assert.match(inRegion.url, new RegExp(`^${fixture.url}/db/\\w+/$`));
assert.deepEqual([inRegion.env, inRegion.internal], [made.env, false]);
const names = async (options) => (await sdk.listOrgResources(client, { type: 'db', ...options })).db.map((entry) => entry.name);
assert.deepEqual(await names({ name }), [name]);
assert.deepEqual((await names({ sort: 'created' })).slice(-2).sort(), [name, unnamed.name].sort());
assert.equal((await names({ limit: 1, offset: 1 })).length, 1);
const [listed] = (await sdk.listOrgResources(client, { name })).db;
assert.deepEqual([listed.description, listed.cloud_region, listed.org_id, listed.url], ['made by an SDK', 'local', orgId, inRegion.url]);
const hidden = (await sdk.listResources(viewer, orgId, 'local')).db.find((entry) => entry.name === name);
assert.deepEqual([hidden.password, hidden.env], [null, {}]);
await refused(409, /exists|taken/, () => sdk.createResources(client, orgId, 'local', [{ type: 's3' }, { type: 'db', name }]));
await refused(403, /role/, () => sdk.createResources(viewer, orgId, 'local', [{ type: 'db' }]));
await refused(401, /API key/, () => sdk.listResources(stranger, orgId, 'local'));
await refused(404, /region nowhere not found/, () => sdk.createResources(client, orgId, 'nowhere', [{ type: 'db' }]));
await fails('RegionResponseError', /lowercase/, () => sdk.createResources(client, orgId, 'local', [{ type: 'db', name: 'Upper' }]));

// Contents.
const query = (text) => sdk.dbQuery(client, { ...request, query: text });
assert.deepEqual(await sdk.dbTables(client, request), []);
assert.deepEqual((await query('CREATE TABLE orders (id integer PRIMARY KEY, item text NOT NULL, price real)')).rows, []);
await query(`INSERT INTO orders (item, price) VALUES ('tea', 1.5), ('ü', NULL)`);
const result = await query('SELECT id, item, price FROM orders ORDER BY id');
assert.deepEqual(result.columns.map((column) => column.name), ['id', 'item', 'price']);
assert.deepEqual(result.rows, [{ id: 1, item: 'tea', price: 1.5 }, { id: 2, item: 'ü', price: null }]);
assert.deepEqual([result.rowCount, result.truncated], [2, false]);
const many = await query('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500) SELECT i FROM n');
assert.deepEqual([many.rowCount, many.truncated], [1000, true]);
const [table] = await sdk.dbTables(client, request);
assert.deepEqual([table.table_name, table.columns.map((column) => [column.name, column.data_type.toLowerCase(), column.is_nullable, column.is_primary_key])], [
	'orders', [['id', 'integer', false, true], ['item', 'text', false, false], ['price', 'real', true, false]],
]);
assert.match(sdk.generateCreateTableSQL(table), /CREATE TABLE orders/);
await fails('DbResponseError', /syntax error/, () => query('SELEC'));
await fails('DbResponseError', /not found/, () => sdk.dbQuery(client, { ...request, database: 'none', query: 'SELECT 1' }));
await fails('DbInvalidArgumentError', /query is required/, () => query(''));
await refused(404, /not found/, () => sdk.dbTables(client, { ...request, database: 'none' }));

// A key-value store, which the SDK lists only: it creates databases and buckets.
const headers = { Authorization: `Bearer ${fixture.key}`, 'Content-Type': 'application/json' };
const store = JSON.stringify({ resources: [{ type: 'kv', name }] });
const url = `${fixture.url}/resource/${orgId}/local`;
assert.equal((await fetch(url, { method: 'POST', headers, body: store })).status, 201);
assert.match((await sdk.listResources(client, orgId, 'local')).redis.url, /^rediss?:\/\//);
assert.equal((await fetch(url, { method: 'DELETE', headers, body: store })).status, 204);

// Deletion.
const deleted = await sdk.deleteResources(client, orgId, 'local', [{ type: 'db', name }, { type: 'db', name: unnamed.name }]);
assert.deepEqual(deleted.map((entry) => [entry.type, entry.name]), [['db', name], ['db', unnamed.name]]);
assert.deepEqual(await names({ name }), []);
await refused(404, /not found/, () => sdk.deleteResources(client, orgId, 'local', [{ type: 'db', name }]));
await fails('DbResponseError', /not found/, () => query('SELECT 1'));
