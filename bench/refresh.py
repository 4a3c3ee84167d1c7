"""Refreshing computed columns: throughput, cost of small changes, handles."""

import pathlib
import shutil
import statistics

import lance
import lancedb
import pyarrow as pa
import pyarrow.compute as pc

from gateway import Gateway, timed

# The Debian package libeatmydata1.
EATMYDATA = "/usr/lib/x86_64-linux-gnu/libeatmydata.so"


def make(folder, name, rows, fragments):
    """Writes a table of `rows` rows in `fragments` fragments once per run."""
    path = folder / f"{name}-{rows}-{fragments}.source" / "t.lance"
    if path.exists():
        return path
    per_file = -(-rows // fragments)

    def batches():
        for start in range(0, rows, per_file):
            ids = pa.array(range(start, min(rows, start + per_file)), pa.int64())
            x = pc.multiply(pc.cast(ids, pa.float64()), 0.5)
            text = pc.binary_join_element_wise(pc.cast(ids, pa.string()), "some text of about thirty bytes", " ")
            yield pa.record_batch([ids, x, text], names=["id", "x", "s"])

    schema = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
    lance.write_dataset(
        pa.RecordBatchReader.from_batches(schema, batches()),
        str(path),
        schema=schema,
        max_rows_per_file=per_file,
        data_storage_version="2.1",
        enable_stable_row_ids=True,
    )
    return path


def copy(source, folder, tag):
    """A fresh data folder that holds a copy of one table as t.lance."""
    target = folder / f"copy-{tag}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    shutil.copytree(source, target / "t.lance")
    return target


def full(folder, options):
    """x * 2 over the large table: ours, plain Lance scan + write, embedded lancedb."""
    source = make(folder, "large", options.rows, 40)
    ours, unflushed, plain, embedded, peaks = [], [], [], [], []
    for _ in range(options.repeat):
        data = copy(source, folder, "plain")
        dataset = lance.dataset(str(data / "t.lance"))
        plain.append(timed(lambda: dataset.add_columns({"y": "x * 2"})))

        data = copy(source, folder, "embedded")
        table = lancedb.connect(str(data)).open_table("t")
        table.add_columns(computed={"y": "x * 2"})
        embedded.append(timed(lambda: table.refresh_column("y")))

        for times, preload in [(ours, None), (unflushed, EATMYDATA)]:
            if preload and not pathlib.Path(preload).exists():
                continue
            data = copy(source, folder, "ours")
            with Gateway(data, preload=preload) as gateway, gateway.connect() as client:
                client.execute("ALTER TABLE t ADD COLUMN y AS x * 2")
                times.append(timed(lambda: client.execute("REFRESH COLUMN y ON t WAIT")))
                wrong = client.execute("SELECT count(*) FROM t WHERE y IS DISTINCT FROM x * 2").fetchone()[0]
                assert wrong == 0, f"{wrong} wrong values"
                peaks.append(gateway.peak_mib())
    rate = options.rows / statistics.median(ours) / 1e6
    if unflushed:
        # What durability costs: fsync does nothing here. lancedb never calls it.
        without = options.rows / statistics.median(unflushed) / 1e6
        peer_rate = options.rows / statistics.median(embedded) / 1e6
        yield row("x * 2 without fsync", "embedded lancedb", peer_rate, without, "M rows/s", without / peer_rate, "≥ 1.0")
    for peer, times, target in [("lance scan + write", plain, "≥ 0.6"), ("embedded lancedb", embedded, "≥ 1.0")]:
        if times:
            peer_rate = options.rows / statistics.median(times) / 1e6
            yield row("x * 2 over all rows", peer, peer_rate, rate, "M rows/s", rate / peer_rate, target)
    yield row("peak memory of the gateway", None, None, max(peaks), "MiB", None, "≤ 768")


def incremental(folder, options):
    """Nothing changed, then 1,000 changed rows, at two sizes."""
    sizes = [options.rows // 100, options.rows]
    nothing, changed = {}, {}
    for rows in sizes:
        data = copy(make(folder, "size", rows, 40), folder, f"incremental-{rows}")
        with Gateway(data) as gateway, gateway.connect() as client:
            client.execute("ALTER TABLE t ADD COLUMN y AS x * 2")
            client.execute("REFRESH COLUMN y ON t WAIT")
            nothing[rows] = statistics.median(
                timed(lambda: client.execute("REFRESH COLUMN y ON t WAIT")) for _ in range(options.repeat)
            )
            times = []
            for index in range(options.repeat):
                step = rows // 1000
                client.execute(f"UPDATE t SET x = x + 1 WHERE id % {step} = {index % step}")
                answer = []
                times.append(timed(lambda: answer.extend(client.execute("REFRESH COLUMN y ON t WAIT").fetchall())))
                assigned = answer[0][4]
                assert assigned == 1000, f"computed {assigned} rows for 1,000 changed ones"
            changed[rows] = statistics.median(times)
    small, large = sizes
    for rows in sizes:
        yield row(f"nothing to do at {rows:,} rows", None, None, nothing[rows] * 1e3, "ms", None, "≤ 15")
    ratio = changed[large] / changed[small]
    yield row(
        f"1,000 changed rows at {large:,} rows", f"at {small:,}", changed[small] * 1e3, changed[large] * 1e3, "ms", ratio, "≤ 1.5"
    )


def fragments(folder, options):
    """Nothing to do and 1,000 changed rows against the number of fragments."""
    rows = 1_000_000
    nothing, changed = {}, {}
    for count in [4, 100, 1000, 4000]:
        data = copy(make(folder, "ladder", rows, count), folder, f"ladder-{count}")
        with Gateway(data) as gateway, gateway.connect() as client:
            client.execute("ALTER TABLE t ADD COLUMN y AS x * 2")
            client.execute("REFRESH COLUMN y ON t WAIT")
            nothing[count] = statistics.median(
                timed(lambda: client.execute("REFRESH COLUMN y ON t WAIT")) for _ in range(options.repeat)
            )
            times = []
            for index in range(options.repeat):
                client.execute(f"UPDATE t SET x = x + 1 WHERE id % 1000 = {index}")
                times.append(timed(lambda: client.execute("REFRESH COLUMN y ON t WAIT")))
            changed[count] = statistics.median(times)
    for count, target in [(100, "≤ 15"), (4000, "≤ 40")]:
        yield row(f"nothing to do at {count} fragments", None, None, nothing[count] * 1e3, "ms", None, target)
    yield row(
        "1,000 changed rows at 4,000 fragments",
        "at 4",
        changed[4] * 1e3,
        changed[4000] * 1e3,
        "ms",
        changed[4000] / changed[4],
        "≤ 3",
    )


def small(folder, options):
    """Append 1 % and update 1 % of a million rows, then refresh: ours and embedded lancedb."""
    rows = options.rows // 10
    source = make(folder, "small", rows, 16)
    share = rows // 100
    peer = {"append": [], "update": []}
    table = lancedb.connect(str(copy(source, folder, "small-embedded"))).open_table("t")
    table.add_columns(computed={"y": "x * 2"})
    table.refresh_column("y")
    for index in range(options.repeat):
        ids = pa.array(range(rows + index * share, rows + (index + 1) * share), pa.int64())
        x = pc.multiply(pc.cast(ids, pa.float64()), 0.5)
        table.add(pa.table({"id": ids, "x": x, "s": pc.cast(ids, pa.string())}))
        peer["append"].append(timed(lambda: table.refresh_column("y")))
        table.update(where=f"id % 100 = {index} AND id < {rows}", values_sql={"x": "x + 1"})
        peer["update"].append(timed(lambda: table.refresh_column("y")))
    times = {"append": [], "update": []}
    with Gateway(copy(source, folder, "small")) as gateway, gateway.connect() as client:
        client.execute("ALTER TABLE t ADD COLUMN y AS x * 2")
        client.execute("REFRESH COLUMN y ON t WAIT")
        for index in range(options.repeat):
            first = rows + index * share
            client.execute(
                "INSERT INTO t (id, x, s) SELECT i, i * 0.5, CAST(i AS text)"
                f" FROM generate_series({first}, {first + share - 1}) AS g(i)"
            )
            times["append"].append(timed(lambda: exactly(client, share)))
            client.execute(f"UPDATE t SET x = x + 1 WHERE id % 100 = {index} AND id < {rows}")
            times["update"].append(timed(lambda: exactly(client, share)))
    for change, what in [("append", "1 % appended"), ("update", "1 % updated, scattered")]:
        ours, theirs = statistics.median(times[change]) * 1e3, statistics.median(peer[change]) * 1e3
        yield row(f"refresh of {what}", "embedded lancedb", theirs, ours, "ms", ours / theirs, "≤ 1.0")


def exactly(client, rows, predicate=""):
    """Refreshes and makes sure that so many rows were computed."""
    answer = client.execute(f"REFRESH COLUMN y ON t {predicate} WAIT").fetchone()
    assert answer[4] == rows, f"computed {answer[4]} rows instead of {rows}"


def filtered(folder, options):
    """The rows of a predicate, computed again: 1 % of the large table."""
    rows = options.rows
    data = copy(make(folder, "large", rows, 40), folder, "filtered")
    with Gateway(data) as gateway, gateway.connect() as client:
        client.execute("ALTER TABLE t ADD COLUMN y AS x * 2")
        whole = timed(lambda: exactly(client, rows))
        times = []
        for index in range(options.repeat):
            first = index * rows // 10
            predicate = f"WHERE id >= {first} AND id < {first + rows // 100}"
            times.append(timed(lambda: exactly(client, rows // 100, predicate)))
    ours = statistics.median(times) * 1e3
    yield row("1 % of the rows by a predicate", "all rows", whole * 1e3, ours, "ms", ours / (whole * 1e3), None)


def plan(folder, options):
    """Commits of a refresh of 1,000 fragments, and the plan of one of 100,000."""
    data = copy(make(folder, "ladder", 1_000_000, 1000), folder, "commits")
    with Gateway(data) as gateway, gateway.connect() as client:
        client.execute("ALTER TABLE t ADD COLUMN y AS x * 2")
        before = lance.dataset(str(data / "t.lance")).version
        exactly(client, 1_000_000)
        commits = lance.dataset(str(data / "t.lance")).version - before
        yield row("commits of a refresh of 1,000 fragments", None, None, commits, "commits", None, "≤ 12")
    data = many_fragments(folder, 100_000)
    with Gateway(data) as gateway, gateway.connect() as client:
        client.execute("ALTER TABLE t ADD COLUMN y AS x * 2")
        times = [timed(lambda: client.execute("EXPLAIN REFRESH COLUMN y ON t").fetchall()) for _ in range(options.repeat)]
        yield row("plan over 100,000 fragments", None, None, statistics.median(times), "s", None, "≤ 0.5")
        yield row("peak memory of that", None, None, gateway.peak_mib(), "MiB", None, "≤ 1024")


def many_fragments(folder, count):
    """A table whose fragments all have the same file: what a plan sees of a large one."""
    data = folder / "many"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    uri = str(data / "t.lance")
    table = pa.table({"id": pa.array([1], pa.int64()), "x": pa.array([0.5])})
    dataset = lance.write_dataset(table, uri, data_storage_version="2.1", enable_stable_row_ids=True)
    [metadata] = lance.fragment.write_fragments(table, uri, mode="append", data_storage_version="2.1")
    operation = lance.LanceOperation.Append([metadata] * (count - 1))
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)
    return data


def handle(folder, options):
    """How long a client waits for the handle of a refresh."""
    for count, rows in [(1, 1_000), (4000, 1_000_000)]:
        data = copy(make(folder, "ladder", rows, count), folder, f"handle-{count}")
        with Gateway(data) as gateway, gateway.connect() as client:
            client.execute("ALTER TABLE t ADD COLUMN y AS x * 2")
            times = []
            for _ in range(200):
                times.append(timed(lambda: submitted(client)))
                client.execute(f"WAIT JOB '{submitted.job}'")
        times.sort()
        for name, share, target in [("p50", 0.5, "≤ 8"), ("p99", 0.99, "≤ 30")]:
            value = times[int(len(times) * share)] * 1e3
            yield row(f"early handle {name}, {count} fragments", None, None, value, "ms", None, target)


def submitted(client):
    answer = client.execute("REFRESH COLUMN y ON t NOWAIT").fetchone()
    assert answer[2] == "submitted", answer
    submitted.job = answer[3]


def row(what, peer, peer_value, ours, unit, ratio, target):
    return {
        "what": what,
        "peer": peer,
        "peer_value": peer_value,
        "ours": ours,
        "unit": unit,
        "ratio": ratio,
        "target": target,
    }
