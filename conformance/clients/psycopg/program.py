"""psycopg 3: extended protocol, binary where the driver chooses it, COPY, pipelines."""

import asyncio
import datetime as dt
import decimal
import threading
import uuid

import psycopg
from psycopg.types import TypeInfo

from conformance import WAIT_SECONDS, feature, product, version, want

version(psycopg.__version__)
c = psycopg.connect(autocommit=True)

VALUES = [
    ("bool", True), ("int2", -3), ("int4", 70000), ("int8", 2**40), ("float4", 1.5), ("float8", -2.25),
    ("numeric", decimal.Decimal("123456.789")), ("text", "a'b\"ü\n"), ("varchar", "v"), ("bytea", b"\x00\xff"),
    ("date", dt.date(1969, 7, 20)), ("time", dt.time(1, 2, 3, 4)), ("timestamp", dt.datetime(1901, 2, 3, 4, 5, 6, 7)),
    ("timestamptz", dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone.utc)), ("uuid", uuid.UUID(int=5)),
    ("interval", dt.timedelta(days=3, hours=4)), ("int4[]", [1, None, 3]), ("text[]", ["a", "b,c", ""]),
    ("float4[]", [0.5, 1.0]), ("json", {"a": [1, None]}), ("jsonb", {"b": 2}),
]


@feature("connect")
def _():
    want(c.execute("SELECT 1 AS one").fetchone(), (1,))
    assert c.info.server_version >= 150000
    want(c.info.parameter_status("server_encoding"), "UTF8")
    want(c.info.encoding, "utf-8")


@feature("session")
def _():
    c.execute("SET application_name = 'conformance'")
    want(c.execute("SHOW application_name").fetchone(), ("conformance",))
    c.execute("SET TIME ZONE 'Europe/Berlin'")
    want(c.info.parameter_status("TimeZone"), "Europe/Berlin")
    want(c.execute("SELECT set_config('TimeZone', 'UTC', false)").fetchone(), ("UTC",))
    c.execute("DISCARD ALL")


def each_type(binary):
    wrong = []
    for name, value in VALUES:
        sent = value
        if isinstance(value, dict):
            sent = psycopg.types.json.Json(value) if name == "json" else psycopg.types.json.Jsonb(value)
        try:
            cursor = c.cursor(binary=binary)
            got = cursor.execute(f"SELECT %s::{name}, NULL::{name}", [sent]).fetchone()
            if got != (value, None):
                wrong.append(f"{name}: {got[0]!r}")
        except psycopg.Error as error:
            wrong.append(f"{name}: {error}")
    want(wrong, [])


@feature("types_out")
def _():
    got = c.execute(
        "SELECT 1::int2, 2::int4, 3::int8, 1.5::float8, 1.50::numeric(10,2), 'x'::text, true, '2024-01-02'::date,"
        " '2024-01-02 03:04:05.5'::timestamp, ARRAY[1,2]::int8[], NULL::int4, '\\x00ff'::bytea, interval '1 day 2 hours'"
    ).fetchone()
    want(got, (
        1, 2, 3, 1.5, decimal.Decimal("1.50"), "x", True, dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, 4, 5, 500000),
        [1, 2], None, b"\x00\xff", dt.timedelta(days=1, hours=2),
    ))


@feature("types_in")
def _():
    each_type(False)


@feature("binary")
def _():
    each_type(True)


@feature("prepare")
def _():
    for n in range(8):  # prepared by name from the sixth on
        want(c.execute("SELECT %s::int + 1", [n]).fetchone(), (n + 1,))
    c.execute("CREATE TABLE prep (id bigint, name text, at timestamptz)")
    for n in range(8):
        c.execute("INSERT INTO prep VALUES (%s, %s, %s)", [n, str(n), dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)])
        want(c.execute("SELECT name FROM prep WHERE id = %s", [n], prepare=True).fetchone(), (str(n),))
    want(c.execute("SELECT count(*) FROM prep WHERE id = ANY(%s)", [[1, 2, 9]]).fetchone(), (2,))
    want(c.execute("SELECT id FROM prep ORDER BY id LIMIT %s OFFSET %s", [1, 2]).fetchall(), [(2,)])


