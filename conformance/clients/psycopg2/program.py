"""psycopg2: simple protocol, values written into the text, a transaction from the first statement on."""

import datetime as dt
import decimal
import io
import threading
import uuid

import psycopg2
import psycopg2.errorcodes
import psycopg2.extras

from conformance import feature, product, version, want

version(psycopg2.__version__.split()[0])
c = psycopg2.connect("")
c.autocommit = True


def one(sql, *parameters, connection=None):
    with (connection or c).cursor() as cursor:
        cursor.execute(sql, parameters or None)
        return cursor.fetchone() if cursor.description else cursor.statusmessage


@feature("connect")
def _():
    want(one("SELECT 1"), (1,))
    assert c.server_version >= 150000
    want(c.encoding, "UTF8")


@feature("session")
def _():
    with psycopg2.connect("") as other:
        other.set_session(isolation_level="REPEATABLE READ", readonly=True)
        want(one("SHOW transaction_isolation", connection=other), ("repeatable read",))
        other.reset()
        want(one("SHOW standard_conforming_strings", connection=other), ("on",))
        other.set_client_encoding("UTF8")


@feature("types_out")
def _():
    want(one(
        "SELECT 1::int2, 2::int8, 1.5::float4, 1.50::numeric(10,2), 'x'::text, true, DATE '2024-01-02', TIME '01:02:03',"
        " '2024-01-02 03:04:05.5'::timestamp, ARRAY[1,2], ARRAY['a','b,c',NULL], NULL, '\\x00ff'::bytea,"
        " interval '1 day 2 hours'"
    )[:-2], (
        1, 2, 1.5, decimal.Decimal("1.50"), "x", True, dt.date(2024, 1, 2), dt.time(1, 2, 3),
        dt.datetime(2024, 1, 2, 3, 4, 5, 500000), [1, 2], ["a", "b,c", None], None,
    ))
    want(one("SELECT timestamptz '2024-01-02 03:04:05+02'")[0].timestamp(), 1704157445.0)
    want(one("SELECT '{\"a\": 1}'::json"), ({"a": 1},))
    want(bytes(one("SELECT '\\x00ff'::bytea")[0]), b"\x00\xff")


@feature("types_in")
def _():
    psycopg2.extras.register_uuid()
    values = [
        1, 2**40, 1.25, decimal.Decimal("1.25"), "a'b\\", True, None, dt.date(2024, 1, 2), dt.time(1, 2, 3),
        dt.datetime(2024, 1, 2, 3), [1, 2], ["a", "b"],
    ]
    for value in values:
        want(one("SELECT %s", value), (value,))
    want(bytes(one("SELECT %s", psycopg2.Binary(b"\x00'\xff"))[0]), b"\x00'\xff")
    want(one("SELECT %s", uuid.UUID(int=7)), (uuid.UUID(int=7),))
    want(one("SELECT %s", dt.timedelta(days=1, seconds=2)), (dt.timedelta(days=1, seconds=2),))
    want(one("SELECT 1 WHERE 2 IN %s", (1, 2)), (1,))


@feature("transaction")
def _():
    other = psycopg2.connect("")
    want(one("SELECT 1", connection=other), (1,))
    try:
        one("SELECT nothing", connection=other)
        raise AssertionError("no error")
    except psycopg2.errors.UndefinedColumn:
        pass
    try:
        one("SELECT 1", connection=other)
        raise AssertionError("a failed block goes on")
    except psycopg2.errors.InFailedSqlTransaction:
        pass
    other.rollback()
    want(one("SELECT 1", connection=other), (1,))
    other.commit()
    other.close()


@feature("savepoint")
def _():
    other = psycopg2.connect("")
    one("SAVEPOINT a", connection=other)
    try:
        one("SELECT 1/0", connection=other)
    except psycopg2.errors.DivisionByZero:
        pass
    one("ROLLBACK TO SAVEPOINT a", connection=other)
    want(one("RELEASE SAVEPOINT a", connection=other), "RELEASE")
    other.close()


@feature("error")
def _():
    try:
        one("SELECT nothing FROM pg_class")
        raise AssertionError("no error")
    except psycopg2.Error as error:
        want((error.pgcode, error.diag.statement_position), (psycopg2.errorcodes.UNDEFINED_COLUMN, "8"))
    want(one("SELECT 1"), (1,))


