"""asyncpg: every statement prepared by name, binary both ways, types looked up in the catalog."""

import asyncio
import datetime as dt
import decimal
import io
import uuid

import asyncpg

from conformance import feature, product, version, want

version(asyncpg.__version__)
loop = asyncio.new_event_loop()
c = loop.run_until_complete(asyncpg.connect())


def asynchronous(name):
    def run(body):
        feature(name)(lambda: loop.run_until_complete(asyncio.wait_for(body(), 30)))
        return body

    return run


@asynchronous("connect")
async def _():
    want(await c.fetchval("SELECT 1"), 1)
    assert c.get_server_version().major >= 15
    want(c.get_settings().server_encoding, "UTF8")


@asynchronous("session")
async def _():
    await c.execute("SET application_name = 'conformance'; SET search_path = public")
    want(await c.fetchval("SHOW application_name"), "conformance")
    want(await c.fetchval("SELECT current_setting('application_name')"), "conformance")
    await c.reset()
    want(await c.fetchval("SHOW application_name"), "")


VALUES = [
    ("bool", True), ("int2", -3), ("int4", 70000), ("int8", 2**40), ("float4", 1.5), ("float8", -2.25),
    ("numeric", decimal.Decimal("-123456.789")), ("text", "a'b\"ü\n"), ("varchar", "v"), ("bytea", b"\x00\xff"),
    ("date", dt.date(1969, 7, 20)), ("time", dt.time(1, 2, 3, 4)), ("timestamp", dt.datetime(1901, 2, 3, 4, 5, 6, 7)),
    ("timestamptz", dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone.utc)), ("uuid", uuid.UUID(int=5)),
    ("interval", dt.timedelta(days=3, hours=4)), ("json", '{"a": 1}'),
]


async def wrong(values):
    found = []
    for name, value in values:
        try:
            got = await c.fetchrow(f"SELECT $1::{name} AS v, NULL::{name} AS n", value)
            if tuple(got) != (value, None):
                found.append(f"{name}: {got['v']!r}")
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            found.append(f"{name}: {error}")
    return found


@asynchronous("types_out")
async def _():
    await c.execute(
        "CREATE TABLE kinds (a boolean, b smallint, c integer, d bigint, e real, f double precision, g numeric(12,3),"
        " h text, i bytea, j date, k time, l timestamp, m timestamptz, n uuid, o real[], p text[], q json)"
    )
    sent = [
        True, 1, 2, 3, 1.5, 2.5, decimal.Decimal("1.250"), "x", b"\x00", dt.date(2024, 1, 2), dt.time(1), dt.datetime(2024, 1, 1),
        dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc), uuid.UUID(int=9), [0.5, None], ["a", ""], "{}",
    ]
    places = ", ".join(f"${n}" for n in range(1, len(sent) + 1))
    await c.execute(f"INSERT INTO kinds VALUES ({places})", *sent)
    want(list(await c.fetchrow("SELECT * FROM kinds")), sent)


@asynchronous("types_in")
async def _():
    want(await wrong(VALUES), [])


@asynchronous("arrays")
async def _():
    arrays = [
        ("int4[]", [1, None, 3]), ("int8[]", []), ("text[]", ["a", "b,c", ""]), ("float4[]", [0.5, 1.0]),
        ("float8[]", [0.5]), ("bool[]", [True, False]), ("date[]", [dt.date(2024, 1, 1)]),
        ("timestamptz[]", [dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone.utc)]), ("numeric[]", [decimal.Decimal("1.5")]),
    ]
    want(await wrong(arrays), [])
    want(await c.fetchval("SELECT count(*) FROM pg_class WHERE relkind::text = ANY($1::text[])", ["nothing"]), 0)


@asynchronous("prepare")
async def _():
    await c.execute("CREATE TABLE prep (id bigint, name text)")
    statement = await c.prepare("SELECT name FROM prep WHERE id = $1 OR name = $2")
    want([p.name for p in statement.get_parameters()], ["int8", "text"])
    want([(a.name, a.type.name) for a in statement.get_attributes()], [("name", "text")])
    await c.execute("INSERT INTO prep VALUES ($1, $2)", 1, "one")
    want(await statement.fetchval(1, ""), "one")
    want(await c.fetchval("SELECT id FROM prep LIMIT $1", 1), 1)
    want(await c.fetchval("SELECT id + $1 FROM prep", 5), 6)


@asynchronous("transaction")
async def _():
    try:
        async with c.transaction(isolation="serializable", readonly=True):
            want(await c.fetchval("SHOW transaction_isolation"), "serializable")
            raise ValueError
    except ValueError:
        pass
    want(c.is_in_transaction(), False)


