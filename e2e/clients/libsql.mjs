// Uses a database with @libsql/client: typed arguments, batches, interactive transactions, errors with
// codes, and many statements at the same time.
//
//   node libsql.mjs <DATABASE_URL> <DATABASE_AUTH_TOKEN> [concurrent statements]

import assert from "node:assert/strict";
import { createClient } from "@libsql/client";

const [url, authToken, concurrent = "1000"] = process.argv.slice(2);
const client = createClient({ url, authToken, intMode: "bigint", concurrency: 0 });

const fails = (promise, code, message) =>
  assert.rejects(promise, (error) => {
    assert.equal(error.code, code);
    assert.match(error.message, message);
    return true;
  });

async function typedArguments() {
  await client.execute("CREATE TABLE typed (id INTEGER PRIMARY KEY, i INTEGER, r REAL, t TEXT, b BLOB)");
  const rows = [
    [1n, 9223372036854775807n, 1.5, "text 'ä' \u{1F600}\n\0", new Uint8Array([0, 1, 254, 255])],
    [2n, -9223372036854775808n, 1e300, "", new Uint8Array()],
    [3n, null, null, null, null],
  ];
  for (const row of rows) {
    const inserted = await client.execute({ sql: "INSERT INTO typed VALUES (?, ?, ?, ?, ?)", args: row });
    assert.equal(inserted.rowsAffected, 1);
    assert.equal(inserted.lastInsertRowid, row[0]);
  }
  const got = await client.execute("SELECT * FROM typed ORDER BY id");
  assert.deepEqual(got.columns, ["id", "i", "r", "t", "b"]);
  assert.deepEqual(got.columnTypes, ["INTEGER", "INTEGER", "REAL", "TEXT", "BLOB"]);
  got.rows.forEach((row, n) => {
    const values = Array.from({ length: row.length }, (_, i) => row[i]);
    assert.deepEqual(values.map((v) => (v instanceof ArrayBuffer ? new Uint8Array(v) : v)), rows[n]);
  });
  const named = await client.execute({
    sql: "SELECT :a AS a, @b AS b, $c AS c, typeof(:a) AS type",
    args: { a: true, b: new Date(86400000), c: "x" },
  });
  assert.deepEqual({ ...named.rows[0] }, { a: 1n, b: 86400000, c: "x", type: "integer" });
  const joined = await client.execute("SELECT a.id, b.id FROM typed a JOIN typed b ON b.id = a.id + 1");
  assert.deepEqual(joined.columns, ["id", "id"]);
}

async function batches() {
  await client.batch(["CREATE TABLE batched (id INTEGER PRIMARY KEY, v TEXT NOT NULL)", "CREATE INDEX by_v ON batched (v)"], "write");
  const results = await client.batch(
    [
      { sql: "INSERT INTO batched (v) VALUES (?)", args: ["one"] },
      { sql: "INSERT INTO batched (v) VALUES (:v) RETURNING id", args: { v: "two" } },
      "SELECT count(*) AS n FROM batched",
    ],
    "write",
  );
  assert.equal(results[1].rows[0].id, 2n);
  assert.equal(results[2].rows[0].n, 2n);
  await fails(
    client.batch(["INSERT INTO batched (v) VALUES ('three')", "INSERT INTO batched (v) VALUES (NULL)"], "write"),
    "SQLITE_CONSTRAINT",
    /NOT NULL constraint failed: batched.v/,
  );
  const after = await client.batch(["SELECT count(*) AS n FROM batched"], "read");
  assert.equal(after[0].rows[0].n, 2n);
  await client.migrate(["CREATE TABLE migrated (id INTEGER PRIMARY KEY)", "ALTER TABLE migrated ADD COLUMN v TEXT"]);
  await client.executeMultiple("INSERT INTO migrated (v) VALUES ('a;b'); INSERT INTO migrated (v) VALUES ('c');");
  const migrated = await client.execute("SELECT v FROM migrated ORDER BY id");
  assert.deepEqual(migrated.rows.map((row) => row.v), ["a;b", "c"]);
}

