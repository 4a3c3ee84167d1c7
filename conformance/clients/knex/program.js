"use strict";
const { assert, feature, go, product, rejected } = require(process.env.NODE_LIBRARY + "/conformance.js");
const knex = require("knex")({ client: "pg", connection: {}, pool: { min: 0, max: 3 } });

feature("connect", async () => assert.deepEqual((await knex.raw("SELECT 1::int AS one")).rows, [{ one: 1 }]));
feature("schema", async () => {
  await knex.schema.createTable("item", (table) => {
    table.bigInteger("id").notNullable();
    table.text("name");
    table.timestamp("at");
    table.double("x");
  });
  await knex.schema.alterTable("item", (table) => { table.integer("extra"); });
  await knex.schema.alterTable("item", (table) => { table.renameColumn("extra", "more"); });
  await knex.schema.alterTable("item", (table) => { table.dropColumn("more"); });
});
feature("introspect", async () => {
  assert.equal(await knex.schema.hasTable("item"), true);
  assert.equal(await knex.schema.hasTable("nothing"), false);
  assert.equal(await knex.schema.hasColumn("item", "name"), true);
  assert.deepEqual(Object.keys(await knex("item").columnInfo()).sort(), ["at", "id", "name", "x"]);
});
feature("queries", async () => {
  await knex("item").insert([{ id: 1, name: "a", at: new Date(0) }, { id: 2, name: "b" }]);
  assert.deepEqual(await knex("item").where({ id: 1 }).update({ name: "c" }, ["id", "name"]), [{ id: "1", name: "c" }]);
  assert.deepEqual(await knex("item").whereIn("id", [1, 2]).orderBy("id", "desc").limit(1).pluck("name"), ["b"]);
  assert.equal(Number((await knex("item").count("* as n").first()).n), 2);
  assert.equal(await knex("item").where("id", 2).del(), 1);
});
feature("transaction", async () => {
  assert.deepEqual((await knex.transaction((tx) => tx.raw("SELECT 1::int AS a"))).rows, [{ a: 1 }]);
});
feature("savepoint", async () => {
  await knex.transaction(async (tx) => {
    await rejected(tx.transaction((inner) => inner.raw("SELECT 1/0")));
    assert.deepEqual((await tx.raw("SELECT 1::int AS a")).rows, [{ a: 1 }]);
  });
});
feature("error", async () => assert.equal((await rejected(knex("item").select("nothing"))).code, "42703"));
feature("stream", async () => {
  let total = 0;
  const query = knex.select("g").from(knex.raw("(SELECT generate_series AS g FROM generate_series(1, 100000)) s"));
  for await (const row of await query) total += Number(row.g);
  assert.equal(total, 5000050000);
});
feature("migrations", async () => {
  const source = {
    getMigrations: async () => ["one"],
    getMigrationName: (name) => name,
    getMigration: async () => ({
      up: (k) => k.schema.createTable("moved", (table) => { table.bigInteger("id"); }),
      down: (k) => k.schema.dropTable("moved"),
    }),
  };
  await knex.migrate.latest({ migrationSource: source });
  assert.equal(await knex.schema.hasTable("moved"), true);
  await knex.migrate.rollback({ migrationSource: source });
  assert.equal(await knex.schema.hasTable("moved"), false);
});
feature("computed", async () => {
  product();
  await knex.raw("ALTER TABLE item ADD COLUMN n AS length(name)");
  assert.equal((await knex.raw("REFRESH COLUMN n ON item WAIT")).rows[0].status, "succeeded");
  assert.deepEqual((await knex("item").select("n")).map((row) => Number(row.n)), [1]);
});
feature("jobs", async () => {
  product();
  assert.equal((await knex.raw("SHOW JOBS")).rows[0].state, "succeeded");
});
go("knex", () => knex.destroy());
