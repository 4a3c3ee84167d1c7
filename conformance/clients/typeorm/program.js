"use strict";
const { assert, feature, go, product, rejected } = require(process.env.NODE_LIBRARY + "/conformance.js");
require("reflect-metadata");
const { DataSource, EntitySchema } = require("typeorm");

const Item = new EntitySchema({
  name: "item",
  columns: { key: { type: "bigint", primary: true }, name: { type: "text", nullable: true }, x: { type: "double precision", nullable: true } },
});
const { PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE } = process.env;
const db = new DataSource({
  type: "postgres", host: PGHOST, port: Number(PGPORT), username: PGUSER, password: PGPASSWORD, database: PGDATABASE,
  entities: [Item], installExtensions: false,
});

feature("connect", async () => {
  await db.initialize();
  assert.deepEqual(await db.query("SELECT 1::int AS one"), [{ one: 1 }]);
});
feature("synchronize", async () => {
  await db.synchronize();
  await db.synchronize();
});
feature("introspect", async () => {
  const runner = db.createQueryRunner();
  const table = await runner.getTable("item");
  assert.deepEqual(table.columns.map((column) => column.name), ["key", "name", "x"]);
  assert.equal(await runner.hasTable("item"), true);
  await runner.release();
});
feature("queries", async () => {
  await db.query('CREATE TABLE IF NOT EXISTS "item" ("key" bigint NOT NULL, "name" text, "x" double precision)');
  const items = db.getRepository("item");
  await items.insert([{ key: 1, name: "a" }, { key: 2, name: "b", x: 0.5 }]);
  assert.equal(await items.count(), 2);
  await items.update({ key: 1 }, { name: "c" });
  assert.deepEqual((await items.find({ order: { key: "ASC" } })).map((row) => row.name), ["c", "b"]);
  assert.equal(await items.exists({ where: { key: 2 } }), true);
  await items.delete({ key: 2 });
  assert.equal((await items.save({ key: "1", name: "d" })).name, "d");
});
feature("transaction", async () => {
  assert.deepEqual(await db.transaction((m) => m.query("SELECT 1::int AS a")), [{ a: 1 }]);
});
feature("error", async () => assert.equal((await rejected(db.query("SELECT nothing FROM item"))).code, "42703"));
feature("computed", async () => {
  product();
  await db.query("ALTER TABLE item ADD COLUMN n AS length(name)");
  assert.equal((await db.query("REFRESH COLUMN n ON item WAIT"))[0].status, "succeeded");
  assert.equal(Number((await db.query("SELECT n FROM item"))[0].n), 1);
});
feature("jobs", async () => {
  product();
  assert.equal((await db.query("SHOW JOBS"))[0].state, "succeeded");
});
go("typeorm", () => db.destroy());
