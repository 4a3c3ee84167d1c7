"""connectorx: what its four protocols read."""

from urllib.parse import quote

import connectorx as cx
import psycopg

from conformance import DATABASE, HOST, PASSWORD, PORT, USER, feature, product, version, want

version(cx.__version__)
uri = f"postgresql://{USER}:{quote(PASSWORD)}@{HOST}:{PORT}/{DATABASE}"
c = psycopg.connect(autocommit=True)
c.execute("CREATE TABLE docs (id bigint, body text, x double precision, at timestamp, yes boolean)")
c.execute("INSERT INTO docs SELECT g, 'row', 0.5, '2024-01-02'::timestamp, true FROM generate_series(1, 1000) AS s(g)")


def read(sql, **options):
    return cx.read_sql(uri, sql, return_type="arrow", **options)


@feature("connect")
def _():
    want(read("SELECT 1 AS one").to_pydict(), {"one": [1]})


@feature("types_out")
def _():
    got = read("SELECT * FROM docs WHERE id = 7")
    want([str(column[0]) for column in got.columns], ["7", "row", "0.5", "2024-01-02 00:00:00", "True"])


@feature("protocols")
def _():
    for protocol in ("binary", "csv", "cursor", "simple"):
        want(read("SELECT id, body FROM docs", protocol=protocol).num_rows, 1000, protocol)


@feature("partition")
def _():
    want(read("SELECT id, body FROM docs", partition_on="id", partition_num=3).num_rows, 1000)


@feature("stream")
def _():
    want(read("SELECT generate_series AS g FROM generate_series(1, 100000)").num_rows, 100000)


@feature("computed")
def _():
    product()
    c.execute("ALTER TABLE docs ADD COLUMN n AS length(body)")
    c.execute("REFRESH COLUMN n ON docs WAIT")
    want(read("SELECT sum(n) AS n FROM docs").to_pydict(), {"n": [3000]})


@feature("jobs")
def _():
    product()
    want(read("SELECT state FROM system.public.jobs").to_pydict(), {"state": ["succeeded"]})
