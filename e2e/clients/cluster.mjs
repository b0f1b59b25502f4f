// Uses a key-value store by REDIS_URL, with its setting cluster-enabled, with the cluster clients of ioredis and of the
// npm package redis in two versions. It exits with 1 if a reply is not what a Redis cluster sends.
import assert from "node:assert/strict";
import Redis from "ioredis";
import redis from "redis";
import redis4 from "redis4";

const url = new URL(process.env.REDIS_URL);
const [username, password] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
const names = Array.from({ length: 100 }, (_, i) => `cluster:${i}`); // in as many slots

await useIoredis();
await useRedis(redis);
await useRedis(redis4);

async function useIoredis() {
  const cluster = new Redis.Cluster([{ host: url.hostname, port: Number(url.port) }], { redisOptions: { username, password } });
  await Promise.all(names.map((name) => cluster.set(name, name)));
  assert.deepEqual(await Promise.all(names.map((name) => cluster.get(name))), names);
  assert.deepEqual(await cluster.pipeline().incr("{io}:n").get("{io}:n").exec(), [[null, 1], [null, "1"]]);
  assert.deepEqual(await cluster.multi().incr("{io}:n").get("{io}:n").exec(), [[null, 2], [null, "2"]]);
  const subscriber = new Redis.Cluster([process.env.REDIS_URL], { redisOptions: { username, password } });
  const received = new Promise((resolve) => subscriber.on("message", (...message) => resolve(message)));
  await subscriber.subscribe("io:news");
  assert.equal(await cluster.publish("io:news", "hello"), 1);
  assert.deepEqual(await received, ["io:news", "hello"]);
  assert.equal(cluster.nodes("master").length, 1);
  await Promise.all([cluster.quit(), subscriber.quit()]);
}

async function useRedis({ createCluster }) {
  const cluster = createCluster({ rootNodes: [{ url: process.env.REDIS_URL }], defaults: { username, password } });
  cluster.on("error", (err) => {
    console.error(err);
    process.exit(1);
  });
  await cluster.connect();
  await Promise.all(names.map((name) => cluster.set(name, `${name}!`)));
  assert.deepEqual(await Promise.all(names.map((name) => cluster.get(name))), names.map((name) => `${name}!`));
  assert.deepEqual(await cluster.multi().set("{node}:t", "1").incr("{node}:t").exec(), ["OK", 2]);
  const message = new Promise((resolve) => cluster.subscribe("node:news", resolve).then(() => cluster.publish("node:news", "hello")));
  assert.equal(await message, "hello");
  await cluster.unsubscribe("node:news");
  assert.equal(cluster.masters.length, 1);
  await cluster.quit();
}
