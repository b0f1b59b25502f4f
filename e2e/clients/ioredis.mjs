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

await assert.rejects(redis.call("nonsense"), /unknown command 'nonsense'/);
await redis.quit();
