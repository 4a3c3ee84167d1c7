"use strict";
const { assert, feature, go, product, rejected } = require(process.env.NODE_LIBRARY + "/conformance.js");
const { Sequelize, DataTypes } = require("sequelize");

const { PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE } = process.env;
const db = new Sequelize(PGDATABASE, PGUSER, PGPASSWORD, { host: PGHOST, port: Number(PGPORT), dialect: "postgres", logging: false });
const Item = db.define("item", { name: DataTypes.TEXT, key: DataTypes.BIGINT, x: DataTypes.DOUBLE }, { timestamps: false, freezeTableName: true });
Item.removeAttribute("id");

feature("connect", async () => {
  await db.authenticate();
  assert.match(await db.databaseVersion(), /^1[5-9]/);
});
feature("sync", async () => Item.sync());
feature("introspect", async () => {
  const found = db.getQueryInterface();
  assert.ok((await found.showAllTables()).some((table) => (table.tableName || table) === "item"));
  assert.deepEqual(Object.keys(await found.describeTable("item")).sort(), ["key", "name", "x"]);
  await found.showIndex("item");
});
feature("queries", async () => {
  await Item.bulkCreate([{ name: "a", key: 1 }, { name: "b", key: 2, x: 0.5 }]);
  assert.equal(await Item.count(), 2);
  await Item.update({ name: "c" }, { where: { key: 1 } });
  assert.deepEqual((await Item.findAll({ order: [["key", "ASC"]], raw: true })).map((row) => row.name), ["c", "b"]);
  assert.equal(await Item.destroy({ where: { key: 2 } }), 1);
});
feature("transaction", async () => {
  const found = await db.transaction((transaction) => Item.findOne({ where: { key: 1 }, transaction, raw: true }));
  assert.equal(found.name, "c");
});
feature("error", async () => assert.equal((await rejected(db.query("SELECT nothing FROM item"))).parent.code, "42703"));
feature("computed", async () => {
  product();
  await db.query("ALTER TABLE item ADD COLUMN n AS length(name)");
  assert.equal((await db.query("REFRESH COLUMN n ON item WAIT"))[0][0].status, "succeeded");
  assert.equal(Number((await db.query("SELECT n FROM item"))[0][0].n), 1);
});
feature("jobs", async () => {
  product();
  assert.equal((await db.query("SHOW JOBS", { type: "SELECT" }))[0].state, "succeeded");
});
go("sequelize", () => db.close());
