// Uses a key-value store by REDIS_URL and REDIS_KEY_PREFIX with the client that is built into Bun. It exits with 1 if a reply is not
// what Redis sends.
import assert from "node:assert/strict";
import { RedisClient } from "bun";

const prefix = process.env.REDIS_KEY_PREFIX ?? "";
const key = (name) => `${prefix}bun:${name}`;
const client = new RedisClient(process.env.REDIS_URL, { autoReconnect: false });
await client.connect();

await client.set(key("text"), "grüße");
assert.equal(await client.get(key("text")), "grüße");
assert.equal(await client.get(key("none")), null);
await client.expire(key("text"), 3600);
assert.ok((await client.ttl(key("text"))) > 3500);
assert.equal(await client.exists(key("text")), true);
assert.deepEqual(Buffer.from(await client.getBuffer(key("text"))), Buffer.from("grüße"));
assert.deepEqual(await Promise.all(Array.from({ length: 200 }, () => client.incr(key("n")))), Array.from({ length: 200 }, (_, i) => i + 1));

await client.hmset(key("user"), ["name", "Ada", "born", "1815"]);
assert.deepEqual(await client.hmget(key("user"), ["name", "born", "none"]), ["Ada", "1815", null]);
assert.deepEqual({ ...(await client.hgetall(key("user"))) }, { name: "Ada", born: "1815" });
assert.equal(await client.hincrby(key("user"), "born", 1), 1816);
await client.sadd(key("tags"), "a");
assert.equal(await client.sismember(key("tags"), "a"), true);
assert.deepEqual([...(await client.smembers(key("tags")))], ["a"]);
await client.send("ZADD", [key("top"), "1.5", "a", "2", "b"]);
assert.equal(Number(await client.send("ZSCORE", [key("top"), "a"])), 1.5);

const take = (token) => client.send("SET", [key("lock"), token, "NX", "PX", "300000"]);
const release = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0';
assert.equal(await take("mine"), "OK");
assert.equal(await take("theirs"), null);
assert.equal(await client.send("EVAL", [release, "1", key("lock"), "theirs"]), 0);
assert.equal(await client.send("EVAL", [release, "1", key("lock"), "mine"]), 1);

await client.send("MULTI", []);
assert.equal(await client.send("INCR", [key("t")]), "QUEUED");
assert.equal(await client.send("INCR", [key("t")]), "QUEUED");
assert.deepEqual(await client.send("EXEC", []), [1, 2]);

const subscriber = await client.duplicate();
const received = new Promise((resolve) => subscriber.subscribe(key("news"), (message, channel) => resolve([channel, message])));
while ((await client.publish(key("news"), "hello")) === 0); // until the subscription is there
assert.deepEqual(await received, [key("news"), "hello"]);
subscriber.close();

const id = await client.send("XADD", [key("stream"), "*", "field", "value"]);
const read = await client.send("XREAD", ["COUNT", "5", "STREAMS", key("stream"), "0"]);
assert.deepEqual(read[key("stream")], [[id, ["field", "value"]]]);

await assert.rejects(client.send("NONSENSE", []), /unknown command/);
await assert.rejects(client.send("INCR", [key("user")]), /WRONGTYPE/);
client.close();
