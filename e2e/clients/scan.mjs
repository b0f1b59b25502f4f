// Counts what the scans of a client of the npm package redis find: each key, field or member once at least, and no other.
import assert from "node:assert/strict";

const count = 2500;
const names = Array.from({ length: count }, (_, i) => `m${i}`);

// scans fills a hash, a set, a sorted set and as many keys, and scans them with the iterators of a client. Those of
// version 4 return one at a time, and later ones a page.
export async function scans(client, key, whole) {
  await client.hSet(key("hash"), Object.fromEntries(names.map((name, i) => [name, String(i)])));
  await client.sAdd(key("members"), names);
  await client.zAdd(key("scores"), names.map((value, score) => ({ value, score })));
  await found(client.hScanIterator(key("hash"), { COUNT: 100 }), (entry) => entry.field);
  await found(client.sScanIterator(key("members")), (member) => member);
  await found(client.zScanIterator(key("scores")), (entry) => entry.value);
  if (!whole) return; // a scan shows all keys of a server, so a store with a prefix has none
  await Promise.all(names.map((name) => client.set(key(`many:${name}`), name)));
  await found(client.scanIterator({ MATCH: key("many:*") }), (name) => name.slice(key("many:").length));
}

async function found(pages, nameOf) {
  const all = new Set();
  for await (const page of pages) (Array.isArray(page) ? page : [page]).forEach((one) => all.add(nameOf(one)));
  assert.deepEqual([...all].sort(), [...names].sort());
}
