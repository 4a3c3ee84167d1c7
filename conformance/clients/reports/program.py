"""Public bug reports about databases that speak PostgreSQL's protocol, as cases of our own.

A feature is named after the report: repository and number. Each case is the smallest thing that showed the fault.
"""

import datetime as dt
import socket
import struct
import threading
import time

import asyncpg
import asyncio
import pg8000.native
import psycopg

from conformance import DATABASE, HOST, PASSWORD, PORT, REFERENCE, USER, feature, version, want
from raw import Raw

version(psycopg.__version__)
c = psycopg.connect(autocommit=True)


def rows(sql, *parameters, connection=None):
    return (connection or c).execute(sql, parameters or None).fetchall()


def state(sql, connection=None):
    """The SQLSTATE that a statement is refused with."""
    try:
        (connection or c).execute(sql)
    except psycopg.Error as error:
        return error.sqlstate
    return None


c.execute("CREATE TABLE t (id bigint, body text, at timestamp, atz timestamptz, v real[], raw bytea, n numeric(10,2))")
c.execute("INSERT INTO t VALUES (1, 'a', '2024-01-02 03:04:05', '2024-01-02 03:04:05+00', '{0.5,1}', '\\x00ff', 1.25),"
          " (2, 'b', NULL, NULL, NULL, NULL, NULL), (NULL, 'c', NULL, NULL, NULL, NULL, NULL)")


@feature("datafusion_postgres_152")
def _():
    with Raw() as raw:
        for sql in ("SELECT $1::int + $2", "SELECT $1"):
            raw.send(raw.parse("", sql), raw.describe("S", ""), raw.bind("", "", [b"1"] * sql.count("$")), raw.execute(""), raw.sync())
            want([kind for kind in raw.until_ready() if kind != "N"], list("1tT2DCZ"), sql)


@feature("datafusion_postgres_230")
def _():
    want(rows("SELECT raw FROM t WHERE id = 1"), [(b"\x00\xff",)])
    want(c.cursor(binary=True).execute("SELECT raw FROM t WHERE id = 1").fetchall(), [(b"\x00\xff",)])


@feature("datafusion_postgres_102")
def _():
    timer = threading.Timer(0.4, c.cancel_safe)
    timer.start()
    want(state("SELECT count(*) FROM generate_series(1, 100000) AS a(x), generate_series(1, 1000000) AS b(y) WHERE x % 7 = y % 5"), "57014")
    timer.join()
    want(rows("SELECT 1::int"), [(1,)])


@feature("pgwire_52")
def _():
    for condition, values in (("id = $1", ["1"]), ("id IN ($1, $2)", ["1", "7"]), ("id BETWEEN $1 AND $2", ["0", "1"]), ("body LIKE $1", ["a%"]),
                              ("id = $1 ORDER BY id LIMIT $2", ["1", "5"])):
        with Raw() as raw:
            raw.send(raw.parse("s", f"SELECT body FROM t WHERE {condition}"), raw.describe("S", "s"), raw.sync())
            raw.until_ready()
            raw.send(raw.bind("", "s", [value.encode() for value in values]), raw.execute(""), raw.sync())
            want(raw.until_ready(), list("2DCZ"), condition)


@feature("pgwire_146")
def _():
    with Raw() as raw:
        raw.send(raw.query("SELECT nothing"))
        want(raw.until_ready(), ["E", "Z"])
        raw.send(raw.parse("", "SELECT nothing"), raw.bind("", "", []), raw.execute(""))
        raw.send(raw.sync())
        want(raw.until_ready(), ["E", "Z"])
        want(raw.pending(0.3), b"")


@feature("datafusion_4976")
def _():
    with Raw() as raw:
        raw.send(raw.parse("s", "INSERT INTO t (id, body, at) VALUES ($1, $2, $3)"), raw.describe("S", "s"), raw.sync())
        raw.until_ready()
        want(raw.parameter_types(), [20, 25, 1114])


@feature("doltgresql_513")
def _():
    c.execute("SET search_path = public")
    want(rows("SELECT count(*) FROM pg_class"), rows("SELECT count(*) FROM pg_catalog.pg_class"))


