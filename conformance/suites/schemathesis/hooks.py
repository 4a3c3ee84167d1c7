"""What the document cannot say: which objects there are, what rows look like, and how often they are put back.

Schemathesis makes up names, and on names that stand for nothing most routes answer 404 before they do anything. Every
second request of a route gets the name of an object of `objects()`; one that a request has dropped or changed is made
anew before the next. `run` gives the address of the wire in SUITE_DSN and its password in PGPASSWORD.
"""

import collections
import functools
import io
import os
import shlex
import subprocess

import pyarrow as pa
import schemathesis
from hypothesis import strategies
from schemathesis.core.parameters import ParameterLocation

STREAM = "application/vnd.apache.arrow.stream"
# What a route of a kind is about, and how it is made.
KINDS = {
    "table": ("t", "DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS u;"
                   "CREATE TABLE t AS SELECT x, 'word ' || x AS s FROM generate_series(1, 300) AS g(x);"
                   "ALTER TABLE t ADD COLUMN y AS x * 2; CREATE INDEX i ON t (x)"),
    "view": ("v", "DROP VIEW IF EXISTS v; CREATE VIEW v AS SELECT 1 AS x"),
    "materialized_view": ("m", "DROP MATERIALIZED VIEW IF EXISTS m;"
                               "CREATE MATERIALIZED VIEW m AS SELECT 1 AS x WITH NO DATA"),
    "function": ("f", "DROP FUNCTION IF EXISTS f;"
                      "CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS 'def f(x):\n return x'"),
    "secret": ("s", "DROP SECRET IF EXISTS s; CREATE SECRET s TYPE = GENERIC_STRING SECRET_STRING = 'x'"),
    "namespace": ("ns", "DROP SCHEMA IF EXISTS ns; CREATE SCHEMA ns"),
    "admin": (None, "DROP USER IF EXISTS alice; CREATE USER alice PASSWORD 'a long password'"),
}  # fmt: skip
# After these the object is no longer what it was.
CHANGE = {
    "drop", "rename", "create", "delete", "drop_columns", "alter_columns", "add_columns", "restore", "update", "insert",
    "merge_insert", "update_field_metadata", "refresh", "alter", "backfill_column", "create_index", "principal",
}  # fmt: skip

asked = collections.Counter()
stale = set(KINDS)


def kind_of(path):
    return next((part for part in path.split("/") if part in KINDS), "")


@functools.cache
def psql():
    command = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", *shlex.split(os.environ["SUITE_DSN"])]
    environment = {**os.environ, "PGOPTIONS": "-c client_min_messages=warning"}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def make(kind):
    """Makes an object anew."""
    talk = psql()
    talk.stdin.write(f"{KINDS[kind][1]};\n\\echo made\n")
    talk.stdin.flush()
    for line in talk.stdout:
        if line == "made\n":
            return
    raise RuntimeError(f"the {kind} of the suite cannot be made; psql says why")


@schemathesis.hook
def before_call(context, case, kwargs):
    # Whoever waits a millisecond is told so, and nothing else of the route is seen.
    headers = case.headers or {}
    if str(headers.get("x-request-timeout-ms", "")).isdigit() and len(headers["x-request-timeout-ms"]) < 5:
        headers["x-request-timeout-ms"] = "20000"
    # No server refuses a header that it does not know.
    headers.pop("x-schemathesis-unknown-property", None)
    kind = kind_of(case.operation.path)
    if kind not in KINDS or (case.meta and case.meta.is_negative_at(ParameterLocation.PATH)):
        return
    asked[case.operation.label] += 1
    if asked[case.operation.label] % 2 == 0:
        return
    if kind in stale:
        make(kind)
        stale.discard(kind)
    # The objects are in the database that no header names.
    headers.pop("x-lancedb-database", None)
    if "id" in (case.path_parameters or {}):
        case.path_parameters["id"] = KINDS[kind][0]
    if "index" in (case.path_parameters or {}):
        case.path_parameters["index"] = "i"


@schemathesis.hook
def after_call(context, case, response):
    if response.status_code < 300 and CHANGE & set(case.operation.path.split("/")):
        stale.add(kind_of(case.operation.path))


def stream(columns):
    out = io.BytesIO()
    table = pa.table(columns)
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


@schemathesis.serializer(STREAM)
def as_it_is(context, value):
    return {"data": value if isinstance(value, bytes) else str(value).encode()}


@strategies.composite
def streams(draw):
    """Streams of rows that fit `t`, that do not, and that are broken in one place."""
    numbers = draw(strategies.lists(strategies.one_of(strategies.none(), strategies.integers(-(2**63), 2**63 - 1))))
    texts = draw(strategies.lists(strategies.text(), min_size=len(numbers), max_size=len(numbers)))
    columns = {
        "fits": {"x": pa.array(numbers, pa.int64()), "s": pa.array(texts, pa.utf8())},
        "narrow": {"x": pa.array(numbers, pa.int64())},
        "other": {draw(strategies.text(max_size=20)): pa.array(texts, pa.utf8())},
    }
    sent = stream(columns[draw(strategies.sampled_from(sorted(columns)))])
    match draw(strategies.sampled_from(["whole", "cut", "flipped"])):
        case "cut":
            return sent[: draw(strategies.integers(0, len(sent)))]
        case "flipped":
            at = draw(strategies.integers(0, len(sent) - 1))
            return sent[:at] + bytes([sent[at] ^ draw(strategies.integers(1, 255))]) + sent[at + 1 :]
        case _:
            return sent


schemathesis.openapi.media_type(STREAM, streams())
