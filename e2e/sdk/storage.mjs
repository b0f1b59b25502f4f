// Buckets, objects, usage and configuration.
import assert from 'node:assert/strict';
import { client, fails, orgId, refused, sdk, stranger, tag, time, viewer } from './sdk.mjs';

const bucket = tag;

// Resources.
const [made, unnamed] = await sdk.createResources(client, orgId, 'local', [
	{ type: 's3', name: bucket, description: 'made by an SDK' },
	{ type: 's3' },
]);
assert.equal(made.type, 's3');
assert.equal(made.name, bucket);
assert.equal(made.env.S3_BUCKET, bucket);
assert.deepEqual(Object.keys(made.env).sort(), ['S3_ACCESS_KEY_ID', 'S3_BUCKET', 'S3_ENDPOINT', 'S3_REGION', 'S3_SECRET_ACCESS_KEY']);
assert.notEqual(unnamed.name, '');
await refused(409, /taken|exists/, () => sdk.createResources(client, orgId, 'local', [{ type: 's3', name: bucket }]));
await refused(404, /region nowhere not found/, () => sdk.listResources(client, orgId, 'nowhere'));
await refused(403, /role/, () => sdk.createResources(viewer, orgId, 'local', [{ type: 's3' }]));
await fails('RegionResponseError', /can only contain/, () => sdk.createResources(client, orgId, 'local', [{ type: 's3', name: 'No_Bucket' }]));
assert.equal((await sdk.listResources(viewer, orgId, 'local')).s3.find((entry) => entry.bucket_name === bucket).secret_key, null);

const inRegion = (await sdk.listResources(client, orgId, 'local')).s3.find((entry) => entry.bucket_name === bucket);
assert.equal(inRegion.description, 'made by an SDK');
assert.equal(inRegion.access_key, made.env.S3_ACCESS_KEY_ID);
assert.equal(inRegion.secret_key, made.env.S3_SECRET_ACCESS_KEY);
assert.equal(inRegion.endpoint, `${made.env.S3_ENDPOINT}/${bucket}`);
assert.deepEqual(inRegion.env, made.env);

const names = async (options) => (await sdk.listOrgResources(client, { type: 's3', orgId, ...options })).s3.map((entry) => entry.bucket_name);
const all = await names({ sort: 'created' });
assert.deepEqual(all.slice(-2).sort(), [bucket, unnamed.name].sort());
assert.deepEqual(await names({ name: bucket.toUpperCase() }), [bucket]);
assert.deepEqual(await names({ sort: 'name', direction: 'desc', limit: 1, offset: 1 }), [[...all].sort().at(-2)]);
assert.deepEqual(await names({ limit: 0 }), []);
assert.deepEqual((await sdk.listOrgResources(client, { type: 'db' })).s3, []);
await refused(403, /X-Agentuity-Orgid/, () => sdk.listOrgResources(client, { orgId: 'org_01h00000000000000000000000' }));

// Objects, uploaded and downloaded with presigned URLs.
const contents = { 'a.txt': 'one', 'dir/b': 'two', 'dir/ü +%&?#.txt': 'drei', 'dir//x/': '' };
for (const [key, text] of Object.entries(contents)) {
	const upload = await sdk.presignStorageObject(client, bucket, key, 'upload');
	assert.equal(upload.expiry_seconds, 3600);
	const put = await fetch(upload.presigned_url, { method: 'PUT', body: text, headers: { 'Content-Type': 'text/plain' } });
	assert.equal(put.status, 200, await put.text());
}
for (const [key, text] of Object.entries(contents)) {
	const { presigned_url } = await sdk.presignStorageObject(client, bucket, key);
	const got = await fetch(presigned_url);
	assert.equal(got.status, 200);
	assert.equal(got.headers.get('content-type'), 'text/plain');
	assert.equal(await got.text(), text);
	assert.equal((await fetch(presigned_url, { method: 'PUT', body: 'x' })).status, 403);
}