@feature("doltgresql_2318")
def _():
    kinds = ("date '2024-01-02'", "timestamptz '2024-01-02 03:04:05+00'", "timestamp '1901-02-03 04:05:06'", "1.50::numeric(10,2)", "ARRAY[true,false]",
             "'00000000-0000-0000-0000-000000000007'::uuid")
    for kind in kinds:
        text, = c.cursor(binary=False).execute(f"SELECT {kind}").fetchone()
        binary, = c.cursor(binary=True).execute(f"SELECT {kind}").fetchone()
        want(binary, text, kind)


@feature("doltgresql_2240")
def _():
    assert rows("SELECT n.oid::bigint, n.xmin, n.nspname, d.description, pg_catalog.pg_get_userbyid(n.nspowner) FROM pg_catalog.pg_namespace n"
                " LEFT JOIN pg_catalog.pg_description d ON n.oid = d.objoid ORDER BY CASE WHEN n.nspname = current_schema() THEN -1::bigint ELSE n.oid::bigint END")


@feature("risingwave_7915")
def _():
    rows("SELECT contoencoding, pg_encoding_to_char(contoencoding) FROM pg_conversion GROUP BY contoencoding ORDER BY 1")


@feature("risingwave_8087")
def _():
    statements = ["SELECT 1", "SHOW search_path", "EXPLAIN SELECT 1", "VALUES (1)", "TABLE t"]
    with Raw() as raw:
        for sql in statements + ([] if REFERENCE else ["SHOW JOBS", "SHOW TABLES"]):
            raw.send(raw.query(sql))
            kinds = raw.until_ready()
            want((kinds[0], kinds.count("T")), ("T", 1), sql)


@feature("risingwave_7556")
def _():
    for name in ("standard_conforming_strings", "server_version", "server_encoding", "client_encoding", "DateStyle", "TimeZone", "integer_datetimes"):
        want(rows(f"SHOW {name}"), [(c.info.parameter_status(name),)], name)


@feature("risingwave_10459")
def _():
    for setting in ("client_min_messages = warning", "client_encoding = 'UTF8'", "extra_float_digits = 3", "TimeZone = 'UTC'"):
        c.execute(f"SET {setting}")
    c.execute("RESET ALL")


@feature("risingwave_21777")
def _():
    c.execute("PREPARE p (int) AS SELECT $1 + 1::int")
    want(rows("EXECUTE p (1)"), [(2,)])
    want(state("PREPARE p AS SELECT 1"), "42P05")
    c.execute("DEALLOCATE p")
    want(state("EXECUTE p (1)"), "26000")


@feature("risingwave_22626")
def _():
    for key in (None, 12345):
        with Raw() as raw, socket.create_connection((HOST, int(PORT)), 10) as other:
            other.sendall(struct.pack(">iiii", 16, 80877102, raw.process, raw.key if key is None else key))
            want(other.recv(10), b"")


@feature("dbeaver_23028")
def _():
    for kind in ("ARRAY['a', NULL, 'b,c']::text[]", "ARRAY[1, NULL]::int[]", "ARRAY[0.5]::float4[]", "ARRAY[]::text[]", "ARRAY[ARRAY[1, 2], ARRAY[3, 4]]::int[]"):
        text, = c.cursor(binary=False).execute(f"SELECT {kind}").fetchone()
        binary, = c.cursor(binary=True).execute(f"SELECT {kind}").fetchone()
        want(binary, text, kind)


@feature("dbeaver_6576")
def _():
    assert rows("SELECT t.oid, t.*, pg_tablespace_location(t.oid) loc FROM pg_catalog.pg_tablespace t ORDER BY t.oid")


@feature("greptimedb_5271")
def _():
    assert rows("SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datname = %s", DATABASE)


@feature("greptimedb_2795")
def _():
    c.execute('CREATE TABLE "MixedCase" ("Id" bigint, "userName" text)')
    with Raw() as raw:
        raw.send(raw.parse("s", 'SELECT * FROM "MixedCase" WHERE "userName" = $1'), raw.describe("S", "s"), raw.sync())
        want(raw.until_ready(), list("1tTZ"))


@feature("crate_7521")
def _():
    cursor = c.cursor(binary=True)
    want(cursor.execute("SELECT timestamp '1969-12-31 23:59:59.999999', timestamp '1900-01-01 00:00:00'").fetchone(),
         (dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1900, 1, 1)))


