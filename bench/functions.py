"""Columns that Python Functions fill: overhead over bare Python, failing rows, embeddings."""

import hashlib
import os
import pathlib
import shutil
import statistics
import sys
import time

import lance
import pyarrow as pa
import pyarrow.compute as pc

from gateway import Gateway, timed
from refresh import copy, make, row

ROWS = 1_000_000
BATCH = 8_192
HASH = "import hashlib\ndef f(s): return hashlib.sha256(s.encode()).hexdigest()"
HASH_SOME = (
    "import hashlib\n"
    "def f(id, s):\n"
    " if id % 100 == 7: raise ValueError(f'row {id}')\n"
    " return hashlib.sha256(s.encode()).hexdigest()"
)
DOUBLE = "import pyarrow.compute as pc\ndef f(x): return pc.multiply(x, 2.0)"
WAIT = "import time\ndef f(id):\n time.sleep(0.005)\n return id"
# Deterministic, unit length, never zero.
EMBED = """
import numpy as np
import pyarrow as pa
class f:
    def __init__(self):
        self.weights = np.linspace(0.1, 3.0, 384, dtype=np.float32)
    def __call__(self, id):
        keys = id.to_numpy() % 997 + 1
        if (id.to_numpy() % 100 == 7).any():
            raise ValueError("a poisoned row")
        values = np.sin(np.outer(keys, self.weights)).astype(np.float32)
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 384)
"""


def config(folder):
    path = pathlib.Path(folder) / "functions.toml"
    path.write_text(f'[functions]\npython = "{sys.executable}"\n')
    return path


def declare(client, signature, source, options=""):
    quoted = source.replace("'", "''")
    client.execute(f"CREATE FUNCTION f {signature} LANGUAGE python AS '{quoted}' {options}")


def refresh(client, column, options=""):
    """Returns the seconds of a refresh and the rows it assigned and failed."""
    answer = []
    seconds = timed(lambda: answer.extend(client.execute(f"REFRESH COLUMN {column} ON t {options} WAIT").fetchall()))
    return seconds, answer[0][4], answer[0][5]


