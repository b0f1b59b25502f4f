// Uses a key-value store by REDIS_URL and REDIS_KEY_PREFIX with the npm package redis and its default settings: a cache,
// a lock, a transaction, messages and a stream. It exits with 1 if a reply is not what Redis sends.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createClient, defineScript, ErrorReply, WatchError } from "redis";
import { scans } from "./scan.mjs";

const prefix = process.env.REDIS_KEY_PREFIX ?? "";
const key = (name) => `${prefix}node:${name}`;

const release = defineScript({
  SCRIPT: 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0',
  NUMBER_OF_KEYS: 1,
  parseCommand(parser, name, token) {
    parser.pushKey(name);
    parser.push(token);
  },
  transformReply: (reply) => reply === 1,
});

const fail = (err) => {
  console.error(err);
  process.exit(1);
};
const client = createClient({ url: process.env.REDIS_URL, scripts: { release } });
client.on("error", fail);
await client.connect();

await cache();
await lock();
await transaction();
await messages();
await stream();
await queue();
await scans(client, key, prefix === "");
await client.close();

async function cache() {
  assert.equal(await client.set(key("page"), "grüße", { expiration: { type: "EX", value: 3600 } }), "OK");
  assert.equal(await client.get(key("page")), "grüße");
  assert.ok((await client.ttl(key("page"))) > 3500);
  assert.equal(await client.get(key("none")), null);
  assert.equal(await client.hSet(key("user"), { name: "Ada", born: 1815 }), 2);
  assert.deepEqual({ ...(await client.hGetAll(key("user"))) }, { name: "Ada", born: "1815" });
  assert.equal(await client.zAdd(key("top"), [{ score: 1.5, value: "a" }, { score: Infinity, value: "b" }]), 2);
  assert.deepEqual(await client.zRangeWithScores(key("top"), 0, -1), [{ value: "a", score: 1.5 }, { value: "b", score: Infinity }]);
  assert.equal(await client.zScore(key("top"), "a"), 1.5);
  const all = await Promise.all(Array.from({ length: 500 }, () => client.incr(key("counter"))));
  assert.deepEqual(all, Array.from({ length: 500 }, (_, i) => i + 1));
  if (prefix !== "") return; // a scan shows all keys of a server, so a store with a prefix has none
  const names = [];
  for await (const page of client.scanIterator({ MATCH: key("t*"), TYPE: "zset" })) names.push(...page);
  assert.deepEqual(names, [key("top")]);
}

async function lock() {
  const take = (token) => client.set(key("lock"), token, { condition: "NX", expiration: { type: "PX", value: 300_000 } });
  const [mine, theirs] = [randomUUID(), randomUUID()];
  assert.equal(await take(mine), "OK");
  assert.equal(await take(theirs), null);
  assert.equal(await client.release(key("lock"), theirs), false);
  assert.equal(await client.release(key("lock"), mine), true);
  assert.equal(await take(theirs), "OK");
}

async function transaction() {
  assert.deepEqual(await client.multi().set(key("t"), "1").incr(key("t")).sMembers(key("none")).exec(), ["OK", 2, []]);
  const other = client.duplicate();
  other.on("error", fail);
  await other.connect();
  await other.watch(key("t"));
  await client.set(key("t"), "10");
  await assert.rejects(other.multi().incr(key("t")).exec(), WatchError);
  await other.watch(key("t"));
  assert.deepEqual(await other.multi().incr(key("t")).exec(), [11]);
  await client.lPush(key("list"), "x");
  const failed = await client.multi().incr(key("list")).get(key("t")).exec().catch((err) => err.replies);
  assert.ok(failed[0] instanceof ErrorReply && /^WRONGTYPE/.test(failed[0].message));
  assert.equal(failed[1], "11");
  await other.close();
}

async function messages() {
  const subscriber = client.duplicate();
  subscriber.on("error", fail);
  await subscriber.connect();
  const received = [];
  let done;
  const end = new Promise((resolve) => (done = resolve));
  const listen = (message, channel) => {
    received.push([channel, message]);
    if (received.length === 3) done();
  };
  await subscriber.subscribe(key("news"), listen);
  await subscriber.pSubscribe(`${prefix}*`, (message, channel) => channel === key("other") && listen(message, channel));
  assert.equal(await subscriber.ping(), "PONG");
  assert.equal(await client.publish(key("news"), "one"), 2);
  assert.equal(await client.publish(key("other"), "two"), 1);
  await client.publish(key("news"), "three");
  await end;
  assert.deepEqual(received, [[key("news"), "one"], [key("other"), "two"], [key("news"), "three"]]);
  await subscriber.unsubscribe();
  await subscriber.pUnsubscribe();
  assert.equal(await client.publish(key("news"), "four"), 0);
  await subscriber.close();
}

async function stream() {
  const [name, group] = [key("events"), "workers"];
  await client.xGroupCreate(name, group, "$", { MKSTREAM: true });
  await assert.rejects(client.xGroupCreate(name, group, "$"), /^Error: BUSYGROUP/);
  const ids = [await client.xAdd(name, "*", { kind: "order", n: "1" }), await client.xAdd(name, "*", { kind: "order", n: "2" })];
  const read = await client.xReadGroup(group, "w1", { key: name, id: ">" }, { COUNT: 10, BLOCK: 1000 });
  const entries = Array.isArray(read) ? read[0].messages : read[name];
  assert.deepEqual(entries.map((entry) => [entry.id, { ...entry.message }]), ids.map((id, i) => [id, { kind: "order", n: `${i + 1}` }]));
  assert.equal(await client.xAck(name, group, ids[0]), 1);
  assert.equal((await client.xPending(name, group)).pending, 1);
  const claimed = await client.xAutoClaim(name, group, "w2", 0, "0-0");
  assert.deepEqual(claimed.messages.map((entry) => entry.id), [ids[1]]);
  const info = await client.xInfoStream(name);
  assert.equal(info.length, 2);
  assert.deepEqual((await client.xInfoConsumers(name, group)).map((c) => [c.name, c.pending]), [["w1", 0], ["w2", 1]]);
}

async function queue() {
  const worker = client.duplicate();
  worker.on("error", fail);
  await worker.connect();
  const popped = worker.blPop(key("queue"), 100);
  await client.rPush(key("queue"), ["a", "b"]);
  assert.deepEqual({ ...(await popped) }, { key: key("queue"), element: "a" });
  assert.equal(await worker.blMove(key("queue"), key("done"), "LEFT", "RIGHT", 1), "b");
  assert.equal(await worker.blPop(key("queue"), 0.05), null);
  await worker.close();
}