async function transactions() {
  await client.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)");
  await client.execute("INSERT INTO accounts VALUES (1, 100), (2, 0)");
  const rolledBack = await client.transaction("write");
  await rolledBack.execute("UPDATE accounts SET balance = balance - 60 WHERE id = 1");
  const inside = await rolledBack.execute("SELECT balance FROM accounts WHERE id = 1");
  assert.equal(inside.rows[0].balance, 40n);
  const outside = await client.execute("SELECT balance FROM accounts WHERE id = 1");
  assert.equal(outside.rows[0].balance, 100n);
  await rolledBack.rollback();
  assert.equal(rolledBack.closed, true);

  const committed = await client.transaction("write");
  await committed.batch([
    "UPDATE accounts SET balance = balance - 60 WHERE id = 1",
    { sql: "UPDATE accounts SET balance = balance + ? WHERE id = 2", args: [60] },
  ]);
  await fails(committed.execute("INSERT INTO accounts VALUES (1, 0)"), "SQLITE_CONSTRAINT", /UNIQUE/);
  await committed.executeMultiple("INSERT INTO accounts VALUES (3, 1); INSERT INTO accounts VALUES (4, 1)");
  await committed.commit();
  const balances = await client.execute("SELECT balance FROM accounts ORDER BY id");
  assert.deepEqual(balances.rows.map((row) => row.balance), [40n, 60n, 1n, 1n]);

  const read = await client.transaction("read");
  assert.equal((await read.execute("SELECT count(*) AS n FROM accounts")).rows[0].n, 4n);
  await fails(read.execute("DELETE FROM accounts"), "SQLITE_READONLY", /read-only transaction/);
  read.close();

  // A closed transaction lets the next writer in.
  const abandoned = await client.transaction("write");
  await abandoned.execute("DELETE FROM accounts");
  abandoned.close();
  await client.execute("UPDATE accounts SET balance = 0 WHERE id = 1");
}

async function errors() {
  await fails(client.execute("SELECT * FROM nowhere"), "SQLITE_ERROR", /no such table: nowhere/);
  await fails(client.execute("SELEC 1"), "SQL_INPUT_ERROR", /syntax error/);
  await fails(client.execute({ sql: "SELECT ?, ?", args: [1] }), "ARGS_INVALID", /parameter 2/);
  await fails(client.execute("SELECT 1; SELECT 2"), "SQL_MANY_STATEMENTS", /more than one statement/);
  await fails(client.execute("ATTACH 'other.db' AS other"), "SQLITE_AUTH", /not authorized/);
  const stranger = createClient({ url, authToken: "wrong" });
  await fails(stranger.execute("SELECT 1"), "UNAUTHORIZED", /bearer token/);
  const unslashed = createClient({ url: url.replace(/\/$/, ""), authToken });
  await fails(unslashed.execute("SELECT 1"), "NOT_FOUND", /ends with a slash/);
  await client.execute("PRAGMA busy_timeout = 5000");
}

async function concurrency() {
  await client.execute("CREATE TABLE concurrent (n INTEGER PRIMARY KEY, v TEXT)");
  const n = Number(concurrent);
  await Promise.all(
    Array.from({ length: n }, (_, i) =>
      i % 2 === 0
        ? client.execute({ sql: "INSERT INTO concurrent VALUES (?, ?)", args: [i, `value ${i}`] })
        : client.execute({ sql: "SELECT count(*) FROM concurrent WHERE n = ?", args: [i] }),
    ),
  );
  const count = await client.execute("SELECT count(*) AS n, sum(n) AS sum FROM concurrent");
  const written = Math.ceil(n / 2);
  assert.deepEqual({ ...count.rows[0] }, { n: BigInt(written), sum: BigInt(written * (written - 1)) });
}

for (const part of [typedArguments, batches, transactions, errors, concurrency]) {
  await part();
  console.log(`${part.name}: ok`);
}
client.close();