@feature("transaction")
def _():
    with psycopg.connect() as other:
        want(other.execute("SELECT 1").fetchone(), (1,))
        want(other.info.transaction_status.name, "INTRANS")
        try:
            other.execute("SELECT nothing")
        except psycopg.errors.UndefinedColumn:
            pass
        want(other.info.transaction_status.name, "INERROR")
        try:
            other.execute("SELECT 1")
            raise AssertionError("a failed block goes on")
        except psycopg.errors.InFailedSqlTransaction:
            pass
        other.rollback()
        want(other.info.transaction_status.name, "IDLE")


@feature("savepoint")
def _():
    with c.transaction():
        try:
            with c.transaction():
                c.execute("SELECT 1/0")
        except psycopg.errors.DivisionByZero:
            pass
        want(c.execute("SELECT 1").fetchone(), (1,))


@feature("error")
def _():
    try:
        c.execute("SELECT nothing FROM pg_class")
        raise AssertionError("no error")
    except psycopg.errors.UndefinedColumn as error:
        want((error.diag.sqlstate, error.diag.statement_position, error.diag.severity), ("42703", "8", "ERROR"))
    try:
        c.execute("SELEC 1")
    except psycopg.errors.SyntaxError as error:
        want(error.diag.statement_position, "1")
    want(c.execute("SELECT 1").fetchone(), (1,))


@feature("cursor")
def _():
    with c.transaction():
        with c.cursor("named") as cursor:
            cursor.itersize = 3
            cursor.execute("SELECT g, 'x' FROM generate_series(1, 10) g")
            want([d.name for d in cursor.description][0], "g")
            want(cursor.fetchmany(2), [(1, "x"), (2, "x")])
            want(sum(row[0] for row in cursor), 52)


@feature("scroll")
def _():
    with c.transaction():
        with c.cursor("scrolled", scrollable=True) as cursor:
            cursor.execute("SELECT g FROM generate_series(1, 10) g")
            cursor.scroll(4)
            want(cursor.fetchone(), (5,))
            cursor.scroll(0, mode="absolute")
            want(cursor.fetchone(), (1,))


@feature("table_function_parameter")
def _():
    want(c.execute("SELECT count(*) FROM generate_series(1, %s)", [10]).fetchone(), (10,))


@feature("stream")
def _():
    want(sum(row[0] for row in c.cursor().stream("SELECT generate_series(1, 100000)")), 5000050000)


@feature("introspect")
def _():
    info = TypeInfo.fetch(c, "int4")
    want((info.oid, info.array_oid), (23, 1007))
    want(TypeInfo.fetch(c, "no_such_type"), None)


@feature("copy_in")
def _():
    c.execute("CREATE TABLE copied (id bigint, body text, at timestamp)")
    with c.cursor().copy("COPY copied FROM STDIN") as copy:
        for n in range(1000):
            copy.write_row((n, f"row\t{n}", dt.datetime(2024, 1, 1)))
    with c.cursor().copy("COPY copied (id, body) FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int8", "text"])
        copy.write_row((1000, None))
    want(c.execute("SELECT count(*), count(body), max(id) FROM copied").fetchone(), (1001, 1000, 1000))
    try:
        with c.cursor().copy("COPY copied FROM STDIN") as copy:
            copy.write("nonsense\n")
        raise AssertionError("a bad row was taken")
    except psycopg.Error as error:
        want(error.sqlstate, "22P02" if "invalid" in str(error) else "22P04")
    want(c.execute("SELECT 1").fetchone(), (1,))


