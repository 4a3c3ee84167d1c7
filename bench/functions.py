"""Columns that Python Functions fill: overhead over bare Python, failing rows, embeddings, waiting.

Peers that are not installed are left out: DuckDB (a Python package), PL/Python (an extension of the server).
"""

import hashlib
import importlib.util
import os
import pathlib
import shutil
import statistics
import sys
import time

import lance
import numpy as np
import pyarrow as pa

from gateway import Gateway, timed
from refresh import copy, make, row
from wire import BIN, Postgres

ROWS = 1_000_000
BATCH = 8_192
HASH = "import hashlib\ndef f(s): return hashlib.sha256(s.encode()).hexdigest()"
# Raises on the rows whose id ends with these two digits: on 1 % of them, or, with digits that none has, on none.
HASH_BUT = """
import hashlib
def f(id, s):
    if id % 100 == {digits}:
        raise ValueError(f"row {{id}}")
    return hashlib.sha256(s.encode()).hexdigest()
"""
DOUBLE = "import pyarrow.compute as pc\ndef f(x): return pc.multiply(x, 2.0)"
WAIT_SECONDS = 0.005
WAIT = f"import time\ndef f(id):\n time.sleep({WAIT_SECONDS})\n return id"
# What makes the same values in PostgreSQL's own Python.
PLPYTHON = "import hashlib\nreturn hashlib.sha256(s.encode()).hexdigest()"
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


def config(folder, more=""):
    path = pathlib.Path(folder) / "functions.toml"
    path.write_text(f'[functions]\npython = "{sys.executable}"\n{more}')
    return path


def rows_of(options):
    """A million, or fewer where the whole run is to be small."""
    return min(ROWS, options.rows)


def declare(client, signature, source, options=""):
    quoted = source.replace("'", "''")
    client.execute(f"CREATE FUNCTION f {signature} LANGUAGE python AS '{quoted}' {options}")


def refresh(client, column, options=""):
    """Returns the seconds of a refresh and the rows it assigned and failed."""
    answer = []
    seconds = timed(lambda: answer.extend(client.execute(f"REFRESH COLUMN {column} ON t {options} WAIT").fetchall()))
    return seconds, answer[0][4], answer[0][5]


def tree_cpu(pid):
    """CPU seconds of a process, of its ended children, and of all below it; and those of Python among them."""
    name, fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)
    own = sum(int(field) for field in fields.split()[11:15]) / os.sysconf("SC_CLK_TCK")
    everything, python = own, own if "(python" in name else 0
    for file in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in file.read_text().split():
            below = tree_cpu(int(child))
            everything, python = everything + below[0], python + below[1]
    return everything, python


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def bare(table):
    """The work alone: the function is called with the same rows in batches of the same size, nothing is read or written."""
    for batch in table.to_batches(max_chunksize=BATCH):
        pa.array([digest(text) for text in batch.column("s").to_pylist()])


