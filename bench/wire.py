"""The wire beside PostgreSQL's own, in the same run."""

import os
import pathlib
import re
import shutil
import statistics
import subprocess
import time

import psycopg

from gateway import PASSWORD, Gateway, timed
from refresh import row

BIN = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))


class Postgres:
    """A private PostgreSQL server on a loopback port; ends with the `with` block."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / "postgres"
        self.host, self.port = "127.0.0.1", "54329"

    def as_owner(self, *command):
        """The server refuses to run as root."""
        prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        subprocess.run([*prefix, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.folder.parent.chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        data = str(self.folder / "data")
        self.as_owner(str(BIN[-1] / "initdb"), "-D", data, "-U", "lancegate", "-A", "trust", "--no-sync")
        settings = f"-p {self.port} -h {self.host} -k {self.folder}"
        self.as_owner(str(BIN[-1] / "pg_ctl"), "-D", data, "-w", "-o", settings, "-l", str(self.folder / "log"), "start")
        self.data = data
        with psycopg.connect(host=self.host, port=self.port, user="lancegate", dbname="postgres", autocommit=True) as client:
            client.execute("CREATE DATABASE lancegate")
        return self

    def __exit__(self, *_):
        self.as_owner(str(BIN[-1] / "pg_ctl"), "-D", self.data, "-m", "immediate", "stop")

    def connect(self):
        return psycopg.connect(host=self.host, port=self.port, user="lancegate", dbname="lancegate", autocommit=True)


def pgbench(server, script, clients, seconds, folder, protocol="simple"):
    """Returns transactions per second and the sorted latencies in ms."""
    file = folder / "script.sql"
    file.write_text(script)
    for old in folder.glob("pgbench_log*"):
        old.unlink()
    command = ["pgbench", "-n", "-f", str(file), "-c", str(clients), "-j", "2", "-T", str(seconds), "-M", protocol, "-l"]
    command += ["-h", server.host, "-p", str(server.port), "-U", "lancegate", "lancegate"]
    environment = {**os.environ, "PGPASSWORD": PASSWORD}
    output = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    if output.returncode != 0:
        raise SystemExit(f"pgbench failed: {output.stderr}")
    rate = float(re.search(r"tps = ([0-9.]+)", output.stdout).group(1))
    latencies = []
    for log in folder.glob("pgbench_log*"):
        latencies += [int(line.split()[2]) / 1e3 for line in log.read_text().splitlines()]
    return rate, sorted(latencies)


def compare(folder, options, script, prepare, what, target_rate, target_tail, protocol="simple"):
    data = folder / f"wire-{what.split()[0]}"
    data.mkdir(exist_ok=True)
    ours, theirs = [], []
    with Postgres(folder) as peer, Gateway(data) as gateway:
        for server in (peer, gateway):
            with server.connect() as client:
                for statement in prepare:
                    client.execute(statement)
        for _ in range(max(3, options.repeat // 2)):
            theirs.append(pgbench(peer, script, 8, 4, folder, protocol))
            ours.append(pgbench(gateway, script, 8, 4, folder, protocol))
    rate = [statistics.median(result[0] for result in results) for results in (theirs, ours)]
    yield row(f"{what}, 8 clients", "PostgreSQL", rate[0], rate[1], "1/s", rate[1] / rate[0], target_rate)
    for name, share in [("p50", 0.5), ("p99", 0.99)]:
        tail = [statistics.median(r[1][int(len(r[1]) * share)] for r in results) for results in (theirs, ours)]
        target = target_tail if name == "p99" else None
        yield row(f"{what} {name}", "PostgreSQL", tail[0], tail[1], "ms", tail[1] / tail[0] if tail[0] else None, target)


def select_one(folder, options):
    yield from compare(folder, options, "SELECT 1;\n", [], "SELECT 1", "≥ 0.5", "≤ 2")
    yield from compare(folder, options, "SELECT 1;\n", [], "prepared SELECT 1", "≥ 0.5", "≤ 2", "prepared")
    # No text twice: nothing that was parsed or planned before is of use.
    script = "\\set n random(1, 1000000000)\nSELECT :n;\n"
    yield from compare(folder, options, script, [], "new SELECT n", None, None)


def point_select(folder, options):
    prepare = [
        "CREATE TABLE points AS SELECT i AS id, i * 0.5 AS x FROM generate_series(1, 200000) AS s(i)",
    ]
    script = "\\set id random(1, 200000)\nSELECT x FROM points WHERE id = :id;\n"
    yield from compare(folder, options, script, prepare, "point select without index", None, None)
    yield from compare(folder, options, script, prepare, "prepared point select", None, None, "prepared")
    prepare.append("CREATE INDEX ON points (id)")
    yield from compare(folder, options, script, prepare, "indexed point select", "≥ 2,000/s", "≤ 10 ms")
    yield from compare(folder, options, script, prepare, "prepared-indexed point select", None, None, "prepared")


def stream(folder, options):
    """One million rows of int8, float8 and text to psql and psycopg."""
    make = "CREATE TABLE big AS SELECT i AS id, i * 0.5::float8 AS x, 'row number ' || i AS s FROM generate_series(1, 1000000) AS t(i)"
    make_ours = make.replace("i * 0.5::float8", "cast(i as double) * 0.5")
    data = folder / "wire-stream"
    data.mkdir(exist_ok=True)
    with Postgres(folder) as peer, Gateway(data) as gateway:
        for server, statement in ((peer, make), (gateway, make_ours)):
            with server.connect() as client:
                client.execute(statement)
        for what, fetch in [("text", fetch_text), ("binary", fetch_binary), ("psql", fetch_psql)]:
            times = {peer: [], gateway: []}
            for _ in range(options.repeat):
                for server in (peer, gateway):
                    times[server].append(timed(lambda: fetch(server)))
            theirs, ours = (1 / statistics.median(times[server]) for server in (peer, gateway))
            yield row(f"1M rows, {what}", "PostgreSQL", theirs, ours, "M rows/s", ours / theirs, "≥ 1.0")
        first = {peer: [], gateway: []}
        for _ in range(options.repeat):
            for server in (peer, gateway):
                first[server].append(first_row(server))
        theirs, ours = (statistics.median(first[server]) * 1e3 for server in (peer, gateway))
        yield row("first row of 1M", "PostgreSQL", theirs, ours, "ms", ours / theirs, "≤ 15 ms")


def copy(folder, options):
    """One million rows of int8, float8 and text, copied out and in again."""
    data = folder / "wire-copy"
    data.mkdir(exist_ok=True)
    with Postgres(folder) as peer, Gateway(data) as gateway:
        for server, double in ((peer, "float8"), (gateway, "double")):
            with server.connect() as client:
                client.execute(
                    f"CREATE TABLE big AS SELECT cast(i as bigint) AS id, cast(i as {double}) * 0.5 AS x, 'row number ' || i AS s"
                    " FROM generate_series(1, 1000000) AS t(i)"
                )
        for what in ["text", "csv", "binary"]:
            out, taken = {peer: [], gateway: []}, {peer: [], gateway: []}
            for _ in range(options.repeat):
                for server in (peer, gateway):
                    chunks = []
                    out[server].append(timed(lambda: copy_out(server, what, chunks)))
                    taken[server].append(timed(lambda: copy_in(server, what, chunks)))
            for direction, times in [("out", out), ("in", taken)]:
                theirs, ours = (1 / statistics.median(times[server]) for server in (peer, gateway))
                yield row(f"COPY {direction} of 1M rows, {what}", "PostgreSQL", theirs, ours, "M rows/s", ours / theirs, "≥ 1.0")


def copy_out(server, what, chunks):
    with server.connect() as client, client.cursor() as cursor:
        with cursor.copy(f"COPY big (id, x, s) TO STDOUT (FORMAT {what})") as data:
            chunks.extend(bytes(chunk) for chunk in data)


def copy_in(server, what, chunks):
    """The data in pieces of about 64 KiB, as clients send files, into a fresh table."""
    whole = b"".join(chunks)
    with server.connect() as client, client.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS taken")
        cursor.execute("CREATE TABLE taken (id bigint, x double precision, s text)")
        with cursor.copy(f"COPY taken FROM STDIN (FORMAT {what})") as data:
            for start in range(0, len(whole), 65_536):
                data.write(whole[start : start + 65_536])
        assert cursor.rowcount == 1_000_000, cursor.rowcount


def fetch_text(server, binary=False):
    with server.connect() as client, client.cursor(binary=binary) as cursor:
        cursor.execute("SELECT id, x, s FROM big")
        assert len(cursor.pgresult.get_value(0, 0)) > 0 and cursor.rowcount == 1_000_000


def fetch_binary(server):
    fetch_text(server, binary=True)


def fetch_psql(server):
    command = ["psql", "-h", server.host, "-p", str(server.port), "-U", "lancegate", "-d", "lancegate", "-A", "-t", "-q"]
    command += ["--set", "FETCH_COUNT=0", "-o", "/dev/null", "-c", "SELECT id, x, s FROM big"]
    subprocess.run(command, env={**os.environ, "PGPASSWORD": PASSWORD}, check=True)


def first_row(server):
    with server.connect() as client:
        started = time.perf_counter()
        for _ in client.cursor().stream("SELECT id, x, s FROM big"):
            elapsed = time.perf_counter() - started
            break
        client.cancel()
    return elapsed
