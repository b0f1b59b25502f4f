// Uses a bucket with Bun's S3 client, as applications of the platform do: configured by the
// environment variables of the resource alone, and bound to the bucket by its endpoint.
//
//   bun bun_s3.mjs BUCKET_ENDPOINT
import { S3Client, s3 } from 'bun';
import assert from 'node:assert/strict';

const [endpoint] = process.argv.slice(2);
const bound = new S3Client({ endpoint, virtualHostedStyle: true });

for (const [name, client] of Object.entries({ environment: s3, bound })) {
	const key = `${name}/ü b.txt`;
	assert.equal(await client.write(key, 'hello world', { type: 'text/plain' }), 11);
	assert.equal(await client.file(key).text(), 'hello world');
	assert.equal(await client.file(key).slice(6, 11).text(), 'world');
	const stat = await client.stat(key);
	assert.equal(stat.size, 11);
	assert.match(stat.type, /^text\/plain/);
	assert.equal(await client.exists(`${name}/missing`), false);

	const put = await fetch(client.presign(`${name}/put`, { method: 'PUT', expiresIn: 60 }), { method: 'PUT', body: 'x' });
	assert.equal(put.status, 200, await put.text());
	assert.equal(await (await fetch(client.presign(key))).text(), 'hello world');

	const part = Buffer.alloc(5 << 20, name);
	const writer = client.file(`${name}/parts`).writer({ partSize: part.length });
	for (let i = 0; i < 3; i++) {
		writer.write(part);
		await writer.flush();
	}
	await writer.end();
	const joined = Buffer.from(await client.file(`${name}/parts`).arrayBuffer());
	assert.ok(joined.equals(Buffer.concat([part, part, part])), 'the parts differ');

	const list = await client.list({ prefix: `${name}/`, maxKeys: 2 });
	assert.deepEqual(list.contents.map((object) => object.key), [`${name}/parts`, `${name}/put`]);
	assert.equal(list.isTruncated, true);
	const rest = await client.list({ prefix: `${name}/`, continuationToken: list.nextContinuationToken });
	assert.deepEqual(rest.contents.map((object) => object.key), [key]);

	for (const gone of [`${name}/parts`, `${name}/put`]) await client.delete(gone);
	await assert.rejects(client.file(`${name}/put`).text(), { code: 'NoSuchKey' });
}