@feature("cursor")
def _():
    other = psycopg2.connect("")
    with other.cursor("named") as cursor:
        cursor.execute("SELECT generate_series FROM generate_series(1, 10)")
        want(cursor.fetchmany(3), [(1,), (2,), (3,)])
        want(len(cursor.fetchall()), 7)
    other.close()


@feature("scroll")
def _():
    other = psycopg2.connect("")
    with other.cursor("held", withhold=True, scrollable=True) as cursor:
        cursor.execute("SELECT generate_series FROM generate_series(1, 10)")
        other.commit()
        cursor.scroll(3)
        want(cursor.fetchone(), (4,))
        cursor.scroll(-2)
        want(cursor.fetchone(), (3,))
    other.close()


@feature("stream")
def _():
    other = psycopg2.connect("")
    with other.cursor("big") as cursor:
        cursor.itersize = 5000
        cursor.execute("SELECT generate_series FROM generate_series(1, 100000)")
        want(sum(row[0] for row in cursor), 5000050000)
    other.close()


@feature("introspect")
def _():
    with c.cursor() as cursor:
        psycopg2.extras.HstoreAdapter.get_oids(c)
        cursor.execute("SELECT 1 AS a, 'x'::text AS b")
        want([(d.name, d.type_code) for d in cursor.description], [("a", 23), ("b", 25)])


@feature("copy_in")
def _():
    one("CREATE TABLE copied (id bigint, body text)")
    with c.cursor() as cursor:
        cursor.copy_from(io.StringIO("1\ta\n2\t\\N\n"), "copied", columns=("id", "body"))
        cursor.copy_expert("COPY copied FROM STDIN WITH (FORMAT csv, HEADER)", io.StringIO('id,body\n3,"c,""d"\n'))
        want(cursor.rowcount, 1)
        try:
            cursor.copy_expert("COPY copied FROM STDIN", io.StringIO("x\ty\tz\n"))
            raise AssertionError("a bad row was taken")
        except psycopg2.Error:
            pass
    want(one("SELECT count(*), max(body) FROM copied"), (3, 'c,"d'))


@feature("copy_out")
def _():
    out = io.StringIO()
    with c.cursor() as cursor:
        cursor.copy_expert("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT WITH CSV HEADER", out)
    want(out.getvalue(), 'id,body\n1,a\n2,\n3,"c,""d"\n')


@feature("cancel")
def _():
    timer = threading.Timer(0.3, c.cancel)
    timer.start()
    try:
        one("SELECT pg_sleep(20)")
        raise AssertionError("not canceled")
    except psycopg2.errors.QueryCanceled:
        pass
    timer.join()
    want(one("SELECT 1"), (1,))


@feature("computed")
def _():
    product()
    one("CREATE TABLE docs (id bigint, body text)")
    want(one("INSERT INTO docs VALUES (%s, %s), (%s, %s)", 1, "lance", 2, "gate"), "INSERT 0 2")
    one("ALTER TABLE docs ADD COLUMN n AS length(body)")
    with psycopg2.connect("") as other:  # the driver has begun a block
        with other.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
            cursor.execute("REFRESH COLUMN n ON docs WAIT")
            want(cursor.fetchone()["status"], "succeeded")
    want(one("SELECT sum(n) FROM docs"), (9,))


@feature("jobs")
def _():
    product()
    with c.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
        cursor.execute("SHOW JOBS LIMIT 5")
        job = cursor.fetchone()
        want(job["state"], "succeeded")
        cursor.execute("SELECT count(*) AS n FROM system.public.job_events WHERE job_id = %s", [job["job_id"]])
        assert cursor.fetchone()["n"] > 0


@feature("notices")
def _():
    del c.notices[:]
    one("DROP TABLE IF EXISTS nowhere")
    want(c.notices, ['NOTICE:  table "nowhere" does not exist, skipping\n'])


@feature("execute_values")
def _():
    one("CREATE TABLE many (a int, b text)")
    with c.cursor() as cursor:
        got = psycopg2.extras.execute_values(
            cursor, "INSERT INTO many VALUES %s RETURNING a", [(n, "x") for n in range(250)], fetch=True
        )
        want(len(got), 250)
        psycopg2.extras.execute_batch(cursor, "UPDATE many SET b = %s WHERE a = %s", [("y", 1), ("y", 2)])
    want(one("SELECT count(*) FROM many WHERE b = 'y'"), (2,))
