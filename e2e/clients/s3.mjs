// Uses a bucket with the AWS SDK for JavaScript, in a version that is given, with its defaults.
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';

const [, , endpoint, bucket, version] = process.argv;
const suffix = version === 'current' ? '' : `-${version}`;
const sdk = await import(suffix ? `client-s3${suffix}` : '@aws-sdk/client-s3');
const { getSignedUrl } = await import(suffix ? `s3-request-presigner${suffix}` : '@aws-sdk/s3-request-presigner');

const client = new sdk.S3Client({ endpoint, region: 'us-east-1', forcePathStyle: true });
const send = (command, input) => client.send(new sdk[command]({ Bucket: bucket, ...input }));
const text = async (key) => (await send('GetObjectCommand', { Key: key })).Body.transformToString();

// A presigned PUT with defaults has the checksum of a body that the SDK does not know yet.
const url = await getSignedUrl(client, new sdk.PutObjectCommand({
	Bucket: bucket, Key: 'presigned', ContentType: 'text/plain', Metadata: { color: 'red' }, StorageClass: 'STANDARD_IA',
}), { expiresIn: 600 });
const put = await fetch(url, { method: 'PUT', body: 'from a browser', headers: { 'Content-Type': 'text/plain' } });
assert.equal(put.status, 200, await put.text());
assert.equal(await text('presigned'), 'from a browser');
const head = await send('HeadObjectCommand', { Key: 'presigned' });
assert.deepEqual([head.Metadata.color, head.StorageClass], ['red', 'STANDARD_IA']);
const read = await getSignedUrl(client, new sdk.GetObjectCommand({ Bucket: bucket, Key: 'presigned', ResponseContentType: 'text/html' }));
const got = await fetch(read);
assert.deepEqual([got.status, got.headers.get('content-type'), await got.text()], [200, 'text/html', 'from a browser']);

// Bodies of each kind; streams are in chunks with a trailer.
await send('PutObjectCommand', { Key: 'text', Body: 'a text' });
await send('PutObjectCommand', { Key: 'stream', Body: Readable.from([Buffer.alloc(100_000, 'a')]), ContentLength: 100_000 });
await send('PutObjectCommand', { Key: 'empty', Body: '' });
assert.equal(await text('text'), 'a text');
assert.equal((await text('stream')).length, 100_000);
assert.equal(await text('empty'), '');

const attributes = await send('GetObjectAttributesCommand', { Key: 'text', ObjectAttributes: ['ETag', 'ObjectSize', 'Checksum'] });
assert.equal(attributes.ObjectSize, 6);
assert.ok(attributes.Checksum.ChecksumCRC32 && !attributes.StorageClass, JSON.stringify(attributes));

const { UploadId } = await send('CreateMultipartUploadCommand', { Key: 'parts' });
const Parts = [];
for (const [i, Body] of [Buffer.alloc(5 << 20, 'b'), Buffer.from('end')].entries()) {
	const part = await send('UploadPartCommand', { Key: 'parts', UploadId, PartNumber: i + 1, Body });
	Parts.push({ PartNumber: i + 1, ETag: part.ETag, ChecksumCRC32: part.ChecksumCRC32 });
}
const done = await send('CompleteMultipartUploadCommand', { Key: 'parts', UploadId, MultipartUpload: { Parts } });
assert.ok(done.ETag.endsWith('-2"'), done.ETag);
assert.equal((await text('parts')).length, (5 << 20) + 3);

const listed = await send('ListObjectsV2Command', {});
assert.deepEqual(listed.Contents.map((o) => o.Key), ['empty', 'parts', 'presigned', 'stream', 'text']);
await assert.rejects(send('GetBucketLifecycleConfigurationCommand', {}), { name: 'NoSuchLifecycleConfiguration' });
const deleted = await send('DeleteObjectsCommand', { Delete: { Objects: listed.Contents.map(({ Key }) => ({ Key })) } });
assert.equal(deleted.Deleted.length, 5);
await assert.rejects(send('GetObjectCommand', { Key: 'text' }), { name: 'NoSuchKey' });
