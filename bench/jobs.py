"""The job registry with a long history: listing, submitting, claiming, starting.

There is no peer with the same guarantees; the figures stand beside their targets.
"""

import os
import pathlib
import re
import sqlite3
import subprocess
import threading
import time

import psycopg

from gateway import ROOT, Gateway, program, timed
from refresh import row

ARCHIVED = 1_000_000
ACTIVE = 10_000
SUBMITTERS = 8
# Enough that a column is free again when its turn comes: one refresh of a column runs at a time.
COLUMNS = 32
SUBMITTING_SECONDS = 10


def registry(folder, options):
    """One million ended jobs and ten thousand unfinished ones, while a refresh keeps both processors busy."""
    data = folder / "registry"
    with Gateway(data) as gateway, gateway.connect() as client:
        client.execute("CREATE TABLE t (id BIGINT, body TEXT)")
        client.execute("INSERT INTO t SELECT g, 'abcdefghij' FROM generate_series(1, 1000000) AS s(g)")
        client.execute("ALTER TABLE t ADD COLUMN busy AS (sha512(sha512(sha512(sha512(body)))))")
        for number in range(SUBMITTERS):
            client.execute(f"CREATE TABLE small_{number} (id BIGINT)")
            client.execute(f"INSERT INTO small_{number} VALUES (1)")
            for column in range(COLUMNS):
                client.execute(f"ALTER TABLE small_{number} ADD COLUMN c{column} AS (id + {column})")
        client.execute("CREATE TABLE claimed (id BIGINT)")
        client.execute("INSERT INTO claimed VALUES (1)")
        client.execute("ALTER TABLE claimed ADD COLUMN c0 AS (id + 1)")
        client.execute("REFRESH COLUMN c0 ON claimed WAIT")
    fill(data / "_lancegate" / "metadata.db")
    config = folder / "registry.toml"
    config.write_text("[jobs]\nretained_runs_max = 1000000\nuser_unfinished_max = 0\n")
    started = time.perf_counter()
    with Gateway(data, config) as gateway:
        yield row("start", None, None, time.perf_counter() - started, "s", None, "≤ 5")
        with gateway.connect() as client:
            yield from listings(client, "idle")
            with busy(gateway):
                yield from listings(client, "beside a refresh")
            yield from submissions(gateway)
            yield from claims(client)
    yield from registry_claims(folder)


def fill(path):
    """Copies the one job of the registry, which has ended, with other ids."""
    store = sqlite3.connect(path)
    columns = [name for _, name, *_ in store.execute("PRAGMA table_info(jobs)")]
    store.execute("PRAGMA synchronous = OFF")
    for state, phase, count, prefix in [("succeeded", "finished", ARCHIVED, 0), ("paused", "paused", ACTIVE, 1)]:
        values = {
            "job_id": f"substr(job_id, 1, 19) || printf('{prefix}%010d', value)",
            "state": f"'{state}'",
            "phase": f"'{phase}'",
            "exclusive_key": "NULL",
            "finished_at": "finished_at" if state == "succeeded" else "NULL",
            # The unfinished ones are the newest.
            "created_at": f"created_at - {ARCHIVED} + value + {prefix} * {ARCHIVED}",
        }
        chosen = ", ".join(values.get(name, name) for name in columns)
        numbers = f"WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < {count})"
        source = "(SELECT * FROM jobs ORDER BY created_at LIMIT 1)" if prefix == 0 else "(SELECT * FROM jobs WHERE state = 'succeeded' LIMIT 1)"
        store.execute(f"INSERT INTO jobs ({', '.join(columns)}) {numbers} SELECT {chosen} FROM {source}, n")
        store.commit()
    store.close()


def listings(client, beside):
    for limit, target in [(100, "≤ 10"), (1_000, None)]:
        times = sorted(timed(lambda: client.execute(f"SHOW JOBS LIMIT {limit}").fetchall()) for _ in range(300))
        for name, share in [("p50", 0.5), ("p99", 0.99)]:
            what = f"SHOW JOBS LIMIT {limit} {name}, {beside}"
            goal = target if name == "p99" else None
            yield row(what, None, None, times[int(len(times) * share)] * 1e3, "ms", None, goal)


class busy:
    """Refreshes a table over and over until the `with` block ends."""

    def __init__(self, gateway):
        self.gateway = gateway
        self.over = threading.Event()

    def __enter__(self):
        began = threading.Event()
        self.thread = threading.Thread(target=self.refresh, args=(began,))
        self.thread.start()
        began.wait(60)

    def refresh(self, began):
        with self.gateway.connect() as client:
            while not self.over.is_set():
                job = client.execute("REFRESH COLUMN busy ON t WHERE true NOWAIT").fetchone()[3]
                began.set()
                client.execute(f"WAIT JOB '{job}'")

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def submissions(gateway):
    """Handles per second that eight clients get; each is on disk when it is told."""
    counts, times = [], []

    def submit(number):
        count, own = 0, []
        with gateway.connect() as client:
            end = time.monotonic() + SUBMITTING_SECONDS
            while time.monotonic() < end:
                for column in range(COLUMNS):
                    statement = f"REFRESH COLUMN c{column} ON small_{number} WHERE id < 0 NOWAIT"
                    try:
                        own.append(timed(lambda: client.execute(statement)))
                        count += 1
                    except psycopg.errors.ObjectInUse:
                        continue
        counts.append(count)
        times.extend(own)

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(SUBMITTERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    claimed = claimed_jobs(gateway)
    times.sort()
    yield row("durable submits, 8 clients", None, None, sum(counts) / SUBMITTING_SECONDS, "/s", None, "≥ 150")
    yield row("their latency p99", None, None, times[int(len(times) * 0.99)] * 1e3, "ms", None, None)
    yield row("claimed and run meanwhile", None, None, claimed / SUBMITTING_SECONDS, "/s", None, None)


def claimed_jobs(gateway):
    with gateway.connect() as client:
        jobs = client.execute("SHOW JOBS LIMIT 10000").fetchall()
    return sum(job[1].startswith("small_") and job[3] != "queued" for job in jobs)


def registry_claims(folder):
    """Claims per second of the metadata store itself, by its own example program, if that was built."""
    folders = [pathlib.Path(program()).parent, pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "quick"]
    measure = next((path for path in (at / "examples" / "measure" for at in folders) if path.exists()), None)
    if measure is None:
        return
    told = subprocess.run([measure, folder], capture_output=True, text=True, check=True).stdout
    for what, name, goal in [("claim_next", "claims, 1 caller", "≥ 2000"), ("submit, 8", "submits, 8 callers", "≥ 150")]:
        line = next(line for line in told.splitlines() if line.startswith(what))
        rate = float(re.search(r"([0-9.]+)/s", line).group(1))
        yield row(f"metadata store: {name}", None, None, rate, "/s", None, goal)


def claims(client):
    """How long a submitted job waits for a free attempt."""
    waits = []
    for _ in range(200):
        job = client.execute("REFRESH COLUMN c0 ON claimed WHERE id < 0 NOWAIT").fetchone()[3]
        client.execute(f"WAIT JOB '{job}'")
        timeline = client.execute(f"DESCRIBE JOB '{job}' FORMAT TABLE").fetchall()
        waits.append(next(line[4] for line in timeline if line[0] == "timeline" and line[1] == "queued"))
    waits.sort()
    for name, share in [("p50", 0.5), ("p99", 0.99)]:
        yield row(f"submission to claim {name}", None, None, float(waits[int(len(waits) * share)]), "ms", None, None)