@feature("cockroach_16393")
def _():
    try:
        with c.cursor().copy("COPY t (id, body) FROM STDIN") as copy:
            copy.write("x\ty\n")
    except psycopg.Error:
        pass
    want(rows("SELECT 1::int"), [(1,)])


@feature("cockroach_41412")
def _():
    with psycopg.connect() as other:
        other.execute("DECLARE c NO SCROLL CURSOR WITHOUT HOLD FOR SELECT id FROM t ORDER BY id")
        want(len(rows("FETCH 2 FROM c", connection=other)), 2)
        want(state("FETCH BACKWARD 1 FROM c", other), "55000")


@feature("crate_10212")
def _():
    with psycopg.connect() as other:
        other.execute('DECLARE "held" CURSOR WITH HOLD FOR SELECT g FROM generate_series(1, 7) AS s(g)')
        other.commit()
        want([row[0] for row in rows('FETCH 2 IN "held"', connection=other)], [1, 2])
        want(len(rows('FETCH FORWARD ALL FROM "held"', connection=other)), 5)
        other.execute('CLOSE "held"')


@feature("cube_9119")
def _():
    words, = rows("SELECT string_agg(word, ',') FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{select,from}'::text[])")[0]
    assert "where" in words.split(",") and "select" not in words.split(",")


@feature("cube_10013")
def _():
    with Raw() as raw:
        for _ in range(2):
            raw.send(raw.close("S", "p1"), raw.parse("p1", "SELECT body FROM t WHERE id = $1"), raw.bind("", "p1", [b"1"]), raw.describe("P", ""), raw.execute(""), raw.sync())
            want(raw.until_ready(), list("312TDCZ"))


@feature("materialize_9531")
def _():
    assert rows("SELECT pid, usename, state, query FROM pg_stat_activity WHERE pid = pg_backend_pid()")


@feature("materialize_9719")
def _():
    rows("SELECT source FROM pg_settings LIMIT 1")
    rows("SELECT pg_my_temp_schema()")


@feature("materialize_14671")
def _():
    c.execute("CREATE TABLE model AS SELECT 1 AS a")
    assert state("CREATE TABLE model__dbt_tmp AS SELECT 1/0 AS a") == "22012"
    want(len(rows("SELECT * FROM model")), 1)
    want(rows("SELECT 1 FROM information_schema.tables WHERE table_name = 'model__dbt_tmp'"), [])


@feature("arcadedb_7180")
def _():
    with c.cursor().copy("COPY (SELECT 7::int8, 'x'::text, NULL::int4, 1.5::numeric(10,2), ARRAY[0.5]::float4[]) TO STDOUT (FORMAT binary)") as copy:
        data = b"".join(copy)
    assert data.startswith(b"PGCOPY\n\xff\r\n\0" + bytes(8)) and data.endswith(b"\xff\xff"), data


@feature("arcadedb_6458")
def _():
    with Raw() as raw:
        raw.send(raw.query("BEGIN"))
        raw.until_ready()
        raw.send(raw.parse("", "SELECT g FROM generate_series(1, 5) AS s(g)"), raw.bind("p", "", []), raw.execute("p", 2), raw.execute("p", 2), raw.execute("p", 2), raw.sync())
        want(raw.until_ready(), list("12DDsDDsDCZ"))


@feature("arcadedb_7851")
def _():
    with Raw() as raw:
        raw.send(raw.query("BEGIN"))
        raw.until_ready()
        raw.send(raw.parse("", "SELECT nothing"), raw.sync())
        raw.until_ready()
        want(raw.status, "E")
        raw.send(raw.query("SELECT 1"))
        raw.until_ready()
        want(raw.error["C"], "25P02")
        raw.send(raw.query("ROLLBACK"))
        raw.until_ready()
        want(raw.status, "I")


@feature("arcadedb_4202")
def _():
    with Raw() as raw:
        raw.send(raw.parse("", "SELECT v FROM t WHERE id = 1"), raw.bind("", "", [], result_format=1), raw.describe("P", ""), raw.execute(""), raw.sync())
        raw.until_ready()
        want((raw.formats(), raw.rows[0][0][:12]), ([1], struct.pack(">iii", 1, 0, 700)))