@asynchronous("savepoint")
async def _():
    async with c.transaction():
        try:
            async with c.transaction():
                await c.execute("SELECT 1/0")
        except asyncpg.DivisionByZeroError:
            pass
        want(await c.fetchval("SELECT 2"), 2)


@asynchronous("error")
async def _():
    try:
        await c.fetch("SELECT nothing FROM pg_class")
        raise AssertionError("no error")
    except asyncpg.UndefinedColumnError as error:
        want((error.sqlstate, error.position), ("42703", "8"))
    want(await c.fetchval("SELECT 1"), 1)


@asynchronous("cursor")
async def _():
    async with c.transaction():
        cursor = await c.cursor("SELECT generate_series FROM generate_series(1, 10)")
        want([r[0] for r in await cursor.fetch(3)], [1, 2, 3])
        await cursor.forward(2)
        want((await cursor.fetchrow())[0], 6)
    # A row limit leaves a portal behind; the next statement is not disturbed.
    want(await c.fetchval("SELECT generate_series FROM generate_series(1, 10)"), 1)


@asynchronous("stream")
async def _():
    total = 0
    async with c.transaction():
        async for row in c.cursor("SELECT generate_series FROM generate_series(1, 100000)", prefetch=1000):
            total += row[0]
    want(total, 5000050000)


@asynchronous("introspect")
async def _():
    row = await c.fetchrow("SELECT ARRAY[1.5::float4, 2] AS v, ARRAY[ARRAY['a']] AS w")
    want(row["v"], [1.5, 2.0])
    want(row["w"], [["a"]])


@asynchronous("copy_in")
async def _():
    await c.execute("CREATE TABLE copied (id bigint, body text, v real[], at timestamptz)")
    at = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    want(await c.copy_records_to_table("copied", records=[(1, "a", [0.5], at), (2, None, None, None)]), "COPY 2")
    want(await c.copy_to_table("copied", source=io.BytesIO(b"3,c,\"{1,2}\",\n"), format="csv"), "COPY 1")
    want([tuple(r) for r in await c.fetch("SELECT id, body, v FROM copied ORDER BY id")],
         [(1, "a", [0.5]), (2, None, None), (3, "c", [1.0, 2.0])])


@asynchronous("copy_out")
async def _():
    out = io.BytesIO()
    want(await c.copy_from_query("SELECT id, body FROM copied WHERE id < $1 ORDER BY id", 3, output=out), "COPY 2")
    want(out.getvalue(), b"1\ta\n2\t\\N\n")
    want(await c.copy_from_table("copied", output=io.BytesIO(), format="binary"), "COPY 3")


@asynchronous("cancel")
async def _():
    try:
        await c.fetch("SELECT pg_sleep(20)", timeout=0.3)
        raise AssertionError("not canceled")
    except asyncio.TimeoutError:
        pass
    want(await c.fetchval("SELECT 1"), 1)


@asynchronous("computed")
async def _():
    product()
    await c.execute("CREATE TABLE docs (id bigint, body text)")
    await c.executemany("INSERT INTO docs VALUES ($1, $2)", [(1, "lance"), (2, "gate")])
    await c.execute("ALTER TABLE docs ADD COLUMN n AS length(body)")
    want((await c.fetchrow("REFRESH COLUMN n ON docs WAIT"))["status"], "succeeded")
    want(await c.fetchval("SELECT sum(n) FROM docs"), 9)


@asynchronous("jobs")
async def _():
    product()
    rows = await c.fetch("SHOW JOBS LIMIT 5")
    want(rows[0]["state"], "succeeded")
    want(await c.fetchval("SELECT state FROM system.public.jobs WHERE job_id = $1", rows[0]["job_id"]), "succeeded")


@asynchronous("executemany")
async def _():
    await c.execute("CREATE TABLE many (a int, b float4[])")
    await c.executemany("INSERT INTO many VALUES ($1, $2)", [(n, [float(n)]) for n in range(50)])
    want(await c.fetchval("SELECT count(*) FROM many"), 50)
    got = await c.fetchmany("INSERT INTO many VALUES ($1, $2) RETURNING a", [(1, None), (2, None)])
    want([r[0] for r in got], [1, 2])


@asynchronous("listen")
async def _():
    product()
    heard = asyncio.Queue()
    await c.add_listener("lancegate_jobs", lambda *news: heard.put_nowait(news[3]))
    await c.execute("INSERT INTO docs (id, body) VALUES (3, 'x')")
    await c.fetch("REFRESH COLUMN n ON docs WAIT")
    await c.fetchval("SELECT 1")
    assert "job_id" in await asyncio.wait_for(heard.get(), 10)
    await c.reset()


@asynchronous("pool")
async def _():
    async with asyncpg.create_pool(min_size=1, max_size=3) as pool:
        got = await asyncio.gather(*(pool.fetchval("SELECT $1::int", n) for n in range(20)))
        want(got, list(range(20)))
