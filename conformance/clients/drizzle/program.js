"use strict";
const { assert, feature, go, product, rejected } = require(process.env.NODE_LIBRARY + "/conformance.js");
const { drizzle } = require("drizzle-orm/node-postgres");
const { migrate } = require("drizzle-orm/node-postgres/migrator");
const { bigint, pgTable, text, doublePrecision } = require("drizzle-orm/pg-core");
const { asc, count, eq, inArray, sql } = require("drizzle-orm");
const { Pool } = require("pg");
const fs = require("node:fs");
const path = require("node:path");

const pool = new Pool({ max: 2 });
const db = drizzle(pool);
const item = pgTable("item", { key: bigint({ mode: "number" }).notNull(), name: text(), x: doublePrecision() });

feature("connect", async () => assert.deepEqual((await db.execute(sql`SELECT 1::int AS one`)).rows, [{ one: 1 }]));
feature("queries", async () => {
  await db.execute(sql`CREATE TABLE item (key bigint NOT NULL, name text, x double precision)`);
  await db.insert(item).values([{ key: 1, name: "a" }, { key: 2, name: "b", x: 0.5 }]);
  assert.deepEqual(await db.update(item).set({ name: "c" }).where(eq(item.key, 1)).returning(), [{ key: 1, name: "c", x: null }]);
  assert.deepEqual(await db.select({ name: item.name }).from(item).where(inArray(item.key, [1, 2])).orderBy(asc(item.key)), [{ name: "c" }, { name: "b" }]);
  assert.deepEqual(await db.select({ n: count() }).from(item), [{ n: 2 }]);
  await db.delete(item).where(eq(item.key, 2));
});
feature("prepare", async () => {
  const found = db.select().from(item).where(eq(item.key, sql.placeholder("key"))).prepare("by_key");
  for (let n = 0; n < 3; n++) assert.equal((await found.execute({ key: 1 })).length, 1);
});
feature("transaction", async () => assert.deepEqual((await db.transaction((tx) => tx.execute(sql`SELECT 1::int AS a`))).rows, [{ a: 1 }]));
feature("savepoint", async () => {
  await db.transaction(async (tx) => {
    await rejected(tx.transaction((inner) => inner.execute(sql`SELECT 1/0`)));
    assert.equal((await tx.select().from(item)).length, 1);
  });
});
feature("error", async () => {
  const error = await rejected(db.execute(sql`SELECT nothing FROM item`));
  assert.equal((error.cause || error).code, "42703");
});
feature("migrations", async () => {
  const folder = path.join(process.env.WORK, "migrations");
  fs.mkdirSync(path.join(folder, "meta"), { recursive: true });
  fs.writeFileSync(path.join(folder, "0000_one.sql"), "CREATE TABLE moved (id bigint);\n--> statement-breakpoint\nALTER TABLE moved ADD COLUMN name text;");
  const entries = [{ idx: 0, version: "7", when: 1700000000000, tag: "0000_one", breakpoints: true }];
  fs.writeFileSync(path.join(folder, "meta/_journal.json"), JSON.stringify({ version: "7", dialect: "postgresql", entries }));
  await migrate(db, { migrationsFolder: folder });
  await migrate(db, { migrationsFolder: folder });
});
feature("computed", async () => {
  product();
  await db.execute(sql`ALTER TABLE item ADD COLUMN n AS length(name)`);
  assert.equal((await db.execute(sql`REFRESH COLUMN n ON item WAIT`)).rows[0].status, "succeeded");
  assert.equal(Number((await db.execute(sql`SELECT n FROM item`)).rows[0].n), 1);
});
feature("jobs", async () => {
  product();
  assert.equal((await db.execute(sql`SHOW JOBS`)).rows[0].state, "succeeded");
});
go("drizzle-orm", () => pool.end());
