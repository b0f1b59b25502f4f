// Runs jobs in a key-value store with BullMQ, by REDIS_URL and REDIS_KEY_PREFIX: jobs that succeed, fail and are tried again, are
// delayed, repeated, depend on others and are limited in their rate. It exits with 1 if a job is not done as it was ordered.
import assert from "node:assert/strict";
import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";
import Redis from "ioredis";

const prefix = `${process.env.REDIS_KEY_PREFIX ?? ""}bull`;
const fail = (err) => {
  console.error(err);
  process.exit(1);
};
const probe = new Redis(process.env.REDIS_URL, { enableReadyCheck: false });
const skipVersionCheck = await probe.info().then(() => false, () => true); // a server may refuse INFO
probe.disconnect();
const connections = [];
const closers = [];

// open opens a part of BullMQ with a connection of its own, as an application has it.
function open(Class, ...args) {
  const connection = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: null });
  connections.push(connection);
  const options = args.pop();
  const part = new Class(...args, { connection, prefix, skipVersionCheck, ...options });
  part.on("error", fail);
  closers.push(part);
  return part;
}

// until calls a function until it returns something else than false, and returns that.
async function until(what, check) {
  for (const end = Date.now() + 100_000; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 25))) {
    const result = await check();
    if (result !== false) return result;
  }
  fail(new Error(`waited in vain: ${what}`));
}

await Promise.all([jobs(), repeated(), flow(), limited()]);
await Promise.all(closers.map((part) => part.close()));
connections.forEach((connection) => connection.disconnect());

async function jobs() {
  const queue = open(Queue, "mail", {});
  const events = open(QueueEvents, "mail", {});
  await events.waitUntilReady();
  const seen = [];
  events.on("completed", ({ jobId, returnvalue }) => seen.push([jobId, returnvalue]));
  const worker = open(Worker, "mail", async (job) => {
    if (job.name === "flaky" && job.attemptsMade < 2) throw new Error(`attempt ${job.attemptsMade}`);
    if (job.name === "broken") throw new Error("always");
    await job.updateProgress(50);
    await job.log("sent");
    return { to: job.data.to, attempt: job.attemptsMade };
  }, { concurrency: 3 });
  await worker.waitUntilReady();

  const sent = await queue.addBulk(Array.from({ length: 20 }, (_, i) => ({ name: "send", data: { to: `user-${i}` }, opts: { priority: (i % 3) + 1 } })));
  const results = await Promise.all(sent.map((job) => job.waitUntilFinished(events, 100_000)));
  assert.deepEqual(results, sent.map((_, i) => ({ to: `user-${i}`, attempt: 0 })));

  const flaky = await queue.add("flaky", { to: "x" }, { attempts: 5, backoff: { type: "exponential", delay: 20 } });
  assert.deepEqual(await flaky.waitUntilFinished(events, 100_000), { to: "x", attempt: 2 });
  const broken = await queue.add("broken", {}, { attempts: 2 });
  await assert.rejects(broken.waitUntilFinished(events, 100_000), /always/);
  assert.equal(await broken.getState(), "failed");
  await broken.retry("failed");
  await until("the job to fail again", async () => (await broken.isFailed()) && (await queue.getJob(broken.id)).attemptsMade > 2);

  const before = Date.now();
  const delayed = await queue.add("send", { to: "later" }, { delay: 300 });
  assert.equal(await delayed.getState(), "delayed");
  assert.deepEqual(await delayed.waitUntilFinished(events, 100_000), { to: "later", attempt: 0 });
  assert.ok(Date.now() - before >= 300);
  const far = await queue.add("send", { to: "never" }, { delay: 3600_000, jobId: "far" });
  await queue.add("send", { to: "twice" }, { delay: 3600_000, jobId: "far" });
  assert.deepEqual((await queue.getJob("far")).data, { to: "never" });
  await far.changeDelay(7200_000);
  assert.equal(await queue.getDelayedCount(), 1);
  await far.remove();

  assert.deepEqual(await queue.getJobCounts("completed", "failed", "delayed", "wait", "active"), { completed: 22, failed: 1, delayed: 0, wait: 0, active: 0 });
  assert.deepEqual((await queue.getJobLogs(sent[0].id)).logs, ["sent"]);
  assert.equal((await queue.getJob(sent[0].id)).progress, 50);
  assert.equal((await queue.getCompleted(0, 4)).length, 5);
  await until("the events", async () => seen.length === 22);
  await queue.pause();
  assert.equal(await queue.isPaused(), true);
  await queue.resume();
  assert.equal((await queue.clean(0, 100, "completed")).length, 22);
  await worker.close();
  await queue.drain();
  await queue.obliterate({ force: true });
  assert.equal(await queue.count(), 0);
}

async function repeated() {
  const queue = open(Queue, "repeat", {});
  let runs = 0;
  const worker = open(Worker, "repeat", async () => void runs++, {});
  await queue.upsertJobScheduler("tick", { every: 100 }, { name: "tick", data: { a: 1 } });
  await until("three repetitions", async () => runs >= 3);
  const schedulers = await queue.getJobSchedulers();
  assert.deepEqual(schedulers.map((s) => [s.key, Number(s.every)]), [["tick", 100]]);
  assert.equal(await queue.removeJobScheduler("tick"), true);
  await worker.close();
}

async function flow() {
  const events = open(QueueEvents, "report", {});
  await events.waitUntilReady();
  open(Worker, "part", async (job) => job.data.n * 2, {});
  open(Worker, "report", async (job) => Object.values(await job.getChildrenValues()).reduce((a, b) => a + b, 0), {});
  const producer = open(FlowProducer, {});
  const children = [1, 2, 3].map((n) => ({ name: "part", queueName: "part", data: { n } }));
  const { job } = await producer.add({ name: "sum", queueName: "report", children });
  assert.equal(await job.waitUntilFinished(events, 100_000), 12);
}

async function limited() {
  const queue = open(Queue, "limited", {});
  let done = 0;
  const worker = open(Worker, "limited", async () => void done++, { limiter: { max: 2, duration: 3600_000 }, maximumRateLimitDelay: 500 });
  await queue.addBulk(Array.from({ length: 6 }, (_, i) => ({ name: "n", data: { i } })));
  await until("the limit to be reached", async () => done >= 2 && (await queue.getRateLimitTtl(2)) > 0);
  await until("the others to wait", async () => (await queue.getWaitingCount()) === 4);
  assert.equal(done, 2);
  await worker.close(true); // without waiting for the limit
}