@feature("arcadedb_668")
def _():
    async def fetch():
        connection = await asyncpg.connect()
        try:
            return await connection.fetchval("SELECT count(*) FROM t")
        finally:
            await connection.close()

    want(asyncio.run(fetch()) > 0, True)


@feature("arcadedb_1793")
def _():
    for sent in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\x7f\xff\xff\xff\0\0\0\0", struct.pack(">ii", 8, 80877103), b"\0\0"):
        with socket.create_connection((HOST, int(PORT)), 10) as other:
            other.sendall(sent)
    want(rows("SELECT 1::int"), [(1,)])


@feature("h2database_2901")
def _():
    with Raw() as raw:
        raw.send(raw.query("BEGIN"))
        raw.until_ready()
        raw.send(raw.parse("", "SELECT g FROM generate_series(1, 3) AS s(g)"), raw.bind("p", "", []), raw.execute("p", 2), raw.sync())
        raw.until_ready()
        raw.send(raw.execute("p", 2), raw.sync())
        raw.until_ready()
        want([int(row[0]) for row in raw.rows], [1, 2, 3])


@feature("redshift_jdbc_9")
def _():
    with Raw() as raw:
        raw.send(raw.parse("", "SELECT relname FROM pg_class"), raw.bind("p", "", []), raw.execute("p", 5), raw.sync())
        want(raw.until_ready()[-2:], ["s", "Z"])


@feature("shardingsphere_10898")
def _():
    with psycopg.connect() as other:
        other.execute("DECLARE big CURSOR FOR SELECT a.g FROM generate_series(1, 10000000) AS a(g)")
        began = time.monotonic()
        want(len(rows("FETCH 200 FROM big", connection=other)), 200)
        assert time.monotonic() - began < 20


@feature("npgsql_5805")
def _():
    queries = [
        "SELECT version();",
        "SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid FROM (SELECT typ.oid, typ.typnamespace, typ.typname, typ.typtype, typ.typrelid,"
        " typ.typnotnull, typ.relkind, elemtyp.oid AS elemtypoid, elemtyp.typname AS elemtypname FROM (SELECT typ.oid, typnamespace, typname, typrelid, typnotnull, relkind,"
        " typelem AS elemoid, CASE WHEN proc.proname = 'array_recv' THEN 'a' ELSE typ.typtype END AS typtype FROM pg_type AS typ LEFT JOIN pg_class AS cls"
        " ON (cls.oid = typ.typrelid) LEFT JOIN pg_proc AS proc ON proc.oid = typ.typreceive) AS typ LEFT JOIN pg_type AS elemtyp ON elemtyp.oid = typ.elemoid) AS t"
        " JOIN pg_namespace AS ns ON (ns.oid = t.typnamespace) WHERE t.typtype IN ('b', 'r', 'm', 'e', 'd') ORDER BY t.oid;",
        "SELECT typ.oid, att.attname, att.atttypid FROM pg_type AS typ JOIN pg_namespace AS ns ON (ns.oid = typ.typnamespace) JOIN pg_class AS cls"
        " ON (cls.oid = typ.typrelid) JOIN pg_attribute AS att ON (att.attrelid = typ.typrelid) WHERE typ.typtype = 'c' AND cls.relkind = 'c' ORDER BY typ.oid, att.attnum;",
        "SELECT pg_type.oid, enumlabel FROM pg_enum JOIN pg_type ON pg_type.oid = enumtypid ORDER BY oid, enumsortorder;",
    ]
    with Raw() as raw:
        raw.send(*(raw.query(sql) for sql in queries))
        for sql in queries:
            assert "E" not in raw.until_ready(), (sql[:40], raw.error)


@feature("npgsql_5529")
def _():
    with Raw() as raw:
        for sql, expected in (("SELECT 1;", "TDCZ"), (";;", "IZ"), ("", "IZ"), ("-- a comment", "IZ")):
            raw.send(raw.query(sql))
            want(raw.until_ready(), list(expected), sql)


@feature("questdb_1590")
def _():
    with Raw() as raw:
        raw.send(raw.query("SET search_path = \"public\"; SET NAMES 'UTF8';"))
        want(raw.until_ready(), list("CCZ") if "S" not in raw.kinds else raw.kinds)
        assert "E" not in raw.kinds, raw.error
    rows("SELECT sequence_name FROM information_schema.sequences")


