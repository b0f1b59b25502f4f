// Uses a key-value store by REDIS_URL and REDIS_KEY_PREFIX with ioredis. It exits with 1 if a reply is not what Redis sends.
import assert from "node:assert/strict";
import Redis from "ioredis";

const keyPrefix = process.env.REDIS_KEY_PREFIX ?? "";
const redis = new Redis(process.env.REDIS_URL, { keyPrefix, maxRetriesPerRequest: 1, retryStrategy: () => null });
redis.on("error", (err) => {
  console.error(err);
  process.exit(1);
});

assert.equal(await redis.set("io:text", "grüße", "EX", 3600), "OK");
assert.equal(await redis.get("io:text"), "grüße");
assert.ok((await redis.ttl("io:text")) > 3500);
assert.equal(await redis.get("io:none"), null);

const bytes = Buffer.from([0, 255, 13, 10, 0]);
await redis.set("io:bytes", bytes);
assert.deepEqual(await redis.getBuffer("io:bytes"), bytes);

await redis.hset("io:hash", { a: "1", b: "2" });
assert.deepEqual(await redis.hgetall("io:hash"), { a: "1", b: "2" });
assert.equal(await redis.rpush("io:list", "x", "y", "z"), 3);
assert.deepEqual(await redis.lrange("io:list", 0, -1), ["x", "y", "z"]);

const replies = await redis.pipeline().incr("io:n").incr("io:n").get("io:n").exec();
assert.deepEqual(replies, [[null, 1], [null, 2], [null, "2"]]);
const transaction = await redis.multi().set("io:t", "1").incr("io:t").exec();
assert.deepEqual(transaction, [[null, "OK"], [null, 2]]);

await Promise.all(Array.from({ length: 1000 }, (_, i) => redis.set(`io:many:${i}`, i)));
assert.equal((await redis.mget(...Array.from({ length: 1000 }, (_, i) => `io:many:${i}`))).filter((value, i) => value === String(i)).length, 1000);
if (keyPrefix === "") { // a scan shows all keys of a server, so a store with a prefix has none
  const found = new Set();
  for await (const keys of redis.scanStream({ match: "io:many:*", count: 100 })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 1000);
}

redis.defineCommand("take", { numberOfKeys: 1, lua: 'return redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2])' });
redis.defineCommand("release", { numberOfKeys: 1, lua: 'return redis.call("GET", KEYS[1]) == ARGV[1] and redis.call("DEL", KEYS[1]) or 0' });
assert.equal(await redis.take("io:lock", "mine", 300_000), "OK");
assert.equal(await redis.take("io:lock", "theirs", 300_000), null);
assert.equal(await redis.release("io:lock", "theirs"), 0);
assert.equal(await redis.release("io:lock", "mine"), 1);
assert.deepEqual(await redis.pipeline().take("io:lock", "a", 300_000).take("io:lock", "b", 300_000).exec(), [[null, "OK"], [null, null]]);

const worker = redis.duplicate();
const popped = worker.blpop("io:queue", 100);
await redis.rpush("io:queue", "job");
assert.deepEqual(await popped, [`${keyPrefix}io:queue`, "job"]);

const received = new Promise((resolve) => worker.on("message", (...message) => resolve(message)));
await worker.subscribe(`${keyPrefix}io:news`); // ioredis adds the prefix to keys only, not to channels
assert.equal(await redis.publish(`${keyPrefix}io:news`, "hello"), 1);
assert.deepEqual(await received, [`${keyPrefix}io:news`, "hello"]);
await worker.unsubscribe();

await redis.xgroup("CREATE", "io:stream", "group", "$", "MKSTREAM");
const id = await redis.xadd("io:stream", "*", "field", "value");
const read = await worker.xreadgroup("GROUP", "group", "me", "COUNT", 5, "BLOCK", 1000, "STREAMS", "io:stream", ">");
const entries = Array.isArray(read) ? read[0][1] : read[`${keyPrefix}io:stream`]; // RESP2 or RESP3
assert.deepEqual(entries, [[id, ["field", "value"]]]);
assert.equal(await redis.xack("io:stream", "group", id), 1);
await worker.quit();

await assert.rejects(redis.call("nonsense"), /unknown command 'nonsense'/);
await redis.quit();
