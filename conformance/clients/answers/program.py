"""Statements of which it is known what PostgreSQL answers, sent to the gateway and to a PostgreSQL beside it.

Compared are the command tag or the SQLSTATE, the position in the text, and the SQLSTATEs of notices. Each script runs
on a connection of its own, after SETUP. `…` separates what is sent by itself.
"""

import os

import psycopg
from psycopg import pq

from conformance import PASSWORD, USER, feature, version, want

SETUP = "CREATE TABLE t (id bigint NOT NULL, body text); CREATE VIEW v AS SELECT id FROM t; CREATE TABLE other (id bigint)"
SCRIPTS = {
    "misspelt_keyword": "SELEC 1",
    "misspelt_later": "SELECT 1 FORM t",
    "unfinished": "SELECT (1",
    "unknown_column": "SELECT 1, nothing FROM t",
    "unknown_column_qualified": "SELECT t.nothing FROM t",
    "unknown_relation": "SELECT * FROM nothing",
    "unknown_schema": "SELECT * FROM nothing.t",
    "unknown_function": "SELECT nothing(1)",
    "unknown_type": "SELECT 'x'::nothing",
    "unknown_column_insert": "INSERT INTO t (nothing) VALUES (1)",
    "unknown_column_update": "UPDATE t SET nothing = 1",
    "ambiguous_column": "SELECT id FROM t, other",
    "group_by_missing": "SELECT id, count(*) FROM t",
    "aggregate_in_where": "SELECT 1 FROM t WHERE count(*) > 1",
    "division_by_zero": "SELECT 1/0",
    "text_to_int": "SELECT 'x'::int",
    "int_overflow": "SELECT 2147483647::int + 1::int",
    "int_out_of_range": "SELECT 99999999999::int",
    "bad_date": "SELECT '2024-13-01'::date",
    "not_null": "INSERT INTO t VALUES (NULL, 'x')",
    "too_many_values": "INSERT INTO other VALUES (1, 2)",
    "scalar_subquery_of_two": "INSERT INTO t VALUES (1, 'a'), (2, 'b') … SELECT (SELECT id FROM t)",
    "failed_block": "BEGIN … SELECT 1/0 … SELECT 1 … COMMIT",
    "failed_block_savepoint": "BEGIN … SAVEPOINT a … SELECT 1/0 … ROLLBACK TO a … SELECT 1 … COMMIT",
    "commit_outside": "COMMIT",
    "rollback_outside": "ROLLBACK",
    "begin_inside": "BEGIN … BEGIN … ROLLBACK",
    "savepoint_outside": "SAVEPOINT a",
    "declare_outside": "DECLARE c CURSOR FOR SELECT 1",
    "set_transaction_outside": "SET TRANSACTION READ ONLY",
    "rollback_to_unknown": "BEGIN … ROLLBACK TO nothing … ROLLBACK",
    "release_unknown": "BEGIN … RELEASE nothing … ROLLBACK",
    "fetch_unknown": "BEGIN … FETCH nothing … ROLLBACK",
    "close_unknown": "CLOSE nothing",
    "cursor": "BEGIN … DECLARE c CURSOR FOR SELECT 1 … FETCH 2 FROM c … MOVE c … CLOSE c … COMMIT",
    "cursor_twice": "BEGIN … DECLARE c CURSOR FOR SELECT 1 … DECLARE c CURSOR FOR SELECT 1 … ROLLBACK",
    "cursor_backward": "BEGIN … DECLARE c NO SCROLL CURSOR FOR SELECT 1 … FETCH 1 FROM c … FETCH BACKWARD 1 FROM c … ROLLBACK",
    "deallocate_unknown": "DEALLOCATE nothing",
    "execute_unknown": "EXECUTE nothing",
    "prepare": "PREPARE p(int) AS SELECT $1 + 1 … EXECUTE p(1) … DEALLOCATE p … DEALLOCATE ALL",
    "prepare_twice": "PREPARE p AS SELECT 1 … PREPARE p AS SELECT 1",
    "execute_arity": "PREPARE p(int) AS SELECT $1 … EXECUTE p",
    "set_unknown": "SET nothing = 1",
    "show_unknown": "SHOW nothing",
    "set_dotted": "SET my.own = 'x' … SHOW my.own … RESET my.own",
    "set_bad_encoding": "SET client_encoding = 'nothing'",
    "set_bad_datestyle": "SET datestyle = 'nothing'",
    "set_bad_timezone": "SET timezone = 'Nowhere/Nothing'",
    "set_local_outside": "SET LOCAL application_name = 'x'",
    "discard": "DISCARD ALL … DISCARD PLANS … DISCARD TEMP … DISCARD SEQUENCES",
    "discard_inside": "BEGIN … DISCARD ALL … ROLLBACK",
    "vacuum_inside": "BEGIN … VACUUM … ROLLBACK",
    "unlisten": "UNLISTEN *",
    "table_exists": "CREATE TABLE t (id bigint) … CREATE TABLE IF NOT EXISTS t (id bigint)",
    "drop_missing": "DROP TABLE nothing … DROP TABLE IF EXISTS nothing … DROP VIEW IF EXISTS nothing",
    "drop_wrong_kind": "DROP VIEW t … DROP TABLE v",
    "schema_exists": "CREATE SCHEMA public",
    "rename_exists": "ALTER TABLE other RENAME TO t",
    "rename_missing": "ALTER TABLE nothing RENAME TO x … ALTER TABLE t RENAME COLUMN nothing TO x",
    "add_column_exists": "ALTER TABLE t ADD COLUMN body text",
    "drop_column_missing": "ALTER TABLE t DROP COLUMN nothing",
    "parameter_simple": "SELECT $1",
    "empty": " ",
    "comment_only": "-- nothing",
    "semicolons": ";;",
    "search_path_missing": "SET search_path = nothing … SELECT current_schema()",
    "explain_bad": "EXPLAIN SELECT nothing FROM t",
    "copy_show": "COPY (SHOW datestyle) TO STDOUT",
    "copy_missing": "COPY nothing TO STDOUT",
    "copy_bad_option": "COPY t TO STDOUT (nothing 1)",
    "tags": "INSERT INTO other VALUES (1), (2) … UPDATE other SET id = 3 WHERE id = 1 … DELETE FROM other … SELECT * FROM other … TRUNCATE other",
    "ddl_tags": "CREATE TABLE a (i int) … CREATE VIEW b AS SELECT 1 AS x … ALTER TABLE a RENAME TO c … DROP VIEW b … DROP TABLE c … CREATE SCHEMA s … DROP SCHEMA s",
    "several": "SELECT 1; SELECT nothing; SELECT 2",
    "several_tags": "BEGIN; SELECT 1; COMMIT",
    "statement_timeout": "SET statement_timeout = '100ms' … SELECT pg_sleep(5)",
    "insert_view": "INSERT INTO v VALUES (1)",
    "create_as": "CREATE TABLE made AS SELECT 1 AS a … DROP TABLE made",
    "like_escape": "SELECT 'a%' LIKE 'a/%' ESCAPE '/'",
    "limit_negative": "SELECT 1 LIMIT -1",
    "union_width": "SELECT 1 UNION SELECT 1, 2",
    "values_width": "VALUES (1), (1, 2)",
    "order_by_position": "SELECT 1 ORDER BY 5",
    "alias_in_where": "SELECT id AS x FROM t WHERE x = 1",
    "cast_error_where": "SELECT 1 FROM t WHERE id = 'x'",
    "json_bad": "SELECT '{'::json",
    "uuid_bad": "SELECT 'x'::uuid",
    "bool_bad": "SELECT 'x'::bool",
    "numeric_bad": "SELECT 'x'::numeric",
    "current_schema": "SELECT current_schema",
    "quoted_case": 'CREATE TABLE "Mixed" ("userId" bigint) … SELECT userId FROM "Mixed" … SELECT "userId" FROM mixed … SELECT "userId" FROM "Mixed"',
}