const list = await sdk.listStorageObjects(client, bucket);
assert.deepEqual(list.objects.map((object) => object.key), Object.keys(contents).sort());
assert.equal(list.total, 4);
assert.deepEqual([list.prefix, list.limit, list.offset], ['', 100, 0]);
const [first] = list.objects;
assert.equal(first.bucket_name, bucket);
assert.equal(first.size, 3);
assert.equal(first.content_type, 'text/plain');
assert.match(first.etag, /^"?[0-9a-f]{32}"?$/);
assert.match(first.last_modified, time);
const page = await sdk.listStorageObjects(client, bucket, { prefix: 'dir/', limit: 1, offset: 1 });
assert.deepEqual([page.objects.map((object) => object.key), page.total, page.limit, page.offset], [['dir/b'], 3, 1, 1]);
await refused(404, /bucket no-such-bucket not found/, () => sdk.listStorageObjects(client, 'no-such-bucket'));
await refused(401, /./, () => sdk.listStorageObjects(stranger, bucket));

// Statistics and analytics.
const stats = await sdk.getStorageStats(client, bucket);
assert.deepEqual([stats.bucket_name, stats.object_count, stats.total_size], [bucket, 4, 10]);
assert.match(stats.last_event_at, time);
const analytics = await sdk.getStorageAnalytics(client, { days: 7 });
assert.equal(analytics.days, 7);
const ofBucket = analytics.buckets.find((entry) => entry.bucket_name === bucket);
assert.deepEqual([ofBucket.object_count, ofBucket.total_size], [4, 10]);
assert.equal(analytics.daily.at(-1).total_size, analytics.summary.total_size);
assert.equal((await sdk.getStorageAnalytics(client)).days, 180);
const listed = (await sdk.listOrgResources(client, { name: bucket })).s3[0];
assert.deepEqual([listed.object_count, listed.total_size, listed.last_event_at], [4, 10, stats.last_event_at]);

// Configuration.
const untouched = {
	bucket_name: bucket, storage_tier: null, ttl: null, public: null, cache_control: null, cors: null,
	additional_headers: null, bucket_location: 'local',
};
assert.deepEqual(await sdk.getBucketConfig(client, bucket), untouched);
const update = {
	storage_tier: 'INFREQUENT_ACCESS', ttl: 86400, public: true, cache_control: 'max-age=60',
	cors: { allowed_origins: ['https://example.com'], allowed_methods: ['GET'], max_age_seconds: null },
	additional_headers: { 'X-Served-By': 'Steward' },
};
const configured = await sdk.updateBucketConfig(client, bucket, update);
assert.deepEqual(configured, {
	...untouched, ...update, cors: { allowed_origins: ['https://example.com'], allowed_methods: ['GET'] },
});
const anonymous = await fetch(`${inRegion.endpoint}/a.txt`);
assert.equal(anonymous.status, 200);
assert.equal(anonymous.headers.get('cache-control'), 'max-age=60');
assert.equal(anonymous.headers.get('x-served-by'), 'Steward');
assert.deepEqual(await sdk.updateBucketConfig(client, bucket, { public: null, ttl: 0 }), { ...configured, public: null, ttl: null });
assert.equal((await fetch(`${inRegion.endpoint}/a.txt`)).status, 403);
await refused(422, /body\.cors\.allowed_methods\[0\]: expected GET/, () => sdk.updateBucketConfig(client, bucket, { cors: { allowed_methods: ['TRACE'] } }));
await sdk.deleteBucketConfig(client, bucket);
assert.deepEqual(await sdk.getBucketConfig(client, bucket), untouched);

// Deletion.
assert.deepEqual(await sdk.deleteStorageObjects(client, bucket, { key: 'missing' }), { deleted_count: 0 });
assert.deepEqual(await sdk.deleteStorageObjects(client, bucket, { key: 'a.txt' }), { deleted_count: 1 });
assert.deepEqual(await sdk.deleteStorageObjects(client, bucket, { prefix: 'dir/' }), { deleted_count: 3 });
assert.equal((await sdk.getStorageStats(client, bucket)).object_count, 0);
const { presigned_url: late } = await sdk.presignStorageObject(client, bucket, 'late', 'upload');
assert.equal((await fetch(late, { method: 'PUT', body: 'x' })).status, 200);
const deleted = await sdk.deleteResources(client, orgId, 'local', [{ type: 's3', name: bucket }, { type: 's3', name: unnamed.name }]);
assert.deepEqual(deleted, [bucket, unnamed.name].map((gone) => ({ type: 's3', name: gone, env_keys: [] })));
assert.notEqual((await fetch(late, { method: 'PUT', body: 'x' })).status, 200);
await refused(404, /not found/, () => sdk.getStorageStats(client, bucket));
await refused(404, /not found/, () => sdk.deleteResources(client, orgId, 'local', [{ type: 's3', name: bucket }]));
