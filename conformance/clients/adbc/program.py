"""The ADBC driver for PostgreSQL, alone and below polars."""

import datetime as dt

import adbc_driver_postgresql
import adbc_driver_postgresql.dbapi as adbc
import polars as pl
import pyarrow as pa

from conformance import DATABASE, HOST, PASSWORD, PORT, USER, feature, product, version, want
from urllib.parse import quote

version(f"{adbc_driver_postgresql.__version__}, {pl.__version__}")
uri = f"postgresql://{USER}:{quote(PASSWORD)}@{HOST}:{PORT}/{DATABASE}"
c = adbc.connect(uri, autocommit=True)


def table(sql, parameters=None):
    with c.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetch_arrow_table()


def run(sql):
    with c.cursor() as cursor:
        cursor.execute(sql)


@feature("connect")
def _():
    want(table("SELECT 1 AS one").to_pydict(), {"one": [1]})
    want(c.adbc_get_info()["vendor_name"], "PostgreSQL")


@feature("types_out")
def _():
    got = table(
        "SELECT 1::int2 AS a, 2::int4 AS b, 3::int8 AS c, 1.5::float4 AS d, 2.5::float8 AS e, 'x'::text AS f, true AS g,"
        " '2024-01-02'::date AS h, '2024-01-02 03:04:05'::timestamp AS i, ARRAY[1.5::float4, NULL] AS j, NULL::int4 AS k,"
        " 1.25::numeric(10,2) AS l"
    ).to_pylist()[0]
    want(got, {
        "a": 1, "b": 2, "c": 3, "d": 1.5, "e": 2.5, "f": "x", "g": True, "h": dt.date(2024, 1, 2),
        "i": dt.datetime(2024, 1, 2, 3, 4, 5), "j": [1.5, None], "k": None, "l": "1.25",
    })


@feature("types_in")
def _():
    want(table("SELECT $1::int8 AS a, $2::text AS b, $3::float8 AS c", (1, "x", 1.5)).to_pylist(), [{"a": 1, "b": "x", "c": 1.5}])


@feature("transaction")
def _():
    with adbc.connect(uri) as other:
        with other.cursor() as cursor:
            cursor.execute("SELECT 1")
            want(cursor.fetchone(), (1,))
        other.rollback()


@feature("error")
def _():
    try:
        table("SELECT nothing FROM pg_class")
        raise AssertionError("no error")
    except adbc.ProgrammingError as error:
        want(error.sqlstate, "42703")
    want(table("SELECT 1 AS a").num_rows, 1)


@feature("stream")
def _():
    with c.cursor() as cursor:
        cursor.execute("SELECT generate_series FROM generate_series(1, 100000)")
        want(sum(sum(batch.column(0).to_pylist()) for batch in cursor.fetch_record_batch()), 5000050000)


data = pa.table({
    "id": pa.array([1, 2], pa.int64()), "body": ["lance", None], "v": pa.array([[0.5, 1], None], pa.list_(pa.float32())),
    "at": pa.array([dt.datetime(2024, 1, 1)] * 2, pa.timestamp("us")),
})


@feature("ingest")
def _():
    with c.cursor() as cursor:
        want(cursor.adbc_ingest("docs", data, mode="create"), 2)
        want(cursor.adbc_ingest("docs", data, mode="append"), 2)
        want(cursor.adbc_ingest("docs", data, mode="replace"), 2)


@feature("copy_in")
def _():
    want(table("SELECT id, body, v FROM docs ORDER BY id").to_pylist(),
         [{"id": 1, "body": "lance", "v": [0.5, 1.0]}, {"id": 2, "body": None, "v": None}])


@feature("introspect")
def _():
    objects = c.adbc_get_objects(depth="all").read_all().to_pylist()
    schemas = {schema["db_schema_name"]: schema for catalog in objects for schema in catalog["catalog_db_schemas"] or []}
    assert "docs" in [found["table_name"] for found in schemas["public"]["db_schema_tables"]]
    want(c.adbc_get_table_schema("docs").names, ["id", "body", "v", "at"])
    assert "table" in [kind.lower() for kind in c.adbc_get_table_types()]


@feature("computed")
def _():
    product()
    run("ALTER TABLE docs ADD COLUMN n AS length(body)")
    with c.cursor(adbc_stmt_kwargs={"adbc.postgresql.use_copy": False}) as cursor:
        cursor.execute("REFRESH COLUMN n ON docs WAIT")
        want(cursor.fetch_arrow_table().to_pylist()[0]["status"], "succeeded")
    want(table("SELECT sum(n) AS n FROM docs").to_pylist(), [{"n": 5}])


@feature("jobs")
def _():
    product()
    with c.cursor(adbc_stmt_kwargs={"adbc.postgresql.use_copy": False}) as cursor:
        cursor.execute("SHOW JOBS")
        want(cursor.fetch_arrow_table().to_pylist()[0]["state"], "succeeded")
    want(table("SELECT state FROM system.public.jobs").to_pylist(), [{"state": "succeeded"}])


@feature("polars_read")
def _():
    got = pl.read_database_uri("SELECT id, body FROM docs ORDER BY id", uri, engine="adbc")
    want(got.rows(), [(1, "lance"), (2, None)])


@feature("polars_write")
def _():
    frame = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    want(frame.write_database("written", uri, engine="adbc"), 2)
    want(table("SELECT count(*) AS n FROM written").to_pylist(), [{"n": 2}])