def answers(script, port):
    """Returns what each part of a script is answered with."""
    connection = pq.PGconn.connect(f"host=127.0.0.1 port={port} user={USER} password='{PASSWORD}' dbname={os.environ['PGDATABASE']}".encode())
    if connection.status != pq.ConnStatus.OK:
        raise AssertionError(connection.error_message.decode())
    notices = []
    connection.notice_handler = lambda result: notices.append(result.error_field(pq.DiagnosticField.SQLSTATE).decode())
    found = []
    for part in script.split(" … "):
        notices.clear()
        connection.send_query(part.encode())
        while (result := connection.get_result()) is not None:
            if result.status == pq.ExecStatus.COPY_OUT:
                while connection.get_copy_data(0)[0] > 0:
                    pass
                continue
            state, position = (result.error_field(field) for field in (
                pq.DiagnosticField.SQLSTATE, pq.DiagnosticField.STATEMENT_POSITION))
            said = " ".join(text.decode() for text in (state, position) if text) if state else (result.command_status or b"").decode()
            found.append(" ".join([said or "empty", *(f"notice {code}" for code in notices)]))
            notices.clear()
    connection.finish()
    return found


def fresh(port):
    """Brings both servers to the same state."""
    with psycopg.connect(port=port, autocommit=True) as connection:
        for schema in ("public", "s"):
            for name, kind in connection.execute(
                "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = %s ORDER BY table_type DESC", [schema]
            ).fetchall():
                kind = "VIEW" if kind == "VIEW" else "TABLE"
                connection.execute(f'DROP {kind} "{schema}"."{name}"')
        for statement in SETUP.split("; "):
            connection.execute(statement)


GATEWAY, POSTGRES = os.environ["PGPORT"], os.environ["POSTGRES_PORT"]
version(psycopg.connect(port=POSTGRES).info.parameter_status("server_version").split()[0])
for name, script in SCRIPTS.items():

    @feature(name)
    def _():
        for port in (GATEWAY, POSTGRES):
            fresh(port)
        want(answers(script, GATEWAY), answers(script, POSTGRES))
