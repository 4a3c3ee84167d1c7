"""The servers of a run: a gateway, or a PostgreSQL of this machine, on free loopback ports, in temporary folders."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

PASSWORD = "pass word"
START_SECONDS = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def free_pair():
    """A free port of which the next one is free, too: LanceDB's clients look for Flight SQL there."""
    while True:
        port = free_port()
        try:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port + 1))
                return port
        except (OSError, OverflowError):
            continue


class Server:
    """A running server: where it is, and what is wrong with it."""

    def __init__(self, child, port, log, http=None):
        self.child, self.port, self.log, self.http = child, port, log, http

    def environment(self):
        """The variables that libpq, and most clients, look at."""
        found = {
            "PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": "lancegate", "PGPASSWORD": PASSWORD,
            "PGDATABASE": "lancegate",
        }
        if self.http is None:
            found["CONFORMANCE_REFERENCE"] = "1"
        else:
            found["LANCEGATE_HTTP"] = f"http://127.0.0.1:{self.http}"
        return found

    def trouble(self):
        """Why this server did not come out of the run as it went in; empty if it did."""
        if self.child.poll() is not None:
            return f"the server ended with {self.child.returncode}"
        if self.http is None:
            return ""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        panics = re.search(r"^gateway_statement_panics_total (\d+)", text, re.MULTILINE)
        if panics and panics.group(1) != "0":
            return f"{panics.group(1)} statements panicked"
        return ""

    def keep_log(self, to):
        shutil.copy(self.log, to)


def stop(child, number=signal.SIGTERM):
    if child.poll() is None:
        child.send_signal(number)
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def wait_until(asked, child, log):
    """Waits until `asked` returns without an error; tells what the server said if it ends first."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            return asked()
        except OSError as error:
            if child.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server did not start: {pathlib.Path(log).read_text()[-2000:]}") from error
        time.sleep(0.05)


@contextlib.contextmanager
def gateway(program):
    with tempfile.TemporaryDirectory(prefix="conformance-data-") as folder:
        data, log = pathlib.Path(folder, "data"), pathlib.Path(folder, "log")
        data.mkdir()
        port, http = free_port(), free_pair()
        command = [program, "serve", "--data", str(data), "--pg-listen", f"127.0.0.1:{port}"]
        command += ["--http-listen", f"127.0.0.1:{http}", "--flight-listen", f"127.0.0.1:{http + 1}"]
        # The gateway takes every LANCEGATE_… variable for a key of its configuration.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LANCEGATE_")}
        environment["LANCEGATE_PASSWORD"] = PASSWORD
        with open(log, "wb") as out:
            child = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            wait_until(lambda: urllib.request.urlopen(f"http://127.0.0.1:{http}/readyz", timeout=5).close(), child, log)
            yield Server(child, port, log, http)
        finally:
            stop(child)


def postgres_programs():
    """The folder of the newest PostgreSQL server of this machine."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda file: int(file.parts[4]))
    if not found:
        raise RuntimeError("no PostgreSQL server is installed; the package of Debian is postgresql")
    return found[-1].parent


@contextlib.contextmanager
def postgres():
    """A PostgreSQL with user and database lancegate. It does not run as root: then user postgres runs it."""
    programs = postgres_programs()
    account = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="conformance-postgres-") as folder:
        if account:
            shutil.chown(folder, "postgres", "postgres")
        password, log = pathlib.Path(folder, "password"), pathlib.Path(folder, "log")
        password.write_text(PASSWORD + "\n")
        password.chmod(0o644)
        data = f"{folder}/data"
        initdb = [programs / "initdb", "-D", data, "-U", "lancegate", "--pwfile", password, "-A", "scram-sha-256"]
        initdb += ["-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        subprocess.run(initdb, check=True, cwd=folder, stdout=subprocess.DEVNULL, **account)
        port = free_port()
        command = [programs / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", folder, "-F"]
        with open(log, "wb") as out:
            child = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, **account)
        server = Server(child, port, log)
        try:
            psql = [programs / "psql", "-X", "-q", "-d", "postgres", "-c", "CREATE DATABASE lancegate"]

            def create():
                done = subprocess.run(psql, env={**os.environ, **server.environment()}, capture_output=True, check=False)
                if done.returncode:
                    raise OSError(done.stderr.decode(errors="replace"))

            wait_until(create, child, log)
            yield server
        finally:
            stop(child, signal.SIGINT)


def start(reference, program):
    return postgres() if reference else gateway(program)


@contextlib.contextmanager
def beside(wanted):
    """A PostgreSQL for a client that needs one; yields the variables that say where it is."""
    if not wanted:
        yield {}
        return
    with postgres() as server:
        yield {"POSTGRES_PORT": str(server.port), "POSTGRES_BIN": str(postgres_programs())}
