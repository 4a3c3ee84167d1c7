"use strict";
const { assert, feature, go, product, rejected } = require(process.env.NODE_LIBRARY + "/conformance.js");
const { Kysely, PostgresDialect, sql } = require("kysely");
const { Pool } = require("pg");

const db = new Kysely({ dialect: new PostgresDialect({ pool: new Pool({ max: 2 }), cursor: require("pg-cursor") }) });

feature("connect", async () => assert.deepEqual((await sql`SELECT 1::int AS one`.execute(db)).rows, [{ one: 1 }]));
feature("schema", async () => {
  await db.schema.createTable("item").addColumn("id", "bigint", (c) => c.notNull()).addColumn("name", "text").execute();
  await db.schema.alterTable("item").addColumn("extra", "integer").execute();
  await db.schema.alterTable("item").renameColumn("extra", "more").execute();
  await db.schema.alterTable("item").dropColumn("more").execute();
});
feature("introspect", async () => {
  const tables = await db.introspection.getTables();
  const item = tables.find((table) => table.name === "item");
  assert.deepEqual(item.columns.map((column) => [column.name, column.dataType, column.isNullable]),
    [["id", "int8", false], ["name", "text", true]]);
  assert.ok((await db.introspection.getSchemas()).some((schema) => schema.name === "public"));
});
feature("queries", async () => {
  await db.insertInto("item").values([{ id: 1, name: "a" }, { id: 2, name: "b" }]).execute();
  assert.deepEqual(await db.updateTable("item").set({ name: "c" }).where("id", "=", 1).returning("name").execute(), [{ name: "c" }]);
  assert.deepEqual(await db.selectFrom("item").select("name").where("id", "in", [1, 2]).orderBy("id").execute(), [{ name: "c" }, { name: "b" }]);
  assert.equal((await db.deleteFrom("item").where("id", "=", 2).executeTakeFirst()).numDeletedRows, 1n);
});
feature("transaction", async () => {
  const found = await db.transaction().setIsolationLevel("serializable").execute((tx) => sql`SELECT 1::int AS a`.execute(tx));
  assert.deepEqual(found.rows, [{ a: 1 }]);
});
feature("error", async () => assert.equal((await rejected(db.selectFrom("item").select("nothing").execute())).code, "42703"));
feature("stream", async () => {
  let total = 0;
  const query = db.selectFrom(sql`(SELECT generate_series AS g FROM generate_series(1, 100000))`.as("s")).select("g");
  for await (const row of query.stream(1000)) total += Number(row.g);
  assert.equal(total, 5000050000);
});
feature("computed", async () => {
  product();
  await sql`ALTER TABLE item ADD COLUMN n AS length(name)`.execute(db);
  assert.equal((await sql`REFRESH COLUMN n ON item WAIT`.execute(db)).rows[0].status, "succeeded");
  assert.equal(Number((await db.selectFrom("item").select("n").executeTakeFirst()).n), 1);
});
feature("jobs", async () => {
  product();
  assert.equal((await sql`SHOW JOBS`.execute(db)).rows[0].state, "succeeded");
});
go("kysely", () => db.destroy());
