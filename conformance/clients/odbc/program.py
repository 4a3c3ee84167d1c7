"""psqlODBC: several statements in a query, savepoints around each, cursors as Tableau asks for them."""

import datetime as dt
import decimal

import pyodbc

from conformance import DATABASE, HOST, PASSWORD, PORT, USER, feature, product, version, want

pyodbc.pooling = False


def connect(autocommit=True, **options):
    parts = {
        "Driver": "/usr/lib/x86_64-linux-gnu/odbc/psqlodbcw.so", "Server": HOST, "Port": PORT, "Database": DATABASE, "UID": USER,
        "PWD": PASSWORD, **options,
    }
    return pyodbc.connect(";".join(f"{name}={value}" for name, value in parts.items()), autocommit=autocommit)


c = connect()
version(c.getinfo(pyodbc.SQL_DRIVER_VER))


def rows(sql, *parameters, connection=None):
    cursor = (connection or c).cursor()
    cursor.execute(sql, *parameters)
    return [tuple(row) for row in cursor.fetchall()]


c.execute("CREATE TABLE docs (id bigint NOT NULL, body text, price numeric(10,2), at timestamp)")


@feature("connect")
def _():
    want(rows("SELECT 1"), [(1,)])
    want(c.getinfo(pyodbc.SQL_DBMS_NAME), "PostgreSQL")


@feature("types_out")
def _():
    want(rows("SELECT 1::int2, 2::int4, 3::int8, 1.5::float8, 1.25::numeric(10,2), 'x'::text, '2024-01-02'::date,"
              " '2024-01-02 03:04:05'::timestamp, NULL::int4"),
         [(1, 2, 3, 1.5, decimal.Decimal("1.25"), "x", dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, 4, 5), None)])
    want(rows("SELECT '\\x00ff'::bytea"), [(b"\x00\xff",)])


@feature("types_in")
def _():
    c.execute("INSERT INTO docs VALUES (?, ?, ?, ?)", 1, "lance", decimal.Decimal("1.25"), dt.datetime(2024, 1, 2))
    c.execute("INSERT INTO docs VALUES (?, ?, ?, ?)", 2, None, None, None)
    want(rows("SELECT * FROM docs ORDER BY id"), [
        (1, "lance", decimal.Decimal("1.25"), dt.datetime(2024, 1, 2)), (2, None, None, None)])


@feature("prepare")
def _():
    cursor = c.cursor()
    for n in range(4):
        want(cursor.execute("SELECT body FROM docs WHERE id = ?", n % 2 + 1).fetchone()[0], "lance" if n % 2 == 0 else None)
    cursor.executemany("INSERT INTO docs (id, body) VALUES (?, ?)", [(n, "many") for n in range(10, 15)])
    want(rows("SELECT count(*) FROM docs WHERE body = ?", "many"), [(5,)])


@feature("transaction")
def _():
    other = connect(autocommit=False)
    want(rows("SELECT 1", connection=other), [(1,)])
    try:
        other.execute("SELECT nothing FROM docs")
        raise AssertionError("no error")
    except pyodbc.Error as error:
        want(error.args[0], "42703" if "42703" in error.args[0] else error.args[0])
    want(rows("SELECT 2", connection=other), [(2,)])  # the driver has gone back to its savepoint
    other.rollback()
    other.commit()
    other.close()


@feature("rollback_levels")
def _():
    for level in ("7.4-0", "7.4-1", "7.4-2"):
        other = connect(autocommit=False, Protocol=level)
        want(rows("SELECT 1 FROM docs WHERE id = ?", 1, connection=other), [(1,)], level)
        other.commit()
        other.close()


@feature("error")
def _():
    try:
        c.execute("SELEC 1")
        raise AssertionError("no error")
    except pyodbc.ProgrammingError as error:
        want(error.args[0], "42601")
    want(rows("SELECT 1"), [(1,)])


@feature("cursor")
def _():
    cursor = c.cursor().execute("SELECT generate_series FROM generate_series(1, 10)")
    want([row[0] for row in cursor.fetchmany(3)], [1, 2, 3])


@feature("declare_fetch")
def _():
    for autocommit in (True, False):
        other = connect(autocommit=autocommit, UseDeclareFetch="1", Fetch="2")
        want(rows("SELECT generate_series FROM generate_series(1, 7)", connection=other), [(n,) for n in range(1, 8)])
        want(rows("SHOW standard_conforming_strings", connection=other), [("on",)])
        if not autocommit:
            other.commit()
        other.close()


@feature("stream")
def _():
    cursor = c.cursor().execute("SELECT generate_series FROM generate_series(1, 100000)")
    want(sum(row[0] for row in cursor), 5000050000)


@feature("introspect")
def _():
    cursor = c.cursor()
    assert "docs" in [row.table_name for row in cursor.tables(schema="public", tableType="TABLE")]
    want([row.column_name for row in cursor.columns(table="docs")], ["id", "body", "price", "at"])
    want([row.type_name for row in cursor.columns(table="docs")], ["int8", "text", "numeric", "timestamp"])
    cursor.tables(catalog="%", schema="", table="").fetchall()
    assert "public" in [row.table_schem for row in cursor.tables(catalog="", schema="%", table="")]
    assert cursor.getTypeInfo().fetchall()


@feature("metadata_keys")
def _():
    cursor = c.cursor()
    want(cursor.primaryKeys("docs", schema="public").fetchall(), [])
    cursor.foreignKeys(table="docs").fetchall()
    cursor.statistics("docs").fetchall()
    cursor.rowIdColumns("docs").fetchall()


@feature("metadata_procedures")
def _():
    cursor = c.cursor()
    assert cursor.procedures(schema="pg_catalog", procedure="abs").fetchall()
    cursor.procedureColumns(schema="pg_catalog", procedure="abs").fetchall()


@feature("computed")
def _():
    product()
    c.execute("ALTER TABLE docs ADD COLUMN n AS length(body)")
    want(rows("REFRESH COLUMN n ON docs WAIT")[0][2], "succeeded")
    want(rows("SELECT n FROM docs WHERE id = 1"), [(5,)])


@feature("jobs")
def _():
    product()
    want(rows("SHOW JOBS")[0][3], "succeeded")
    want(rows("SELECT count(*) FROM (SELECT * FROM system.public.jobs) AS wrapped"), [(1,)])