@feature("grafana_51611")
def _():
    for column in ("at", "atz"):
        rows(f"SELECT id FROM t WHERE {column} BETWEEN '2021-05-06T06:34:38.08965998Z' AND '2031-05-06T07:34:38.08965998Z'")
    want(len(rows("SELECT id FROM t WHERE atz BETWEEN '2021-05-06T06:34:38.08965998Z' AND '2031-05-06T07:34:38.08965998Z'")), 1)


@feature("duckgres_718")
def _():
    with Raw() as raw:
        def group(sql):
            return [raw.parse("", sql), raw.bind("", "", []), raw.execute("")]

        raw.send(*group("INSERT INTO t (id) VALUES (901)"), *group("SELECT 1/0"), *group("INSERT INTO t (id) VALUES (902)"), raw.sync())
        kinds = raw.until_ready()
        want((kinds.count("E"), kinds[-1]), (1, "Z"))
    want(rows("SELECT count(*) FROM t WHERE id = 902"), [(0,)])


@feature("psql_wire_129")
def _():
    with Raw() as raw:
        for sql in ("SELECT 1", "SELECT nothing", "SELECT 2"):
            raw.send(raw.parse("", sql), raw.bind("", "", []), raw.describe("P", ""), raw.execute(""))
        raw.send(raw.sync())
        want(raw.until_ready(), list("12TDCEZ"))
        want(raw.pending(0.3), b"")


@feature("pgdog_578")
def _():
    for asked in (3 << 16, (3 << 16) + 2, (3 << 16) + 9999):
        with Raw(protocol=asked) as raw:
            raw.send(raw.query("SELECT 1"))
            want(raw.until_ready(), list("TDCZ"))


@feature("teleport_68711")
def _():
    with Raw() as raw:
        want(raw.key_length, 4)
    if not REFERENCE:
        with Raw(protocol=(3 << 16) + 2) as raw:
            assert 4 <= raw.key_length <= 256, raw.key_length


@feature("xtdb_6079")
def _():
    with Raw() as raw:
        raw.send(raw.query("COPY t (id, body) FROM STDIN"))
        raw.send(raw.message("d", b"x\ty\n"), raw.message("d", b"1\ty\n"), raw.message("c", b""), raw.message("f", b"late\0"))
        kinds = raw.until_ready()
        want((kinds[0], kinds.count("E"), kinds[-1]), ("G", 1, "Z"))
        raw.send(raw.query("SELECT 1"))
        want(raw.until_ready(), list("TDCZ"))


@feature("xtdb_4060")
def _():
    with psycopg.connect(autocommit=True, options="-c statement_timeout=200ms") as other:
        want(state("SELECT pg_sleep(5)", other), "57014")
        with other.transaction():
            other.execute("SET LOCAL statement_timeout = '10s'")
            other.execute("SELECT pg_sleep(0.4)")
        want(rows("SHOW statement_timeout", connection=other), [("200ms",)])


@feature("pgadapter_617")
def _():
    for sql in ("COPY t (id, body) FROM STDIN", "COPY t (id, body) FROM STDIN (FORMAT csv, HEADER)"):
        with c.cursor() as cursor:
            with cursor.copy(sql) as copy:
                if "HEADER" in sql:
                    copy.write("id,body\n")
            want(cursor.rowcount, 0)


@feature("duckgres_138")
def _():
    c.execute("CREATE TABLE csv (a text, b text, c text)")
    with c.cursor().copy("COPY csv FROM STDIN (FORMAT csv)") as copy:
        copy.write('"a ""quoted"" field","two\nlines",\n')
    with c.cursor().copy("COPY csv FROM STDIN (FORMAT csv, DELIMITER ';', QUOTE '|', ESCAPE '\\', NULL 'nil', FORCE_NULL (b))") as copy:
        copy.write("|x\\|y|;|nil|;nil\n")
    want(rows("SELECT * FROM csv ORDER BY a"), [('a "quoted" field', "two\nlines", None), ("x|y", None, None)])


@feature("pgadapter_691")
def _():
    cursor = c.execute("SELECT ARRAY[at], ARRAY[atz] FROM t LIMIT 0")
    want([column.type_code for column in cursor.description], [1115, 1185])