def bare_beside(table, processes):
    """CPU seconds of the work alone in as many processes as a refresh has workers, each with its share of the rows.

    Where processors share a core, each is slower while the other is busy, and its seconds count for less work.
    """
    share = -(-table.num_rows // processes)
    ready = os.pipe(), os.pipe()
    children = []
    for index in range(processes):
        answer = os.pipe()
        child = os.fork()
        if child == 0:
            part = table.slice(index * share, share)
            os.write(ready[0][1], b".")
            os.read(ready[1][0], 1)
            began = time.process_time()
            bare(part)
            os.write(answer[1], repr(time.process_time() - began).encode())
            os._exit(0)
        children.append((child, answer))
    for _ in children:
        os.read(ready[0][0], 1)
    os.write(ready[1][1], b"." * processes)
    seconds = 0.0
    for child, answer in children:
        os.waitpid(child, 0)
        seconds += float(os.read(answer[0], 64))
        os.close(answer[0]), os.close(answer[1])
    for end in (*ready[0], *ready[1]):
        os.close(end)
    return seconds


def pylance(path):
    @lance.batch_udf(output_schema=pa.schema([("y", pa.string())]))
    def hashes(batch):
        values = [digest(text) for text in batch.column("s").to_pylist()]
        return pa.record_batch([pa.array(values)], names=["y"])

    lance.dataset(str(path)).add_columns(hashes, read_columns=["s"])


def duck(table):
    """Seconds of an UPDATE by a Python UDF; None without DuckDB."""
    if importlib.util.find_spec("duckdb") is None:
        return None
    import duckdb

    connection = duckdb.connect()
    connection.register("source", table)
    connection.execute("CREATE TABLE t AS SELECT id, s, NULL::VARCHAR AS y FROM source")
    connection.create_function("digest", digest, ["VARCHAR"], "VARCHAR")
    return timed(lambda: connection.execute("UPDATE t SET y = digest(s)"))


def plpython(folder, table):
    """Seconds of an UPDATE by a function in PL/Python; None where the server has no such language."""
    if not BIN or not list(BIN[-1].parents[3].glob("share/postgresql/*/extension/plpython3u.control")):
        return None
    with Postgres(folder) as server, server.connect() as client:
        client.execute("CREATE EXTENSION plpython3u")
        client.execute(f"CREATE FUNCTION digest_of(s text) RETURNS text LANGUAGE plpython3u AS $${PLPYTHON}$$")
        client.execute("CREATE TABLE t (id bigint, s text, y text)")
        with client.cursor().copy("COPY t (id, s) FROM STDIN") as stream:
            for batch in table.to_batches(max_chunksize=BATCH):
                for values in zip(*(column.to_pylist() for column in batch.columns)):
                    stream.write_row(values)
        client.execute("VACUUM ANALYZE t")
        return timed(lambda: client.execute("UPDATE t SET y = digest_of(s)"))


def scalar(folder, options):
    """sha256 of a text for each row in Python: ours cold and warm beside its peers."""
    count = rows_of(options)
    source = make(folder, "functions", count, 16)
    table = lance.dataset(str(source)).to_table(columns=["id", "s"])
    peers = ["pylance", "duckdb", "plpython"]
    figures = {name: [] for name in ["bare", "beside", *peers, "pylance cpu", "cold", "warm", "cpu", "python"]}
    for _ in range(options.repeat):
        began = time.process_time()
        bare(table)
        figures["bare"].append(time.process_time() - began)
        figures["beside"].append(bare_beside(table, 2))
        target = copy(source, folder, "pylance") / "t.lance"
        began = time.process_time()
        figures["pylance"].append(timed(lambda: pylance(target)))
        figures["pylance cpu"].append(time.process_time() - began)
        figures["duckdb"].append(duck(table))
        figures["plpython"].append(plpython(folder, table))
        data = copy(source, folder, "function")
        with Gateway(data, config(folder)) as gateway, gateway.connect() as client:
            declare(client, "(s utf8) RETURNS utf8", HASH)
            client.execute("ALTER TABLE t ADD COLUMN y AS f(s)")
            client.execute("ALTER TABLE t ADD COLUMN z AS f(s)")
            figures["cold"].append(refresh(client, "y")[0])
            before = tree_cpu(gateway.process.pid)
            figures["warm"].append(refresh(client, "z")[0])
            after = tree_cpu(gateway.process.pid)
            figures["cpu"].append(after[0] - before[0])
            figures["python"].append(after[1] - before[1])
            wrong = client.execute("SELECT count(*) FROM t WHERE z IS DISTINCT FROM encode(sha256(s), 'hex')").fetchone()
            assert wrong[0] == 0, f"{wrong[0]} wrong values"
    median = {name: statistics.median(values) for name, values in figures.items() if None not in values}
    names = {"beside": "bare Python, 2 processes", "bare": "bare Python, 1 process", "pylance cpu": "pylance"}
    pairs = [("python", "beside", "≤ 1.05"), ("python", "bare", None), ("cpu", "pylance cpu", "≤ 1.0"), ("cpu", "bare", None)]
    for what, peer, target in pairs:
        label = "of the workers" if what == "python" else "with reading and writing"
        ratio = median[what] / median[peer]
        name = names[peer]
        yield row(f"sha256 per row, CPU {label}, warm", name, median[peer], median[what], "s", ratio, target)
    yield row("sha256 per row, wall, cold", None, None, median["cold"], "s", None, "≤ 2.0")
    yield row("sha256 per row, wall, warm", None, None, median["warm"], "s", None, "≤ 1.2")
    for peer in peers:
        if peer in median:
            ratio = median[peer] / median["warm"]
            yield row("sha256 per row, wall, warm", peer, median[peer], median["warm"], "s", ratio, "≥ 1.0")


def vectorized(folder, options):
    """x * 2 on Arrow arrays: what a call costs."""
    count = rows_of(options)
    source = make(folder, "functions", count, 16)
    rates = []
    for _ in range(options.repeat):
        data = copy(source, folder, "vectorized")
        with Gateway(data, config(folder)) as gateway, gateway.connect() as client:
            declare(client, "(x float64) RETURNS float64", DOUBLE, "WITH (mode = 'vectorized')")
            for column in ["y", "z"]:
                client.execute(f"ALTER TABLE t ADD COLUMN {column} AS f(x)")
            refresh(client, "y")
            rates.append(count / refresh(client, "z")[0] / 1e6)
    yield row("x * 2 vectorized, warm", None, None, statistics.median(rates), "M rows/s", None, "≥ 5")


def failing(folder, options):
    """1 % of the rows raise and are skipped, beside the same Function on the same rows, of which none raises."""
    count = rows_of(options)
    source = make(folder, "functions", count, 16)
    seconds = {"clean": [], "skipping": []}
    for _ in range(options.repeat):
        data = copy(source, folder, "failing")
        with Gateway(data, config(folder)) as gateway, gateway.connect() as client:
            for name, digits, failed in [("clean", 100, 0), ("skipping", 7, count // 100)]:
                declare(client, "(id int64, s utf8) RETURNS utf8", HASH_BUT.format(digits=digits))
                client.execute(f"ALTER TABLE t ADD COLUMN {name} AS f(id, s)")
                skip = "WITH (error_policy = 'skip')"
                # Its worker is warm then.
                refresh(client, name, f"WHERE id < 100 {skip}")
                took, *told = refresh(client, name, f"WHERE id >= 0 {skip}")
                assert told == [count - failed, failed], told
                seconds[name].append(took)
    clean, skipping = (statistics.median(times) for times in seconds.values())
    yield row("1 % of the rows fail under skip", "clean rows", clean, skipping, "s", skipping / clean, "≤ 1.1")


def embed(ids):
    """What EMBED computes, here."""
    values = np.sin(np.outer(ids % 997 + 1, np.linspace(0.1, 3.0, 384, dtype=np.float32))).astype(np.float32)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 384)


def pylance_embedding(path):
    @lance.batch_udf(output_schema=pa.schema([("y", pa.list_(pa.float32(), 384))]))
    def embeds(batch):
        return pa.record_batch([embed(batch.column("id").to_numpy())], names=["y"])

    lance.dataset(str(path)).add_columns(embeds, read_columns=["id"])


def embedding(folder, options):
    """A column of 384 floats over 200,000 rows of which 1 % are poisoned."""
    count = min(200_000, options.rows)
    source = make(folder, "embedding", count, 8)
    ids = lance.dataset(str(source)).to_table(columns=["id"]).column("id").to_numpy()
    bare, peer, clean, poisoned = [], [], [], []
    for _ in range(options.repeat):
        bare.append(timed(lambda: [embed(ids[at : at + BATCH]) for at in range(0, len(ids), BATCH)]))
        peer.append(timed(lambda: pylance_embedding(copy(source, folder, "pylance") / "t.lance")))
        data = copy(source, folder, "embedding")
        with Gateway(data, config(folder)) as gateway, gateway.connect() as client:
            signature = "(id int64) RETURNS fixed_size_list<float32, 384>"
            declare(client, signature, EMBED, "WITH (mode = 'vectorized')")
            client.execute("ALTER TABLE t ADD COLUMN y AS f(id)")
            client.execute("ALTER TABLE t ADD COLUMN z AS f(id) FILTER (WHERE id % 100 <> 7)")
            seconds, assigned, failed = refresh(client, "y", "WITH (error_policy = 'skip')")
            assert (assigned, failed) == (count - count // 100, count // 100), (assigned, failed)
            poisoned.append(seconds)
            check_vectors(client, lance.dataset(str(data / "t.lance")), count)
            clean.append(refresh(client, "z")[0])
    bare, peer, clean, poisoned = (statistics.median(times) for times in (bare, peer, clean, poisoned))
    what = f"384 floats per row, {count:,} rows"
    yield row(f"{what}, bare numpy in memory", "bare numpy", bare, clean, "s", clean / bare, None)
    yield row(f"{what}, no poisoned row", "pylance", peer, clean, "s", peer / clean, "≥ 1.0")
    yield row(f"{what}, 1 % poisoned and skipped", "no poisoned row", clean, poisoned, "s", poisoned / clean, None)
    yield row(f"{what}, 1 % poisoned: rows", None, None, count / poisoned, "rows/s", None, None)


def check_vectors(client, dataset, count):
    """Every poisoned row is NULL and listed, every other has its vector."""
    empty = client.execute("SELECT count(*) FROM t WHERE y IS NULL AND id % 100 = 7").fetchone()[0]
    assert empty == count // 100, f"{empty} poisoned rows are NULL"
    listed = client.execute("SELECT count(*) FROM function_errors('t') WHERE error_type = 'ValueError'").fetchone()[0]
    assert listed == count // 100, f"{listed} errors are listed"
    some = dataset.to_table(columns=["id", "y"], filter="id % 1001 = 0 AND id % 100 <> 7")
    wanted = embed(some.column("id").to_numpy()).flatten().to_numpy()
    found = some.column("y").combine_chunks().flatten().to_numpy()
    assert len(found) == len(wanted) and np.allclose(found, wanted, atol=1e-6), "vectors differ"


def waiting(folder, options):
    """5 ms of sleep for each row, in 32 processes: what is left of the concurrency."""
    for count in (2_000, 20_000):
        count = min(count, options.rows)
        processes = 32
        source = make(folder, "waiting", count, processes)
        times = []
        for _ in range(options.repeat):
            data = copy(source, folder, "waiting")
            with Gateway(data, config(folder, f"[column_refresh]\nworkers = {processes}\n")) as gateway:
                with gateway.connect() as client:
                    declare(client, "(id int64) RETURNS int64", WAIT)
                    for column in ["y", "z"]:
                        client.execute(f"ALTER TABLE t ADD COLUMN {column} AS f(id)")
                    refresh(client, "y")
                    seconds, assigned, _ = refresh(client, "z")
                    assert assigned == count, assigned
                    times.append(seconds)
        ideal = count * WAIT_SECONDS / processes
        what = f"5 ms per row, {count:,} rows, {processes} processes, warm"
        yield row(what, "ideal", ideal, statistics.median(times), "s", ideal / statistics.median(times), "≥ 0.9")
