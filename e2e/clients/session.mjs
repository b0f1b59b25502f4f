// Keeps the sessions of an Express application in a key-value store with connect-redis, by REDIS_URL and REDIS_KEY_PREFIX: signs in,
// counts visits, prolongs the session and signs out. It exits with 1 if a session is not what was stored.
import assert from "node:assert/strict";
import { RedisStore } from "connect-redis";
import express from "express";
import session from "express-session";
import { createClient } from "redis";

const prefix = `${process.env.REDIS_KEY_PREFIX ?? ""}sess:`;
const client = createClient({ url: process.env.REDIS_URL });
client.on("error", (err) => {
  console.error(err);
  process.exit(1);
});
await client.connect();

const store = new RedisStore({ client, prefix });
const app = express();
app.use(session({ store, secret: "of the test", resave: false, saveUninitialized: false, cookie: { maxAge: 3600_000 } }));
app.post("/login", (req, res) => {
  req.session.regenerate((err) => {
    if (err) throw err;
    req.session.user = "Ada";
    req.session.visits = 0;
    res.json({ id: req.sessionID });
  });
});
app.get("/visit", (req, res) => {
  if (req.session.user) req.session.visits++;
  res.json({ user: req.session.user ?? null, visits: req.session.visits ?? null });
});
app.get("/look", (req, res) => res.json({ user: req.session.user ?? null })); // changes nothing, so the session is touched only
app.post("/logout", (req, res) => req.session.destroy((err) => res.json({ ok: !err })));

const server = app.listen(0, "127.0.0.1");
await new Promise((resolve) => server.on("listening", resolve));
const request = async (method, path, cookie) => {
  const response = await fetch(`http://127.0.0.1:${server.address().port}${path}`, { method, headers: cookie ? { cookie } : {} });
  assert.equal(response.status, 200);
  return { body: await response.json(), cookie: response.headers.get("set-cookie")?.split(";")[0] };
};

assert.deepEqual((await request("GET", "/visit")).body, { user: null, visits: null });
const { body: { id }, cookie } = await request("POST", "/login");
assert.ok((await client.ttl(prefix + id)) > 3500);
assert.deepEqual((await request("GET", "/visit", cookie)).body, { user: "Ada", visits: 1 });
assert.deepEqual((await request("GET", "/visit", cookie)).body, { user: "Ada", visits: 2 });
assert.equal(JSON.parse(await client.get(prefix + id)).visits, 2);

await client.expire(prefix + id, 60);
assert.deepEqual((await request("GET", "/look", cookie)).body, { user: "Ada" });
assert.ok((await client.ttl(prefix + id)) > 3500);

const other = (await request("POST", "/login")).body.id;
assert.notEqual(other, id);
if (!process.env.REDIS_KEY_PREFIX) { // lists of all sessions use SCAN
  assert.deepEqual((await store.ids()).sort(), [id, other].sort());
  assert.equal(await store.length(), 2);
}
assert.deepEqual((await request("POST", "/logout", cookie)).body, { ok: true });
assert.deepEqual((await request("GET", "/visit", cookie)).body, { user: null, visits: null });
assert.equal(await client.exists(prefix + id), 0);
assert.equal(await client.exists(prefix + other), 1);

server.closeAllConnections();
server.close();
await client.close();