@feature("sqld_126")
def _():
    with Raw() as raw:
        missing = {"server_version", "server_encoding", "client_encoding", "DateStyle", "integer_datetimes", "standard_conforming_strings", "TimeZone",
                   "IntervalStyle", "is_superuser", "session_authorization", "application_name", "default_transaction_read_only", "in_hot_standby"} - set(raw.parameters)
        want(missing, set())


@feature("myduckserver_340")
def _():
    with Raw() as raw:
        raw.send(raw.query("SET DateStyle=ISO; SET client_min_messages=notice; SELECT set_config('bytea_output','hex',false); SET client_encoding='utf8';"))
        assert "E" not in raw.until_ready(), raw.error
    rows("SELECT dattablespace, 'pg_class'::regclass::oid FROM pg_database")


@feature("tableplus_794")
def _():
    rows("SELECT prokind FROM pg_proc LIMIT 1")


@feature("ts_sql_plugin_6")
def _():
    with socket.create_connection((HOST, int(PORT)), 10) as other:
        other.sendall(struct.pack(">ii", 8, 80877104))
        answer = other.recv(1)
        if REFERENCE and answer == b"G":
            return
        want(answer, b"N")
        other.sendall(struct.pack(">ii", 8, 80877103))
        want(other.recv(1) in (b"N", b"S"), True)


@feature("dbt_risingwave_56")
def _():
    c.execute("CREATE VIEW kind AS SELECT 1::int AS a")
    want((state("DROP TABLE kind"), state("DROP VIEW t")), ("42809", "42809"))
    want(rows("SELECT tablename FROM pg_tables WHERE tablename IN (SELECT viewname FROM pg_views) AND schemaname = 'public'"), [])


@feature("gel_4814")
def _():
    rows("WITH relation AS (SELECT pg_rewrite.ev_class AS class, pg_rewrite.oid AS id FROM pg_rewrite),"
         " class AS (SELECT oid AS id, relname AS name, relnamespace AS schema, relkind AS kind FROM pg_class),"
         " dependency AS (SELECT DISTINCT pg_depend.objid AS id, pg_depend.refobjid AS ref FROM pg_depend),"
         " schema AS (SELECT pg_namespace.oid AS id, pg_namespace.nspname AS name FROM pg_namespace WHERE nspname != 'information_schema' AND nspname NOT LIKE 'pg\\_%%'),"
         " referenced AS (SELECT relation.id AS id, referenced_class.name, referenced_class.schema, referenced_class.kind FROM relation"
         " JOIN class AS referenced_class ON relation.class = referenced_class.id WHERE referenced_class.kind IN ('r', 'v', 'm')),"
         " relationships AS (SELECT referenced.name AS referenced_name, referenced.schema AS referenced_schema_id, dependent_class.name AS dependent_name"
         " FROM referenced JOIN dependency ON referenced.id = dependency.id JOIN class AS dependent_class ON dependency.ref = dependent_class.id"
         " WHERE referenced.name != dependent_class.name OR referenced.schema != dependent_class.schema)"
         " SELECT referenced_schema.name, relationships.referenced_name, relationships.dependent_name FROM relationships"
         " JOIN schema AS referenced_schema ON relationships.referenced_schema_id = referenced_schema.id GROUP BY 1, 2, 3 ORDER BY 1")


@feature("pg_duckdb_1062")
def _():
    want(rows("SELECT body FROM t WHERE id = %s + 1", 0), [("a",)])
    want(len(rows("SELECT body FROM t ORDER BY id LIMIT %s", 1)), 1)
    rows("SELECT date_trunc(%s, at) FROM t", "day")


@feature("lance_3424")
def _():
    c.execute('CREATE TABLE capitals ("userId" bigint, "a-b" bigint, "select" text)')
    c.execute("""INSERT INTO capitals ("userId", "a-b", "select") VALUES (1, 2, 'x'), (3, 4, 'y')""")
    c.execute("""UPDATE capitals SET "a-b" = 9, "select" = 'z' WHERE "userId" = 1""")
    want(rows("""SELECT "a-b", "select" FROM capitals WHERE "userId" = 1"""), [(9, "z")])
    c.execute("""DELETE FROM capitals WHERE "a-b" = 4""")
    want(rows("SELECT count(*) FROM capitals"), [(1,)])
    want(state("SELECT userId FROM capitals"), "42703")


