"""pg8000: the protocol written in Python; Parse and Sync before Bind, text formats, no parameter types."""

import datetime as dt
import decimal
import io
import uuid

import pg8000
import pg8000.dbapi
import pg8000.native

from conformance import DATABASE, HOST, PASSWORD, PORT, USER, feature, product, version, want

version(pg8000.__version__)
login = {"host": HOST, "port": int(PORT), "password": PASSWORD, "database": DATABASE}
c = pg8000.native.Connection(USER, **login)


@feature("connect")
def _():
    want(c.run("SELECT 1"), [[1]])
    want(c.parameter_statuses["server_encoding"], "UTF8")


@feature("types_out")
def _():
    want(c.run(
        "SELECT 1::int2, 2::int8, 1.50::numeric(10,2), 'x'::text, true, DATE '2024-01-02', '2024-01-02 03:04:05'::timestamp,"
        " ARRAY[1,2], ARRAY['a',NULL], NULL, 1.5::float8"
    ), [[1, 2, decimal.Decimal("1.50"), "x", True, dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, 4, 5), [1, 2],
         ["a", None], None, 1.5]])
    want(c.run("SELECT '\\x00ff'::bytea"), [[b"\x00\xff"]])


@feature("types_in")
def _():
    for name, value in [
        ("int4", 1), ("text", "a'b"), ("bool", True), ("numeric", decimal.Decimal("1.25")), ("date", dt.date(2024, 1, 2)),
        ("timestamp", dt.datetime(2024, 1, 2, 3)), ("int4[]", [1, 2]), ("text[]", ["a", None]), ("bytea", b"\x00\xff"),
        ("uuid", uuid.UUID(int=3)), ("float8", None), ("json", {"a": 1}),
    ]:
        want(c.run(f"SELECT CAST(:v AS {name})", v=value), [[value]], name)


@feature("prepare")
def _():
    c.run("CREATE TABLE prep (id bigint, name text)")
    statement = c.prepare("INSERT INTO prep VALUES (:id, :name)")
    for n in range(3):
        statement.run(id=n, name=str(n))
    statement.close()
    want(c.run("SELECT name FROM prep WHERE id = :id", id=2), [["2"]])
    want(c.columns[0]["name"], "name")


@feature("transaction")
def _():
    other = pg8000.dbapi.connect(USER, **login)
    cursor = other.cursor()
    cursor.execute("SELECT %s::int", (1,))
    want(cursor.fetchone(), [1])
    other.commit()
    try:
        cursor.execute("SELECT 1/0")
    except pg8000.dbapi.ProgrammingError:
        pass
    except pg8000.dbapi.DatabaseError:
        pass
    other.rollback()
    cursor.execute("SELECT 2")
    want(cursor.fetchone(), [2])
    other.close()


@feature("error")
def _():
    try:
        c.run("SELECT nothing FROM pg_class WHERE relname = :n", n="x")
        raise AssertionError("no error")
    except pg8000.native.DatabaseError as error:
        want((error.args[0]["C"], error.args[0]["P"]), ("42703", "8"))
    want(c.run("SELECT 1"), [[1]])


@feature("copy_in")
def _():
    c.run("CREATE TABLE copied (id bigint, body text)")
    c.run("COPY copied FROM STDIN WITH (FORMAT CSV)", stream=io.StringIO("1,a\n2,\n"))
    want(c.run("SELECT count(*) FROM copied"), [[2]])
    want(c.row_count, 1)


@feature("copy_out")
def _():
    out = io.BytesIO()
    c.run("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT", stream=out)
    want(out.getvalue(), b"1\ta\n2\t\\N\n")


@feature("computed")
def _():
    product()
    c.run("CREATE TABLE docs (id bigint, body text)")
    c.run("INSERT INTO docs VALUES (:a, :b)", a=1, b="lance")
    c.run("ALTER TABLE docs ADD COLUMN n AS length(body)")
    row = c.run("REFRESH COLUMN n ON docs WAIT")[0]
    want(dict(zip([d["name"] for d in c.columns], row))["status"], "succeeded")
    want(c.run("SELECT n FROM docs"), [[5]])


@feature("jobs")
def _():
    product()
    job = c.run("SHOW JOBS LIMIT 5")[0][0]
    want(c.run("SELECT state FROM system.public.jobs WHERE job_id = :j", j=job), [["succeeded"]])


@feature("notices")
def _():
    c.notices.clear()
    c.run("DROP TABLE IF EXISTS nowhere")
    want(c.notices[0][b"C"] if b"C" in c.notices[0] else c.notices[0]["C"], b"00000")
