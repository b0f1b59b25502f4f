// Limits rates in a key-value store with rate-limiter-flexible, by REDIS_URL and REDIS_KEY_PREFIX, over ioredis and over the npm
// package redis. It exits with 1 if a limit is not kept.
import assert from "node:assert/strict";
import Redis from "ioredis";
import { RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";
import { createClient } from "redis";

const prefix = process.env.REDIS_KEY_PREFIX ?? "";
const fail = (err) => {
  console.error(err);
  process.exit(1);
};

const ioredis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 1, retryStrategy: () => null });
ioredis.on("error", fail);
await limits(ioredis, "io", false);
await ioredis.quit();

const client = createClient({ url: process.env.REDIS_URL });
client.on("error", fail);
await client.connect();
await limits(client, "node", true);
await client.close();

async function limits(storeClient, name, useRedisPackage) {
  const limiter = new RateLimiterRedis({ storeClient, keyPrefix: `${prefix}limit:${name}`, points: 5, duration: 60, blockDuration: 120, useRedisPackage });
  const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => limiter.consume("ada")));
  assert.equal(outcomes.filter((outcome) => outcome.status === "fulfilled").length, 5);
  const refused = outcomes.filter((outcome) => outcome.status === "rejected").map((outcome) => outcome.reason);
  refused.forEach((reason) => assert.ok(reason instanceof RateLimiterRes, reason));
  assert.ok(refused.every((reason) => reason.msBeforeNext > 30_000 && reason.remainingPoints === 0), JSON.stringify(refused));
  const state = await limiter.get("ada");
  assert.ok(state.consumedPoints > 5 && state.msBeforeNext > 60_000);
  assert.equal((await limiter.consume("bob")).remainingPoints, 4);
  assert.equal((await limiter.penalty("bob", 2)).consumedPoints, 3);
  assert.equal((await limiter.reward("bob", 1)).consumedPoints, 2);
  await limiter.block("bob", 300);
  await assert.rejects(limiter.consume("bob"), (reason) => reason instanceof RateLimiterRes && reason.msBeforeNext > 200_000);
  assert.equal(await limiter.delete("ada"), true);
  assert.equal((await limiter.consume("ada")).consumedPoints, 1);
}
