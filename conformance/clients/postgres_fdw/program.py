"""postgres_fdw: a real PostgreSQL as the client, through cursors, prepared statements and IMPORT FOREIGN SCHEMA."""

import os
import subprocess

from conformance import DATABASE, HOST, PASSWORD, PORT, USER, feature, product, version, want

BIN = os.environ["POSTGRES_BIN"]


def psql(sql, port=os.environ["POSTGRES_PORT"]):
    command = [f"{BIN}/psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql]
    done = subprocess.run(command, env={**os.environ, "PGPORT": port}, capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise AssertionError(done.stderr.strip())
    return done.stdout.splitlines()


def there(sql):
    return psql(sql, PORT)


version(psql("SHOW server_version")[0].split()[0])
there("CREATE TABLE docs (id bigint, body text, x double precision, at timestamp, n numeric(10,2), yes boolean)")
there("INSERT INTO docs VALUES (1, 'lance', 0.5, '2024-01-02 03:04:05', 1.25, true), (2, NULL, NULL, NULL, NULL, NULL)")


@feature("connect")
def _():
    psql("CREATE EXTENSION postgres_fdw")
    psql(f"CREATE SERVER there FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{HOST}', port '{PORT}', dbname '{DATABASE}')")
    psql(f"CREATE USER MAPPING FOR {USER} SERVER there OPTIONS (user '{USER}', password '{PASSWORD}')")
    psql("CREATE FOREIGN TABLE docs (id bigint, body text, x float8, at timestamp, n numeric(10,2), yes boolean) SERVER there")
    want(psql("SELECT count(*) FROM docs"), ["2"])


@feature("types_out")
def _():
    want(psql("SELECT * FROM docs ORDER BY id"), ["1|lance|0.5|2024-01-02 03:04:05|1.25|t", "2|||||"])


@feature("introspect")
def _():
    psql("CREATE SCHEMA imported; IMPORT FOREIGN SCHEMA public FROM SERVER there INTO imported")
    want(psql("SELECT attname FROM pg_attribute WHERE attrelid = 'imported.docs'::regclass AND attnum > 0"),
         ["id", "body", "x", "at", "n", "yes"])


@feature("pushdown")
def _():
    want(psql("SELECT body FROM docs WHERE id = 1 AND x > 0.1 AND body LIKE 'la%' ORDER BY at LIMIT 1"), ["lance"])
    want(psql("SELECT sum(id), max(body) FROM docs GROUP BY yes HAVING count(*) > 0 ORDER BY 1"), ["1|lance", "2|"])


@feature("join")
def _():
    want(psql("SELECT a.id FROM docs a JOIN docs b ON a.id = b.id WHERE a.yes"), ["1"])


@feature("insert")
def _():
    psql("INSERT INTO docs SELECT g, 'row', g, NULL, NULL, NULL FROM generate_series(3, 7) g")
    want(there("SELECT count(*) FROM docs"), ["7"])


@feature("update_delete")
def _():
    psql("UPDATE docs SET body = 'new' WHERE id = 3")
    psql("DELETE FROM docs WHERE id = 4")
    want(there("SELECT body FROM docs WHERE id IN (3, 4)"), ["new"])


@feature("transaction")
def _():
    want(psql("BEGIN; SELECT count(*) FROM docs WHERE id < 3; SAVEPOINT a; SELECT count(*) FROM docs WHERE id = 1; COMMIT"), ["2", "1"])


@feature("error")
def _():
    psql("CREATE FOREIGN TABLE missing (a int) SERVER there OPTIONS (table_name 'missing')")
    try:
        psql("SELECT * FROM missing")
        raise ValueError("no error")
    except AssertionError as error:
        assert "does not exist" in str(error), error
    want(psql("SELECT count(*) FROM docs WHERE id = 1"), ["1"])


@feature("dblink")
def _():
    psql("CREATE EXTENSION dblink")
    where = f"host={HOST} port={PORT} dbname={DATABASE} user={USER} password=''{PASSWORD}''".replace("''", "\\'")
    where = where.replace("\\'", "''")
    want(psql(f"SELECT * FROM dblink('{where}', 'SELECT 1::int8, ''x''::text') AS t (a bigint, b text)"), ["1|x"])


@feature("computed")
def _():
    product()
    there("ALTER TABLE docs ADD COLUMN len AS length(body)")
    there("REFRESH COLUMN len ON docs WAIT")
    psql("ALTER FOREIGN TABLE docs ADD COLUMN len integer")
    want(psql("SELECT len FROM docs WHERE id = 1"), ["5"])


@feature("jobs")
def _():
    product()
    psql("CREATE FOREIGN TABLE jobs (job_id text, state text) SERVER there OPTIONS (schema_name 'public', table_name 'job_list')")
    there("CREATE VIEW job_list AS SELECT job_id, state FROM system.public.jobs")
    want(psql("SELECT state FROM jobs"), ["succeeded"])