@feature("copy_out")
def _():
    with c.cursor().copy("COPY (SELECT g, 'a b', NULL FROM generate_series(1, 3) g) TO STDOUT") as copy:
        want(b"".join(copy), b"1\ta b\t\\N\n2\ta b\t\\N\n3\ta b\t\\N\n")
    with c.cursor().copy("COPY (SELECT 7::int8, 'x'::text) TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["int8", "text"])
        want(list(copy.rows()), [(7, "x")])


@feature("cancel")
def _():
    timer = threading.Timer(0.3, c.cancel_safe)
    timer.start()
    try:
        c.execute("SELECT pg_sleep(20)")
        raise AssertionError("not canceled")
    except psycopg.errors.QueryCanceled:
        pass
    timer.join()
    want(c.execute("SELECT 1").fetchone(), (1,))


@feature("computed")
def _():
    product()
    c.execute("CREATE TABLE docs (id bigint, body text)")
    c.cursor().executemany("INSERT INTO docs VALUES (%s, %s)", [(1, "lance"), (2, "gate")])
    c.execute("ALTER TABLE docs ADD COLUMN n AS length(body)")
    cursor = c.execute("REFRESH COLUMN n ON docs WAIT")
    row = dict(zip([d.name for d in cursor.description], cursor.fetchone()))
    want(row["status"], "succeeded")
    want(c.execute("SELECT id, n FROM docs ORDER BY id").fetchall(), [(1, 5), (2, 4)])
    with psycopg.connect() as other:  # inside of a block
        other.execute("REFRESH COLUMN n ON docs WAIT").fetchone()


@feature("jobs")
def _():
    product()
    rows = c.execute("SHOW JOBS FOR TABLE docs LIMIT 10").fetchall()
    want(len(rows), 2)
    job = rows[0][0]
    want(c.execute("SELECT state FROM system.public.jobs WHERE job_id = %s", [job]).fetchone(), ("succeeded",))
    want(c.execute(f"WAIT JOB '{job}' TIMEOUT '{WAIT_SECONDS} s'").fetchone() is not None, True)
    assert c.execute(f"DESCRIBE JOB '{job}'").fetchall()
    assert c.execute(f"SELECT * FROM describe_job('{job}')").fetchall()


@feature("pipeline")
def _():
    with c.pipeline() as pipeline:
        first, second = c.execute("SELECT %s::int", [1]), c.execute("SELECT 2")
        pipeline.sync()
        want((first.fetchone(), second.fetchone()), ((1,), (2,)))
    try:
        with c.pipeline():
            c.execute("CREATE TABLE piped (a int)")
            c.execute("SELECT 1/0")
            c.execute("INSERT INTO copied VALUES (777777, 'skipped', NULL)")
    except psycopg.errors.DivisionByZero:
        pass
    want(c.execute("SELECT count(*) FROM copied WHERE id = 777777").fetchone(), (0,))


@feature("executemany")
def _():
    c.execute("CREATE TABLE many (a int, b text)")
    cursor = c.cursor()
    cursor.executemany("INSERT INTO many VALUES (%s, %s) RETURNING a", [(n, "x") for n in range(5)], returning=True)
    got = []
    while True:
        got += cursor.fetchall()
        if not cursor.nextset():
            break
    want(got, [(n,) for n in range(5)])
    want(c.execute("UPDATE many SET b = 'y' WHERE a < 2").rowcount, 2)


@feature("notices")
def _():
    seen = []
    c.add_notice_handler(lambda notice: seen.append(notice.sqlstate))
    c.execute("ROLLBACK")
    c.execute("DROP TABLE IF EXISTS nowhere")
    c.execute("CREATE TABLE IF NOT EXISTS many (a int)")
    want(seen, ["25P01", "00000", "42P07"])


@feature("asynchronous")
def _():
    async def two():
        async with await psycopg.AsyncConnection.connect() as other:
            cursor = await other.execute("SELECT 1")
            return await cursor.fetchone()

    want(asyncio.run(two()), (1,))
