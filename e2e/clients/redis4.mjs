// Uses a key-value store by REDIS_URL and REDIS_KEY_PREFIX with version 4 of the npm package redis and its default settings,
// which speaks RESP2 and keeps cursors of scans in numbers. It exits with 1 if a reply is not what Redis sends.
import assert from "node:assert/strict";
import redis from "redis4";
import { scans } from "./scan.mjs";

const prefix = process.env.REDIS_KEY_PREFIX ?? "";
const key = (name) => `${prefix}node4:${name}`;
const add = redis.defineScript({
  SCRIPT: 'return redis.call("INCRBY", KEYS[1], ARGV[1])',
  NUMBER_OF_KEYS: 1,
  transformArguments: (name, n) => [name, String(n)],
});
const client = redis.createClient({ url: process.env.REDIS_URL, scripts: { add } });
const fail = (err) => {
  console.error(err);
  process.exit(1);
};
client.on("error", fail);
await client.connect();

assert.equal(await client.set(key("page"), "grüße", { EX: 3600, NX: true }), "OK");
assert.equal(await client.get(key("page")), "grüße");
assert.equal(await client.hSet(key("user"), { name: "Ada", born: 1815 }), 2);
assert.deepEqual({ ...(await client.hGetAll(key("user"))) }, { name: "Ada", born: "1815" });
assert.equal(await client.rPush(key("list"), ["a", "b", "c"]), 3);
assert.deepEqual(await client.lRange(key("list"), 0, -1), ["a", "b", "c"]);
assert.deepEqual([await client.add(key("n"), 5), await client.add(key("n"), 5)], [5, 10]);

assert.deepEqual(await client.multi().set(key("t"), "1").incr(key("t")).exec(), ["OK", 2]);
await client.executeIsolated(async (own) => {
  await own.watch(key("t"));
  await client.set(key("t"), "10");
  await assert.rejects(own.multi().incr(key("t")).exec(), redis.WatchError);
});

const subscriber = client.duplicate();
subscriber.on("error", fail);
await subscriber.connect();
const message = new Promise((resolve) => subscriber.subscribe(key("news"), resolve).then(() => client.publish(key("news"), "hello")));
assert.equal(await message, "hello");
await subscriber.quit();

await client.xGroupCreate(key("events"), "workers", "$", { MKSTREAM: true });
const id = await client.xAdd(key("events"), "*", { kind: "order" });
const read = await client.xReadGroup("workers", "w1", { key: key("events"), id: ">" }, { COUNT: 10, BLOCK: 1000 });
assert.deepEqual(read[0].messages.map((entry) => [entry.id, { ...entry.message }]), [[id, { kind: "order" }]]);
assert.equal(await client.xAck(key("events"), "workers", id), 1);

await scans(client, key, prefix === "");
await client.quit();
