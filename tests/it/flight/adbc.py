"""The published ADBC driver for Flight SQL, unmodified. Arguments: address, password, API key, address with TLS, certificate."""
import sys

import adbc_driver_flightsql
import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow as pa

address, password, key, tls, certificate = sys.argv[1:6]
OPTIONS = adbc_driver_flightsql.DatabaseOptions
URI = f"grpc+tcp://{address}"


def connect(uri=URI, **more):
    options = {"username": "lancegate", "password": password, **more}
    return flightsql.connect(uri, db_kwargs={name: value for name, value in options.items() if value}, autocommit=True)


def refused(kind, words, do):
    try:
        do()
    except adbc_driver_manager.Error as error:
        assert kind in str(error) and words in str(error), error
        return error
    raise AssertionError(f"{words} was not refused")


def read(cursor, *query):
    cursor.execute(*query)
    return cursor.fetchall()


with connect() as connection, connection.cursor() as cursor:
    # Queries and changes.
    cursor.execute("SELECT 1 AS a, 'x' AS b")
    assert cursor.fetchall() == [(1, "x")]
    cursor.execute("CREATE TABLE t (id BIGINT, name TEXT, at DATE)")
    cursor.adbc_statement.set_sql_query("INSERT INTO t VALUES (1, 'one', '2024-01-02'), (2, 'two', NULL)")
    assert cursor.adbc_statement.execute_update() == 2
    cursor.execute("SELECT id, name, at FROM t ORDER BY id")
    table = cursor.fetch_arrow_table()
    assert table.schema.field("id").type == pa.int64(), table.schema
    assert table.column("name").to_pylist() == ["one", "two"]

    # Parameters: what the text says they are, else what the values are.
    cursor.execute("SELECT name FROM t WHERE id = $1", (2,))
    assert cursor.fetchall() == [("two",)]
    cursor.execute("SELECT $1 AS v", (41,))
    assert cursor.fetchall() == [(41,)]
    cursor.execute("SELECT $1 AS v, $2 AS w", ("a", None))
    assert cursor.fetchall() == [("a", None)]
    cursor.executemany("INSERT INTO t (id, name) VALUES ($1, $2)", [(3, "three"), (4, None)])
    cursor.execute("SELECT count(*) FROM t WHERE id > 2")
    assert cursor.fetchall() == [(2,)]
    cursor.adbc_prepare("SELECT id FROM t WHERE name = $1")

    # Rows as Arrow, in one commit.
    rows = pa.table({"k": pa.array(range(10_000), pa.int64()), "s": [f"row {n}" for n in range(10_000)]})
    assert cursor.adbc_ingest("made", rows, mode="create") == 10_000
    assert cursor.adbc_ingest("made", rows.slice(0, 5), mode="append") == 5
    refused("ALREADY_EXISTS", "made", lambda: cursor.adbc_ingest("made", rows, mode="create"))
    refused("NOT_FOUND", "missing", lambda: cursor.adbc_ingest("missing", rows, mode="append"))
    cursor.execute("SELECT count(*), max(s) FROM made")
    assert cursor.fetchall() == [(10_005, "row 9999")]
    assert cursor.adbc_ingest("made", rows.slice(0, 3), mode="replace") == 3
    assert cursor.adbc_ingest("also", rows.slice(0, 2), mode="create_append") == 2
    assert cursor.adbc_ingest("also", rows.slice(0, 2), mode="create_append") == 2
    cursor.execute("SELECT (SELECT count(*) FROM made) + (SELECT count(*) FROM also)")
    assert cursor.fetchall() == [(7,)]

    # What is there.
    cursor.execute("CREATE SCHEMA other")
    cursor.execute("CREATE VIEW other.v AS SELECT id FROM t")
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "lancegate" and info["vendor_version"], info
    assert set(connection.adbc_get_table_types()) == {"TABLE", "VIEW", "MATERIALIZED VIEW"}
    catalogs = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    catalog = next(entry for entry in catalogs if entry["catalog_name"] == "lancegate")
    schemas = {entry["db_schema_name"]: entry["db_schema_tables"] for entry in catalog["catalog_db_schemas"]}
    assert {table["table_name"] for table in schemas["public"]} == {"t", "made", "also"}, schemas["public"]
    assert [(table["table_name"], table["table_type"]) for table in schemas["other"]] == [("v", "VIEW")]
    columns = next(table for table in schemas["public"] if table["table_name"] == "t")["table_columns"]
    assert [column["column_name"] for column in columns] == ["id", "name", "at"], columns
    only = connection.adbc_get_objects(depth="tables", table_name_filter="mad%").read_all().to_pylist()
    found = [t["table_name"] for c in only for s in c["catalog_db_schemas"] or [] for t in s["db_schema_tables"] or []]
    assert found == ["made"], found
    assert connection.adbc_get_table_schema("t").names == ["id", "name", "at"]

    # Errors have the text and the state of SQL.
    refused("NOT_FOUND", "42P01", lambda: cursor.execute("SELECT * FROM nothing"))
    refused("INVALID", "42601", lambda: cursor.execute("SELEC 1"))
    with connection.cursor() as fresh:  # one that has sent rows takes the answer for that of an ingest
        refused("NOT_IMPLEMENTED", "Each statement is a session of its own", lambda: fresh.execute("BEGIN"))
    # An error in the middle of the rows.
    refused("INVALID", "22012", lambda: read(cursor, "SELECT 1 / (k - 2) FROM made"))

# Options of a session hold for the calls that follow.
with connect() as connection, connection.cursor() as cursor:
    connection.adbc_connection.set_options(**{"adbc.connection.db_schema": "other"})
    cursor.execute("SELECT count(*) FROM v")
    assert cursor.fetchall() == [(4,)]

# Credentials: a key in place of the password, as the token, as a header; and wrong ones.
HEADER = OPTIONS.RPC_CALL_HEADER_PREFIX.value
for given in (
    {"password": key},
    {"username": "lancedb", "password": key},
    {"username": None, "password": None, OPTIONS.AUTHORIZATION_HEADER.value: f"Bearer {key}"},
    {"username": None, "password": None, HEADER + "x-api-key": key},
):
    with connect(**given) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        assert cursor.fetchall() == [("lancegate",)], given
for given in (
    {"password": "wrong"},
    {"username": "nobody"},
    {"username": "nobody", "password": key},
    {"password": key + "x"},
    {"username": None, "password": None},
    {"username": None, "password": None, HEADER + "x-api-key": "lgk_wrong"},
):

    def attempt():
        with connect(**given) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    refused("UNAUTHENTICATED", "28P01", attempt)

# TLS.
with connect(f"grpc+tls://{tls}", **{OPTIONS.TLS_ROOT_CERTS.value: open(certificate).read()}) as connection:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]
print("ok")