@feature("lancedb_2764")
def _():
    c.execute('CREATE TABLE merged ("aAAAa" bigint, b text)')
    c.execute("""INSERT INTO merged VALUES (1, 'old')""")
    c.execute("""MERGE INTO merged AS m USING (SELECT 1::bigint AS k, 'new' AS v) AS s ON m."aAAAa" = s.k WHEN MATCHED THEN UPDATE SET b = s.v
                 WHEN NOT MATCHED THEN INSERT ("aAAAa", b) VALUES (s.k, s.v)""")
    want(rows("SELECT b FROM merged"), [("new",)])


@feature("lance_1635")
def _():
    for condition in ("", " WHERE true", " WHERE a IS NOT NULL"):
        c.execute("CREATE TABLE emptied (a bigint NOT NULL)")
        c.execute("INSERT INTO emptied VALUES (1), (2)")
        want(c.execute("DELETE FROM emptied" + condition).rowcount, 2, condition)
        c.execute("DROP TABLE emptied")


@feature("sail_2321")
def _():
    c.execute("CREATE TABLE nulls (id bigint)")
    c.execute("INSERT INTO nulls VALUES (1), (3), (NULL)")
    want(c.execute("DELETE FROM nulls WHERE id > 2").rowcount, 1)
    want(rows("SELECT count(*) FROM nulls"), [(2,)])


@feature("datafusion_9162")
def _():
    c.execute("CREATE TABLE g (a bigint)")
    c.execute("INSERT INTO g VALUES (1), (2), (3)")
    want(len(rows('SELECT 0 AS "g.a" FROM g GROUP BY g.a')), 3)


@feature("datafusion_6140")
def _():
    want(rows("SELECT g.a, (SELECT x.a FROM g x WHERE x.a <= g.a ORDER BY x.a DESC LIMIT 1) FROM g ORDER BY 1"), [(1, 1), (2, 2), (3, 3)])


@feature("datafusion_11773")
def _():
    want(rows("SELECT id, EXISTS (SELECT 1 FROM unnest(v) AS x (e) WHERE e > 0.7) FROM t WHERE id = 1"), [(1, True)])


@feature("datafusion_23022")
def _():
    want(rows("SELECT EXISTS (SELECT 1 FROM t), EXISTS (SELECT 1 FROM t WHERE id = 99999)"), [(True, False)])
    want(rows("SELECT a, EXISTS (SELECT 1 FROM g x WHERE x.a = g.a + 1) FROM g ORDER BY 1"), [(1, True), (2, True), (3, False)])


@feature("datafusion_15032")
def _():
    want(rows("SELECT a, (SELECT CASE WHEN count(*) = 0 THEN 'none' ELSE 'some' END FROM g x WHERE x.a = g.a + 2) FROM g ORDER BY 1"),
         [(1, "some"), (2, "none"), (3, "none")])


@feature("datafusion_25164")
def _():
    with psycopg.connect(autocommit=True) as other:
        other.execute("SET TimeZone = 'America/New_York'")
        want(rows("SELECT timestamptz '2024-07-01 12:00:00+00'::text, extract(epoch FROM timestamptz '2024-07-01 00:00:00+00')::bigint,"
                  " date_trunc('day', timestamptz '2024-07-01 02:00:00+00')::text, (timestamp '2024-07-01 12:00:00' AT TIME ZONE 'UTC')::text",
                  connection=other),
             [("2024-07-01 08:00:00-04", 1719792000, "2024-06-30 00:00:00-04", "2024-07-01 08:00:00-04")])


@feature("pgdog_574")
def _():
    with Raw() as raw:
        raw.send(raw.parse("", "SELECT body FROM t WHERE id = $1"), raw.sync())
        raw.until_ready()
        raw.send(raw.bind("", "", [b"1"]), raw.execute(""), raw.sync())
        want(raw.until_ready(), list("2DCZ"))
    connection = pg8000.native.Connection(USER, host=HOST, port=int(PORT), password=PASSWORD, database=DATABASE)
    want(connection.run("SELECT body FROM t WHERE id = :id", id=1), [["a"]])
    connection.close()
