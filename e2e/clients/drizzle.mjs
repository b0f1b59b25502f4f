// Uses a database with drizzle-orm on @libsql/client: inserts, relational queries, transactions with
// rollback, batches, prepared statements.
//
//   node drizzle.mjs <DATABASE_URL> <DATABASE_AUTH_TOKEN>

import assert from "node:assert/strict";
import { asc, eq, relations, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/libsql";
import { blob, integer, real, sqliteTable, text } from "drizzle-orm/sqlite-core";

const [url, authToken] = process.argv.slice(2);

const customers = sqliteTable("customers", {
  id: integer().primaryKey({ autoIncrement: true }),
  name: text().notNull().unique(),
  active: integer({ mode: "boolean" }).notNull().default(true),
  createdAt: integer({ mode: "timestamp_ms" }).notNull(),
  settings: text({ mode: "json" }),
});
const invoices = sqliteTable("invoices", {
  id: integer().primaryKey(),
  customerId: integer().notNull().references(() => customers.id, { onDelete: "cascade" }),
  total: real().notNull(),
  number: blob({ mode: "bigint" }),
  scan: blob({ mode: "buffer" }),
});
const customersRelations = relations(customers, ({ many }) => ({ invoices: many(invoices) }));
const invoicesRelations = relations(invoices, ({ one }) => ({
  customer: one(customers, { fields: [invoices.customerId], references: [customers.id] }),
}));

const db = drizzle({
  connection: { url, authToken },
  schema: { customers, invoices, customersRelations, invoicesRelations },
});

await db.batch([
  db.run(sql`CREATE TABLE customers (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
    active INTEGER NOT NULL DEFAULT 1, createdAt INTEGER NOT NULL, settings TEXT)`),
  db.run(sql`CREATE TABLE invoices (id INTEGER PRIMARY KEY, customerId INTEGER NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
    total REAL NOT NULL, number BLOB, scan BLOB)`),
]);

const createdAt = new Date("2026-11-15T08:30:00.123Z");
const [ada] = await db.insert(customers).values({ name: "Ada", createdAt, settings: { theme: "dark", tags: ["ä"] } }).returning();
assert.equal(ada.active, true);
assert.deepEqual(ada.createdAt, createdAt);
assert.deepEqual(ada.settings, { theme: "dark", tags: ["ä"] });
await db.insert(customers).values([{ name: "Bob", createdAt, active: false }, { name: "Eve", createdAt }]);
await db.insert(invoices).values([
  { customerId: ada.id, total: 12.5, number: 12345678901234567890n, scan: Buffer.from([0, 255]) },
  { customerId: ada.id, total: 7 },
]);

const nested = await db.query.customers.findMany({
  with: { invoices: { orderBy: asc(invoices.total), columns: { total: true } } },
  orderBy: asc(customers.name),
});
assert.deepEqual(nested.map((c) => [c.name, c.invoices.map((i) => i.total)]), [["Ada", [7, 12.5]], ["Bob", []], ["Eve", []]]);

const joined = await db.select().from(customers).innerJoin(invoices, eq(invoices.customerId, customers.id)).orderBy(invoices.id);
assert.equal(joined[0].customers.id, ada.id);
assert.equal(joined[0].invoices.number, 12345678901234567890n);
assert.deepEqual([...joined[0].invoices.scan], [0, 255]);

await assert.rejects(db.insert(customers).values({ name: "Ada", createdAt }), (error) => {
  const cause = error.cause ?? error;
  assert.equal(cause.code, "SQLITE_CONSTRAINT");
  return true;
});

await assert.rejects(
  db.transaction(async (tx) => {
    await tx.delete(customers).where(eq(customers.id, ada.id));
    assert.equal(await tx.$count(invoices), 0);
    tx.rollback();
  }),
  /[Rr]ollback/,
);
assert.equal(await db.$count(invoices), 2);

await db.transaction(async (tx) => {
  await tx.update(customers).set({ active: false }).where(eq(customers.id, ada.id));
  await tx.transaction(async (nestedTx) => {
    await nestedTx.insert(customers).values({ name: "Nested", createdAt });
  });
});
assert.equal(await db.$count(customers, eq(customers.active, false)), 2);

const byName = db.select({ id: customers.id }).from(customers).where(eq(customers.name, sql.placeholder("name"))).prepare();
assert.deepEqual(await byName.execute({ name: "Ada" }), [{ id: ada.id }]);
const [, deleted] = await db.batch([
  db.update(invoices).set({ total: sql`${invoices.total} * 2` }),
  db.delete(customers).where(eq(customers.id, ada.id)).returning({ id: customers.id }),
]);
assert.deepEqual(deleted, [{ id: ada.id }]);
assert.equal(await db.$count(invoices), 0);
console.log("drizzle: ok");
db.$client.close();
