"use strict";
// node-postgres: simple protocol without parameters, extended with them, text both ways.
const { assert, feature, go, product, rejected } = require(process.env.NODE_LIBRARY + "/conformance.js");
const { Client, Pool } = require("pg");
const Cursor = require("pg-cursor");
const QueryStream = require("pg-query-stream");
const copy = require("pg-copy-streams");
const { pipeline } = require("node:stream/promises");
const { Readable } = require("node:stream");

const c = new Client();
// Ends a block that a failed feature has left open.
const own = (name, body) => feature(name, () => body().finally(() => c.query("ROLLBACK").catch(() => {})));
c.on("error", (error) => console.error("connection", error));
const rows = async (sql, values) => (await c.query(sql, values)).rows;

feature("connect", async () => {
  await c.connect();
  assert.deepEqual(await rows("SELECT 1::int AS one"), [{ one: 1 }]);
});
feature("session", async () => {
  await c.query("SET application_name = 'conformance'");
  assert.deepEqual(await rows("SHOW application_name"), [{ application_name: "conformance" }]);
});
feature("types_out", async () => {
  const [row] = await rows(
    "SELECT 1::int2 AS a, 2::int8 AS b, 1.5::float8 AS c, 1.50::numeric(10,2) AS d, 'x'::text AS e, true AS f," +
      " ARRAY[1,2]::int4[] AS g, NULL AS h, '\\x00ff'::bytea AS i, timestamptz '2024-01-02 03:04:05+00' AS j, '{\"a\":1}'::json AS k");
  assert.deepEqual(row, {
    a: 1, b: "2", c: 1.5, d: "1.50", e: "x", f: true, g: [1, 2], h: null, i: Buffer.from([0, 255]),
    j: new Date("2024-01-02T03:04:05Z"), k: { a: 1 },
  });
});
feature("types_in", async () => {
  const cases = [
    ["int4", 7, 7], ["int8", "9007199254740993", "9007199254740993"], ["text", "a'b", "a'b"], ["bool", true, true],
    ["float8", 1.5, 1.5], ["numeric", "1.25", "1.25"], ["bytea", Buffer.from([1, 0]), Buffer.from([1, 0])],
    ["int4[]", [1, null], [1, null]], ["text[]", ["a", 'b"c'], ["a", 'b"c']], ["json", { a: [1] }, { a: [1] }],
    ["timestamptz", new Date(0), new Date(0)], ["uuid", "00000000-0000-0000-0000-000000000007", "00000000-0000-0000-0000-000000000007"],
    ["text", null, null],
  ];
  const wrong = [];
  for (const [kind, sent, expected] of cases) {
    try {
      assert.deepEqual((await rows(`SELECT $1::${kind} AS v`, [sent]))[0].v, expected);
    } catch (error) {
      wrong.push(`${kind}: ${error.code === "ERR_ASSERTION" ? error.actual : error.message}`);
    }
  }
  assert.deepEqual(wrong, []);
});
feature("prepare", async () => {
  for (let n = 0; n < 3; n++) {
    const found = await c.query({ name: "plus", text: "SELECT $1::int + 1::int AS n", values: [n] });
    assert.equal(found.rows[0].n, n + 1);
  }
});
own("transaction", async () => {
  await c.query("BEGIN");
  assert.equal((await rejected(c.query("SELECT nothing"))).code, "42703");
  assert.equal((await rejected(c.query("SELECT 1"))).code, "25P02");
  assert.equal((await c.query("COMMIT")).command, "ROLLBACK");
});
feature("literals", async () => {
  // A whole number without a type is an integer, which this client makes a number of.
  assert.deepEqual(await rows("SELECT 1 AS one, $1::int + 1 AS two", [1]), [{ one: 1, two: 2 }]);
});
own("savepoint", async () => {
  await c.query("BEGIN");
  await c.query("SAVEPOINT a");
  await rejected(c.query("SELECT 1/0"));
  await c.query("ROLLBACK TO a");
  assert.deepEqual(await rows("SELECT 1::int AS a"), [{ a: 1 }]);
  await c.query("COMMIT");
});
feature("error", async () => {
  const error = await rejected(c.query("SELECT nothing FROM pg_class WHERE relname = $1", ["x"]));
  assert.deepEqual([error.code, error.position, error.severity], ["42703", "8", "ERROR"]);
  assert.deepEqual(await rows("SELECT 1::int AS a"), [{ a: 1 }]);
});
feature("cursor", async () => {
  const cursor = c.query(new Cursor("SELECT generate_series AS g FROM generate_series(1, 10) WHERE 1 = $1::int", [1]));
  assert.deepEqual((await cursor.read(2)).map((row) => Number(row.g)), [1, 2]);
  assert.equal((await cursor.read(100)).length, 8);
  await cursor.close();
  assert.deepEqual(await rows("SELECT 1::int AS a"), [{ a: 1 }]);
});
feature("stream", async () => {
  let total = 0;
  for await (const row of c.query(new QueryStream("SELECT generate_series AS g FROM generate_series(1, 100000)"))) total += Number(row.g);
  assert.equal(total, 5000050000);
});
feature("copy_in", async () => {
  await c.query("CREATE TABLE copied (id bigint, body text)");
  await pipeline(Readable.from(["1\ta\n", "2\t\\N\n"]), c.query(copy.from("COPY copied FROM STDIN")));
  assert.deepEqual(await rows("SELECT * FROM copied ORDER BY id"), [{ id: "1", body: "a" }, { id: "2", body: null }]);
  const bad = await rejected(pipeline(Readable.from(["x\ty\tz\n"]), c.query(copy.from("COPY copied FROM STDIN"))));
  assert.ok(["22P02", "22P04"].includes(bad.code), bad.code);
  assert.deepEqual(await rows("SELECT 1::int AS a"), [{ a: 1 }]);
});
feature("copy_out", async () => {
  let text = "";
  for await (const piece of c.query(copy.to("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT WITH (FORMAT csv)"))) text += piece;
  assert.equal(text, "1,a\n2,\n");
});
feature("cancel", async () => {
  // The client has no cancel of its own; what it sends would be these sixteen bytes.
  const slept = rejected(c.query("SELECT pg_sleep(15)"));
  await new Promise((end) => setTimeout(end, 300));
  const socket = require("node:net").connect(Number(process.env.PGPORT), process.env.PGHOST);
  const request = Buffer.alloc(16);
  [16, 80877102, c.processID, c.secretKey].forEach((value, index) => request.writeInt32BE(value, index * 4));
  socket.end(request);
  assert.equal((await slept).code, "57014");
});
feature("cancel_backend", async () => {
  const other = new Client();
  await other.connect();
  const slept = rejected(c.query("SELECT pg_sleep(5)"));
  slept.catch(() => {});
  await new Promise((end) => setTimeout(end, 300));
  await other.query("SELECT pg_cancel_backend($1)", [c.processID]).finally(() => other.end());
  assert.equal((await slept).code, "57014");
});
feature("computed", async () => {
  product();
  await c.query("CREATE TABLE docs (id bigint, body text)");
  await c.query("INSERT INTO docs VALUES ($1, $2), ($3, $4)", [1, "lance", 2, "gate"]);
  await c.query("ALTER TABLE docs ADD COLUMN n AS length(body)");
  assert.equal((await rows("REFRESH COLUMN n ON docs WAIT"))[0].status, "succeeded");
  assert.deepEqual(await rows("SELECT sum(n)::int AS n FROM docs"), [{ n: 9 }]);
});
feature("jobs", async () => {
  product();
  const [job] = await rows("SHOW JOBS LIMIT 5");
  assert.equal(job.state, "succeeded");
  assert.deepEqual(await rows("SELECT state FROM system.public.jobs WHERE job_id = $1", [job.job_id]), [{ state: "succeeded" }]);
});
feature("multi", async () => {
  const found = await c.query("SELECT 1::int AS a; SELECT 2 AS b; SET application_name = 'x'");
  assert.deepEqual(found.map((one) => one.command), ["SELECT", "SELECT", "SET"]);
});
feature("notices", async () => {
  const seen = [];
  c.on("notice", (notice) => seen.push(notice.code));
  await c.query("DROP TABLE IF EXISTS nowhere");
  await c.query("ROLLBACK");
  assert.deepEqual(seen, ["00000", "25P01"]);
});
feature("pool", async () => {
  const pool = new Pool({ max: 4 });
  const found = await Promise.all([...Array(20).keys()].map((n) => pool.query("SELECT $1::int AS n", [n])));
  assert.deepEqual(found.map((one) => one.rows[0].n), [...Array(20).keys()]);
  await pool.end();
});
go("pg", () => c.end());