def tree_cpu(pid):
    """CPU seconds of a process, of its ended children, and of all below it."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = sum(int(fields[index]) for index in range(11, 15))
    children = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    below = sum(tree_cpu(int(child)) for file in children for child in file.read_text().split())
    return ticks / os.sysconf("SC_CLK_TCK") + below


def bare(table):
    """The work alone: the same rows in batches of the same size, nothing written."""
    for batch in table.to_batches(max_chunksize=BATCH):
        pa.array([hashlib.sha256(text.encode()).hexdigest() for text in batch.column("s").to_pylist()])


def pylance(path):
    @lance.batch_udf(output_schema=pa.schema([("y", pa.string())]))
    def hashes(batch):
        values = [hashlib.sha256(text.encode()).hexdigest() for text in batch.column("s").to_pylist()]
        return pa.record_batch([pa.array(values)], names=["y"])

    lance.dataset(str(path)).add_columns(hashes, read_columns=["s"])


def duck(table):
    """Seconds of an UPDATE by a Python UDF; None without DuckDB."""
    try:
        import duckdb
    except ImportError:
        return None
    connection = duckdb.connect()
    connection.register("source", table)
    connection.execute("CREATE TABLE t AS SELECT id, s, NULL::VARCHAR AS y FROM source")
    digest = lambda text: hashlib.sha256(text.encode()).hexdigest()  # noqa: E731
    connection.create_function("digest", digest, ["VARCHAR"], "VARCHAR")
    return timed(lambda: connection.execute("UPDATE t SET y = digest(s)"))


def scalar(folder, options):
    """sha256 of a text for each row in Python: ours cold and warm beside its peers."""
    source = make(folder, "functions", ROWS, 16)
    table = lance.dataset(str(source)).to_table(columns=["id", "s"])
    figures = {name: [] for name in ["bare", "pylance", "duckdb", "cold", "warm", "cpu"]}
    for _ in range(options.repeat):
        began = time.process_time()
        bare(table)
        figures["bare"].append(time.process_time() - began)
        figures["pylance"].append(timed(lambda: pylance(copy(source, folder, "pylance") / "t.lance")))
        figures["duckdb"].append(duck(table))
        data = copy(source, folder, "function")
        with Gateway(data, config(folder)) as gateway, gateway.connect() as client:
            declare(client, "(s utf8) RETURNS utf8", HASH)
            client.execute("ALTER TABLE t ADD COLUMN y AS f(s)")
            client.execute("ALTER TABLE t ADD COLUMN z AS f(s)")
            figures["cold"].append(refresh(client, "y")[0])
            before = tree_cpu(gateway.process.pid)
            figures["warm"].append(refresh(client, "z")[0])
            figures["cpu"].append(tree_cpu(gateway.process.pid) - before)
            wrong = client.execute("SELECT count(*) FROM t WHERE z IS DISTINCT FROM encode(sha256(s), 'hex')").fetchone()
            assert wrong[0] == 0, f"{wrong[0]} wrong values"
    median = {name: statistics.median(values) for name, values in figures.items() if None not in values}
    yield row("sha256 per row, CPU, warm", "bare Python", median["bare"], median["cpu"], "s", median["cpu"] / median["bare"], "≤ 1.05")
    yield row("sha256 per row, wall, cold", None, None, median["cold"], "s", None, "≤ 2.0")
    yield row("sha256 per row, wall, warm", None, None, median["warm"], "s", None, "≤ 1.2")
    for peer in ["pylance", "duckdb"]:
        if peer in median:
            ratio = median[peer] / median["warm"]
            yield row("sha256 per row, wall, warm", peer, median[peer], median["warm"], "s", ratio, "≥ 1.0")


def vectorized(folder, options):
    """x * 2 on Arrow arrays: what a call costs."""
    source = make(folder, "functions", ROWS, 16)
    rates = []
    for _ in range(options.repeat):
        data = copy(source, folder, "vectorized")
        with Gateway(data, config(folder)) as gateway, gateway.connect() as client:
            declare(client, "(x float64) RETURNS float64", DOUBLE, "WITH (mode = 'vectorized')")
            for column in ["y", "z"]:
                client.execute(f"ALTER TABLE t ADD COLUMN {column} AS f(x)")
            refresh(client, "y")
            rates.append(ROWS / refresh(client, "z")[0] / 1e6)
    yield row("x * 2 vectorized, warm", None, None, statistics.median(rates), "M rows/s", None, "≥ 5")


def failing(folder, options):
    """1 % of the rows raise and are skipped, beside the same Function on clean rows."""
    source = make(folder, "functions", ROWS, 16)
    clean, skipping = [], []
    for _ in range(options.repeat):
        data = copy(source, folder, "failing")
        with Gateway(data, config(folder)) as gateway, gateway.connect() as client:
            declare(client, "(s utf8) RETURNS utf8", HASH)
            client.execute("ALTER TABLE t ADD COLUMN y AS f(s)")
            refresh(client, "y")
            clean.append(refresh(client, "y", "WHERE id >= 0")[0])
            declare(client, "(id int64, s utf8) RETURNS utf8", HASH_SOME)
            client.execute("ALTER TABLE t ADD COLUMN z AS f(id, s)")
            refresh(client, "z", "WHERE id < 100 AND id <> 7")
            seconds, assigned, failed = refresh(client, "z", "WHERE id >= 0 WITH (error_policy = 'skip')")
            assert (assigned, failed) == (ROWS, ROWS // 100), (assigned, failed)
            skipping.append(seconds)
    clean, skipping = statistics.median(clean), statistics.median(skipping)
    yield row("1 % of the rows fail under skip", "clean rows", clean, skipping, "s", skipping / clean, "≤ 1.1")


def embedding(folder, options):
    """A column of 384 floats over 200,000 rows of which 1 % are poisoned."""
    rows = 200_000
    source = make(folder, "embedding", rows, 8)
    times = []
    for _ in range(options.repeat):
        data = copy(source, folder, "embedding")
        with Gateway(data, config(folder)) as gateway, gateway.connect() as client:
            signature = "(id int64) RETURNS fixed_size_list<float32, 384>"
            declare(client, signature, EMBED, "WITH (mode = 'vectorized')")
            client.execute("ALTER TABLE t ADD COLUMN y AS f(id)")
            seconds, assigned, failed = refresh(client, "y", "WITH (error_policy = 'skip')")
            assert (assigned, failed) == (rows, rows // 100), (assigned, failed)
            empty = client.execute("SELECT count(*) FROM t WHERE y IS NULL").fetchone()[0]
            assert empty == rows // 100, f"{empty} rows are NULL"
            times.append(seconds)
    yield row("384 floats per row, 200,000 rows, 1 % poisoned", None, None, statistics.median(times), "s", None, None)
