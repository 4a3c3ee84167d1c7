"use strict";
// postgres.js: reads the array types first, then prepares every statement by name.
const { assert, feature, go, product, rejected } = require(process.env.NODE_LIBRARY + "/conformance.js");
const postgres = require("postgres");
const { pipeline } = require("node:stream/promises");
const { Readable } = require("node:stream");

const sql = postgres({ max: 1, onnotice: () => {}, idle_timeout: 1 });
const plain = (found) => found.map((row) => ({ ...row }));

feature("connect", async () => assert.deepEqual(plain(await sql`SELECT 1::int AS one`), [{ one: 1 }]));
feature("introspect", async () => {
  // The array types that it has read decide what a list becomes.
  const [row] = await sql`SELECT ${sql.array([1, 2])}::int4[] AS a, ARRAY['x', 'y,z'] AS b`;
  assert.deepEqual({ ...row }, { a: [1, 2], b: ["x", "y,z"] });
});
feature("types_out", async () => {
  const [row] = await sql`SELECT 1::int2 AS a, 2::int8 AS b, 1.5::float8 AS c, 'x'::text AS d, true AS e, NULL AS f,
    '\\x00ff'::bytea AS g, timestamptz '2024-01-02 03:04:05+00' AS h, '{"a":1}'::json AS i, DATE '2024-01-02' AS j`;
  assert.deepEqual({ ...row }, {
    a: 1, b: "2", c: 1.5, d: "x", e: true, f: null, g: Buffer.from([0, 255]), h: new Date("2024-01-02T03:04:05Z"),
    i: { a: 1 }, j: new Date("2024-01-02T00:00:00Z"),
  });
});
feature("types_in", async () => {
  const at = new Date("2024-01-02T03:04:05Z");
  const [row] = await sql`SELECT ${7}::int4 AS a, ${"a'b"}::text AS b, ${true}::bool AS c, ${at}::timestamptz AS d,
    ${sql.json({ a: 1 })}::json AS e, ${null}::text AS f, ${Buffer.from([1, 0])}::bytea AS g`;
  assert.deepEqual({ ...row }, { a: 7, b: "a'b", c: true, d: at, e: { a: 1 }, f: null, g: Buffer.from([1, 0]) });
});
feature("prepare", async () => {
  for (let n = 0; n < 3; n++) assert.deepEqual(plain(await sql`SELECT ${n}::int + 1::int AS n`), [{ n: n + 1 }]);
  const described = await sql`SELECT 1::int8 AS a WHERE 1 = ${1}`.describe();
  assert.deepEqual([described.types, described.columns.map((c) => c.name)], [[23], ["a"]]);
});
feature("transaction", async () => {
  const found = await sql.begin((tx) => tx`SELECT 1::int AS a`);
  assert.deepEqual(plain(found), [{ a: 1 }]);
  assert.equal((await rejected(sql.begin((tx) => tx`SELECT nothing`))).code, "42703");
});
feature("savepoint", async () => {
  const found = await sql.begin(async (tx) => {
    await tx.savepoint((inner) => inner`SELECT 1/0`).catch(() => {});
    return tx`SELECT 2::int AS a`;
  });
  assert.deepEqual(plain(found), [{ a: 2 }]);
});
feature("error", async () => {
  const error = await rejected(sql`SELECT nothing FROM pg_class`);
  assert.deepEqual([error.code, error.position], ["42703", "8"]);
});
feature("cursor", async () => {
  const seen = [];
  for await (const rows of sql`SELECT generate_series AS g FROM generate_series(1, 10)`.cursor(4)) seen.push(rows.length);
  assert.deepEqual(seen, [4, 4, 2]);
});
feature("stream", async () => {
  let total = 0;
  await sql`SELECT generate_series AS g FROM generate_series(1, 100000)`.forEach((row) => { total += Number(row.g); });
  assert.equal(total, 5000050000);
});
feature("copy_in", async () => {
  await sql`CREATE TABLE copied (id bigint, body text)`;
  await pipeline(Readable.from(["1,a\n", "2,\n"]), await sql`COPY copied FROM STDIN WITH (FORMAT csv)`.writable());
  assert.deepEqual(plain(await sql`SELECT * FROM copied ORDER BY id`), [{ id: "1", body: "a" }, { id: "2", body: null }]);
});
feature("copy_out", async () => {
  let text = "";
  for await (const piece of await sql`COPY (SELECT * FROM copied ORDER BY id) TO STDOUT`.readable()) text += piece;
  assert.equal(text, "1\ta\n2\t\\N\n");
});
feature("cancel", async () => {
  const slept = sql`SELECT pg_sleep(15)`.execute();
  setTimeout(() => slept.cancel(), 300);
  assert.equal((await rejected(slept)).code, "57014");
});
feature("inserts", async () => {
  await sql`INSERT INTO copied ${sql([{ id: 3, body: "x" }, { id: 4, body: "y" }], "id", "body")}`;
  assert.equal((await sql`UPDATE copied SET ${sql({ body: "z" })} WHERE id IN ${sql([3, 4])}`).count, 2);
});
feature("computed", async () => {
  product();
  await sql`ALTER TABLE copied ADD COLUMN n AS length(body)`;
  assert.equal((await sql`REFRESH COLUMN n ON copied WAIT`)[0].status, "succeeded");
  assert.deepEqual(plain(await sql`SELECT n::int AS n FROM copied WHERE id = 1`), [{ n: 1 }]);
});
feature("jobs", async () => {
  product();
  assert.equal((await sql`SHOW JOBS LIMIT 5`)[0].state, "succeeded");
});
go("postgres", () => sql.end({ timeout: 1 }));
